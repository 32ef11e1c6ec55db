"""A YAML file that knows its lines: errors in it name the file, the line and the key.

A key that does not exist, or that stands twice, is an error that names the nearest right one.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import yaml
from msgspec import inspect

from pocketmq.protocol.errors import ConfigError

SIZE_MAX = 1024 * 1024
"""Bytes of a file; the reader takes several seconds for that much."""

StructT = TypeVar("StructT", bound=msgspec.Struct)

KeyPath = tuple[str | int, ...]
"""The keys and indexes that lead to a value."""

MERGE_TAG = "tag:yaml.org,2002:merge"
"""YAML's ``<<``, which takes in the keys of another mapping."""

NULL_TAG = "tag:yaml.org,2002:null"

SIMILARITY_MIN = 0.6
"""Likeness (`difflib`, 0 to 1) from which on a known key is suggested for an unknown one."""


class YamlDocument:
    """One YAML file as nodes, which know their lines.

    Args:
        path: the file.
        has_columns: name places as ``file:line:column`` instead of as a line.
        size_max: bytes that it may have.

    Raises:
        ConfigError: it is missing, cannot be read, or is no YAML.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        has_columns: bool = False,
        size_max: int = SIZE_MAX,
    ) -> None:
        self.path, self._has_columns = Path(path), has_columns
        text = _file_text(self.path, size_max)
        try:
            self._loader = yaml.SafeLoader(text)
            self._root: yaml.Node | None = self._loader.get_single_node()
        except (yaml.YAMLError, RecursionError) as e:
            raise self._yaml_error(e) from e

    @property
    def is_empty(self) -> bool:
        """Whether the file has no value: only comments, perhaps a document mark."""
        return self._root is None or self._root.tag == NULL_TAG

    @property
    def is_mapping(self) -> bool:
        """Whether it consists of keys with values."""
        return isinstance(self._root, yaml.MappingNode)

    def convert(self, cls: type[StructT], *, strict: bool) -> StructT:
        """Converts the whole document to a struct.

        Args:
            cls: the struct; its names on the wire are the keys.
            strict: take no text for a number.

        Raises:
            ConfigError: a key is unknown or stands twice, or a value does not fit.
        """
        value: object = {}
        if not self.is_empty:
            assert self._root is not None
            self._check_keys(self._root, inspect.type_info(cls))
            try:
                value = self._loader.construct_document(self._root)
            except (yaml.YAMLError, RecursionError) as e:
                raise self._yaml_error(e) from e
        try:
            return msgspec.convert(value, cls, strict=strict)
        except msgspec.ValidationError as e:
            key_path, reason = explain(e, value, cls, strict=strict)
            where = self.at(key_path)
            if not key_path:
                raise ConfigError(f"{where}: {reason}") from e
            key = key_text(key_path)
            raise ConfigError(f"{where}: the value of {key} does not fit: {reason}") from e

    def at(self, key_path: KeyPath = ()) -> str:
        """Returns file and line of a value, or of the nearest one around it, for errors."""
        node = self._root
        found = node if not key_path else None
        for step in key_path:
            child: yaml.Node | None = None
            if isinstance(node, yaml.MappingNode):
                child = next((v for k, v in node.value if k.value == str(step)), None)
            elif isinstance(node, yaml.SequenceNode) and isinstance(step, int):
                child = node.value[step]
            if child is None:
                break
            node = found = child
        return self._at(found)

    def _at(self, node: yaml.Node | None) -> str:
        if node is None:
            return str(self.path)
        return self._at_mark(node.start_mark)

    def _at_mark(self, mark: yaml.Mark) -> str:
        if self._has_columns:
            return f"{self.path}:{mark.line + 1}:{mark.column + 1}"
        return f"{self.path}, line {mark.line + 1}"

    def _yaml_error(self, error: Exception) -> ConfigError:
        mark = getattr(error, "problem_mark", None)
        where = str(self.path) if mark is None else self._at_mark(mark)
        if isinstance(error, RecursionError):
            return ConfigError(f"{where}: this is nested too deeply")
        problem = getattr(error, "problem", None) or str(error)
        return ConfigError(f"{where}: this is no YAML: {problem}")

    def _check_keys(self, node: yaml.Node, kind: inspect.Type) -> None:
        """Refuses keys that the type of a node does not have, and keys that stand twice."""
        if isinstance(kind, inspect.UnionType):
            for member in kind.types:
                self._check_keys(node, member)
        elif isinstance(kind, inspect.StructType) and isinstance(node, yaml.MappingNode):
            kinds = {field.encode_name: field.type for field in kind.fields}
            for key_node, value_node in self._pairs(node):
                key = str(key_node.value)
                if key not in kinds:
                    raise ConfigError(
                        f"{self._at(key_node)}: unknown key {key!r}; {suggestion(key, kinds)}"
                    )
                self._check_keys(value_node, kinds[key])
        elif isinstance(kind, inspect.CollectionType) and isinstance(node, yaml.SequenceNode):
            for item in node.value:
                self._check_keys(item, kind.item_type)
        elif isinstance(kind, inspect.DictType) and isinstance(node, yaml.MappingNode):
            for _, value_node in self._pairs(node):
                self._check_keys(value_node, kind.value_type)

    def _pairs(self, node: yaml.MappingNode) -> Iterable[tuple[yaml.Node, yaml.Node]]:
        """Yields the keys of a mapping, which must differ, with their values."""
        seen: dict[str, yaml.Node] = {}
        for key_node, value_node in node.value:
            if key_node.tag == MERGE_TAG:
                continue
            key = str(key_node.value)
            if key in seen:
                first = seen[key].start_mark.line + 1
                raise ConfigError(
                    f"{self._at(key_node)}: the key {key!r} stands twice, first in line {first}"
                )
            seen[key] = key_node
            yield key_node, value_node


def _file_text(path: Path, size_max: int) -> str:
    try:
        if (size := path.stat().st_size) > size_max:
            raise ConfigError(f"{path} has {size} bytes, and may have {size_max}")
        return path.read_text(encoding="utf-8")
    except FileNotFoundError as e:
        raise ConfigError(f"the configuration file {path} does not exist") from e
    except OSError as e:
        reason = e.strerror or str(e)
        raise ConfigError(f"the configuration file {path} cannot be read: {reason}") from e
    except UnicodeDecodeError as e:
        raise ConfigError(f"the configuration file {path} is not UTF-8: {e}") from e


def suggestion(key: str, known: Iterable[str]) -> str:
    """Words a hint for an unknown key: the known key that is most like it."""
    by_lower = {name.lower(): name for name in known}
    near = difflib.get_close_matches(key.lower(), by_lower, n=1, cutoff=SIMILARITY_MIN)
    return f"did you mean {by_lower[near[0]]!r}?" if near else "no setting has a similar name"


# -- what msgspec says --------------------------------------------------------------------------

_WHERE = re.compile(r"(.*?)(?: - at (`key` in )?`\$(.*)`)?", re.DOTALL)
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]|(\[\.\.\.\])")


def explain(
    error: msgspec.ValidationError, value: object = None, cls: Any = None, *, strict: bool = True
) -> tuple[KeyPath, str]:
    """Takes a validation error apart into the path of the wrong value and the reason.

    msgspec does not tell which value of a table is wrong: each is tried by itself.

    Args:
        error: what it said.
        value: what was converted, for places within tables.
        cls: to which type.
        strict: as it was then.
    """
    match = _WHERE.fullmatch(str(error))
    assert match is not None, "the pattern matches any text"
    steps: list[str | int] = []
    path = match.group(3) or ""
    if match.group(2) is not None:
        path += "[...]"
    for name, index, unknown in _STEP.findall(path):
        if not unknown:
            steps.append(name or int(index))
            continue
        found = _culprit(value, steps, cls, strict)
        if found is None:
            break
        key, value = found
        steps.append(key)
    reason = match.group(1).replace("`", "")
    return tuple(steps), reason[:1].lower() + reason[1:]


def _culprit(
    value: object, key_path: Sequence[str | int], cls: Any, strict: bool
) -> tuple[str, object] | None:
    """Finds the key of a table whose value does not fit; returns the key and the reduced whole."""
    table = value
    for step in key_path:
        table = table[step] if isinstance(table, (dict, list)) else None  # type: ignore[index]
    if not isinstance(table, dict):
        return None
    for key, entry in table.items():
        reduced = _replaced(value, key_path, {key: entry})
        try:
            msgspec.convert(reduced, cls, strict=strict)
        except msgspec.ValidationError:
            return str(key), _replaced(value, key_path, {str(key): entry})
    return None


def _replaced(value: Any, key_path: Sequence[str | int], inner: object) -> Any:
    """Copies a value, with `inner` put at a path within it."""
    if not key_path:
        return inner
    step, rest = key_path[0], key_path[1:]
    if isinstance(value, list):
        assert isinstance(step, int)
        return [*value[:step], _replaced(value[step], rest, inner), *value[step + 1 :]]
    return {**value, step: _replaced(value[step], rest, inner)}


def key_text(key_path: KeyPath) -> str:
    """Writes a path as people do, such as ``advertise[0].addr``."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in key_path)
    return text.removeprefix(".")
