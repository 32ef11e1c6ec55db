"""The KV configuration: strings by namespace and key, all that a name server keeps on the disk."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from pathlib import Path

import msgspec

from pocketmq.namesrv.kv_files import LOG_SIZE_MAX, Change, KVConfigError, KVFiles, Table, apply
from pocketmq.protocol.bodies.topics import KVTable

__all__ = ["ORDER_TOPIC_NAMESPACE", "KVConfig", "KVConfigError"]

ORDER_TOPIC_NAMESPACE = "ORDER_TOPIC_CONFIG"
"""The namespace that holds "broker-a:4;broker-b:4" for each topic that keeps an order."""

ENTRIES_MAX = 100_000
"""Keys of all namespaces together, and namespaces."""

TEXT_SIZE_MAX = 64 * 1024
"""Characters of one namespace, key or value."""

SIZE_MAX = 15 * 1024 * 1024
"""Bytes of the whole table in JSON: a list of its largest namespace (219) fits into one frame."""

AT_ONCE_KEYS_MAX = 1000
"""Keys that are encoded on the loop, which takes a millisecond."""

_encode = msgspec.json.encode
log = logging.getLogger("pocketmq.namesrv")


class KVConfig:
    """Tables of strings by namespace; a change is on the disk before readers see it.

    Changes are made one after the other, in the order in which they were asked for, and written by
    a thread. Each is a line of a log, which goes into the file when it is long, and at the end.

    Args:
        path: the file; None keeps the table in memory only.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._files = None if path is None else KVFiles(path)
        self._table: Table = {}
        self._count = self._size = 0
        self._listings: dict[str, bytes] = {}
        self._turn = asyncio.Lock()
        self._changes: set[asyncio.Task[None]] = set()
        self.generation = 0
        """A number that grows with every change."""

    def load(self) -> None:
        """Reads the files; takes missing ones for an empty table.

        Raises:
            KVConfigError: one is damaged or cannot be read.
        """
        if self._files is None:
            return
        self._table = self._files.load()
        self._count = sum(map(len, self._table.values()))
        self._size = sum(
            _size_of_namespace(namespace) + sum(_size(*item) for item in keys.items())
            for namespace, keys in self._table.items()
        )
        self.generation += 1

    def get(self, namespace: str, key: str) -> str | None:
        """Returns the value of a key."""
        return self._table.get(namespace, {}).get(key)

    def namespace(self, name: str) -> Mapping[str, str] | None:
        """Returns all keys of a namespace; None if nothing was ever put there."""
        return self._table.get(name)

    def listing_now(self, namespace: str) -> bytes | None:
        """Returns all keys of a namespace, none or more, as a `KVTable` in JSON.

        None if encoding them would take long, see `listing`.
        """
        keys = self._table.get(namespace, {})
        if len(keys) <= AT_ONCE_KEYS_MAX:
            return KVTable(table=keys).encode()
        return self._listings.get(namespace)

    async def listing(self, namespace: str) -> bytes:
        """Returns the same for as many keys as there may be."""
        if (found := self.listing_now(namespace)) is not None:
            return found
        generation, table = self.generation, KVTable(table=dict(self._table[namespace]))
        encoded = await asyncio.to_thread(table.encode)
        if self.generation == generation:
            self._listings[namespace] = encoded
        return encoded

    async def put(self, namespace: str, key: str, value: str) -> None:
        """Sets a key.

        Raises:
            KVConfigError: the table is full, the text too long, or the file cannot be written.
                Nothing has changed then.
        """
        if max(len(namespace), len(key), len(value)) > TEXT_SIZE_MAX:
            raise KVConfigError(self._path, f"a text is longer than {TEXT_SIZE_MAX} characters")
        await self._change((namespace, key, value))

    async def delete(self, namespace: str, key: str) -> None:
        """Removes a key; does nothing if there is none.

        Raises:
            KVConfigError: the file cannot be written. Nothing has changed then.
        """
        await self._change((namespace, key, None))

    async def close(self) -> None:
        """Ends the changes under way, and leaves all of them in the file."""
        while self._changes:
            await asyncio.wait(self._changes)
        async with self._turn:
            if self._files is not None and self._files.log_size:
                await self._fold(self._files)

    async def _change(self, change: Change) -> None:
        """Makes a change, also if whoever waits for it goes away."""
        task = asyncio.ensure_future(self._in_turn(change))
        self._changes.add(task)
        task.add_done_callback(self._ended)
        await asyncio.shield(task)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._changes.discard(task)
        if not task.cancelled():
            task.exception()  # whoever waits has it; the loop need not warn of it

    async def _in_turn(self, change: Change) -> None:
        namespace, key, value = change
        async with self._turn:
            before = self.get(namespace, key)
            if value is None and before is None:
                return
            count, size = self._checked(namespace, key, value, before)
            files = self._files
            if files is not None:
                try:
                    await asyncio.to_thread(files.append, change)
                except OSError as e:
                    raise KVConfigError(
                        self._path, f"it cannot be written, nothing was changed: {e.strerror or e}"
                    ) from e
            apply(self._table, change)
            self._count, self._size = count, size
            self._listings.pop(namespace, None)
            self.generation += 1
            if files is not None and files.log_size > max(LOG_SIZE_MAX, size):
                await self._fold(files)

    def _checked(
        self, namespace: str, key: str, value: str | None, before: str | None
    ) -> tuple[int, int]:
        """Returns how many keys and bytes there are after a change, if it may be made."""
        count, size = self._count, self._size
        if before is not None:
            count, size = count - 1, size - _size(key, before)
        if value is None:
            return count, size
        is_new = namespace not in self._table
        count, size = count + 1, size + _size(key, value)
        if is_new:
            size += _size_of_namespace(namespace)
        if count > max(ENTRIES_MAX, self._count) or (is_new and len(self._table) >= ENTRIES_MAX):
            raise KVConfigError(
                self._path, f"it holds {ENTRIES_MAX} keys, which is the limit: delete some first"
            )
        if size > max(SIZE_MAX, self._size):
            raise KVConfigError(
                self._path,
                f"it would have {size} bytes of JSON, and {SIZE_MAX} is the limit: delete some "
                f"keys first",
            )
        return count, size

    async def _fold(self, files: KVFiles) -> None:
        try:
            await asyncio.to_thread(files.fold, self._table)
        except OSError as e:
            log.warning("%s: it cannot be written, its changes stay in its log: %s", files.path, e)


def _size(key: str, value: str) -> int:
    return len(_encode(key)) + len(_encode(value)) + 2


def _size_of_namespace(name: str) -> int:
    return len(_encode(name)) + 4
