"""The KV configuration: strings by namespace and key, all that a name server keeps on the disk.

The file has the form of RocketMQ's own (`namesrv/kvconfig/KVConfigSerializeWrapper`), so that
either can take over the other's.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from pocketmq.protocol.errors import OperatingError

ORDER_TOPIC_NAMESPACE = "ORDER_TOPIC_CONFIG"
"""The namespace that holds "broker-a:4;broker-b:4" for each topic that keeps an order."""

ENTRIES_MAX = 100_000
"""Keys of all namespaces together; the whole table is written at each change."""

TEXT_SIZE_MAX = 64 * 1024
"""Characters of one namespace, key or value."""

Table = dict[str, dict[str, str]]


class KVConfigError(OperatingError):
    """The KV configuration cannot be read, written, or grow any further.

    Attributes:
        path: its file, if it has one.
        reason: what is wrong, and what to do.
    """

    def __init__(self, path: Path | None, reason: str) -> None:
        super().__init__(path, reason)
        self.path, self.reason = path, reason

    def __str__(self) -> str:
        where = f" in {self.path}" if self.path else ""
        return f"the KV configuration{where}: {self.reason}"


class _File(msgspec.Struct, rename="camel"):
    config_table: Table


class KVConfig:
    """Tables of strings by namespace; a change is on the disk before readers see it.

    Changes are rare and made by hand, so they are written on the spot, without a thread.

    Args:
        path: the file; None keeps the table in memory only.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._table: Table = {}
        self.generation = 0
        """A number that grows with every change."""

    def load(self) -> None:
        """Reads the file; takes a missing one for an empty table.

        Raises:
            KVConfigError: it is damaged or cannot be read.
        """
        if self._path is None:
            return
        try:
            self._table = msgspec.json.decode(self._path.read_bytes(), type=_File).config_table
        except FileNotFoundError:
            return
        except OSError as e:
            raise KVConfigError(self._path, f"it cannot be read: {e.strerror or e}") from e
        except (msgspec.DecodeError, UnicodeDecodeError) as e:
            raise KVConfigError(
                self._path,
                f"the file is damaged ({e}): restore it, or move it away to start with none",
            ) from e
        self.generation += 1

    def get(self, namespace: str, key: str) -> str | None:
        """Returns the value of a key."""
        return self._table.get(namespace, {}).get(key)

    def namespace(self, name: str) -> Mapping[str, str] | None:
        """Returns all keys of a namespace; None if nothing was ever put there."""
        return self._table.get(name)

    def put(self, namespace: str, key: str, value: str) -> None:
        """Sets a key.

        Raises:
            KVConfigError: the table is full, the text too long, or the file cannot be written.
                Nothing has changed then.
        """
        if max(len(namespace), len(key), len(value)) > TEXT_SIZE_MAX:
            raise KVConfigError(self._path, f"a text is longer than {TEXT_SIZE_MAX} characters")
        if self.get(namespace, key) is None and self._size() >= ENTRIES_MAX:
            raise KVConfigError(
                self._path, f"it holds {ENTRIES_MAX} keys, which is the limit: delete some first"
            )
        self._replace(namespace, {**self._table.get(namespace, {}), key: value})

    def delete(self, namespace: str, key: str) -> None:
        """Removes a key; does nothing if there is none.

        Raises:
            KVConfigError: the file cannot be written. Nothing has changed then.
        """
        keys = self._table.get(namespace, {})
        if key in keys:
            self._replace(namespace, {k: v for k, v in keys.items() if k != key})

    def _size(self) -> int:
        return sum(map(len, self._table.values()))

    def _replace(self, namespace: str, keys: dict[str, str]) -> None:
        table = {**self._table, namespace: keys}
        if self._path is not None:
            data = msgspec.json.format(msgspec.json.encode(_File(table)), indent=2)
            try:
                _write_atomically(self._path, data + b"\n")
            except OSError as e:
                raise KVConfigError(
                    self._path, f"it cannot be written, nothing was changed: {e.strerror or e}"
                ) from e
        self._table = table
        self.generation += 1


def _write_atomically(path: Path, data: bytes) -> None:
    """Replaces a file so that a crash at any moment leaves the old or the new content, whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".tmp")
    with temporary.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
