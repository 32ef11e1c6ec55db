"""Settings of servers: read from YAML with RocketMQ's key names, shown and changed as properties.

A key that does not exist is an error that names the nearest right one: a misspelt limit that is
silently ignored is found only when it would have been needed.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import yaml
from msgspec import inspect

from pocketmq.protocol.errors import ConfigError

SettingsT = TypeVar("SettingsT", bound=msgspec.Struct)

MERGE_TAG = "tag:yaml.org,2002:merge"
"""YAML's ``<<``, which takes in the keys of another mapping."""

NULL_TAG = "tag:yaml.org,2002:null"

SIMILARITY_MIN = 0.6
"""From which likeness on (`difflib`, 0 to 1) another key is named as the one that was meant."""


def load_settings(path: str | os.PathLike[str], cls: type[SettingsT]) -> SettingsT:
    """Reads a YAML file of settings; what it leaves out keeps its default.

    Args:
        path: the file.
        cls: the struct of the settings; its names on the wire are the keys.

    Raises:
        ConfigError: the file is missing or no YAML, a key is unknown or stands twice, or a value
            does not fit. The text names the file, and the line and key where there is one.
    """
    document = _Document(Path(path))
    if document.is_empty:
        return document.convert({}, cls)
    if not isinstance(document.root, yaml.MappingNode):
        raise ConfigError(
            f"{document.at(document.root)}: lines of the form 'key: value' are expected; "
            f"Java properties ('key=value') have to be rewritten as YAML"
        )
    _check_keys(document, document.root, inspect.type_info(cls))
    return document.convert(document.constructed(), cls)


def settings_text(settings: msgspec.Struct) -> str:
    """Settings as Java properties text, sorted by key, as GET_BROKER_CONFIG answers them.

    What is unset is left out; lists and tables are written as JSON.
    """
    return properties_text(
        {
            key: value if isinstance(value, str) else msgspec.json.encode(value).decode()
            for key, value in sorted(msgspec.to_builtins(settings).items())
            if value is not None
        }
    )


def properties_text(values: Mapping[str, str]) -> str:
    """Java properties text, which `properties_from_text` reads."""
    return "".join(f"{key}={_escape(text)}\n" for key, text in values.items())


def changed_settings(settings: SettingsT, changes: Mapping[str, str]) -> SettingsT:
    """A copy with some settings changed; values are text, as properties hold them.

    Raises:
        ConfigError: a key does not exist, or a value does not fit it.
    """
    known = settings.__struct_encode_fields__
    for key in changes:
        if key not in known:
            raise ConfigError(f"there is no setting {key!r}; {_suggestion(key, known)}")
    values: dict[str, Any] = {**msgspec.to_builtins(settings), **changes}
    try:
        return msgspec.convert(values, type(settings), strict=False)
    except msgspec.ValidationError as e:
        place, reason = _explain(e)
        if not place:  # what the settings check themselves names its key
            raise ConfigError(str(e)) from e
        raise ConfigError(f"the value of {_key_text(place)} does not fit: {reason}") from e


def properties_from_text(text: str) -> dict[str, str]:
    """The pairs of Java properties text, ``key=value`` or ``key: value`` (`java.util.Properties`).

    Raises:
        ConfigError: an escape of the form backslash-u is not followed by four hexadecimal digits.
    """
    out: dict[str, str] = {}
    for line in _logical_lines(text):
        match = _PROPERTY.fullmatch(line)
        assert match is not None, "the pattern has no part that must be there"
        out[_unescape(match.group(1))] = _unescape(match.group(2))
    return out


# -- YAML ---------------------------------------------------------------------------------------


class _Document:
    """One YAML file as nodes, which know their lines."""

    def __init__(self, path: Path) -> None:
        self.path = path
        text = _file_text(path)
        try:
            self._loader = yaml.SafeLoader(text)
            self.root: yaml.Node | None = self._loader.get_single_node()
        except yaml.YAMLError as e:
            raise self._yaml_error(e) from e

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing but comments and perhaps a document mark."""
        return self.root is None or self.root.tag == NULL_TAG

    def constructed(self) -> object:
        """The value; the nodes change, because merged keys are put in."""
        try:
            value: object = self._loader.construct_document(self.root)
        except yaml.YAMLError as e:
            raise self._yaml_error(e) from e
        return value

    def _yaml_error(self, error: yaml.YAMLError) -> ConfigError:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark is not None else ""
        problem = getattr(error, "problem", None) or str(error)
        return ConfigError(f"{self.path}{line}: this is no YAML: {problem}")

    def at(self, node: yaml.Node | None) -> str:
        """File and line, for an error's text."""
        if node is None:
            return str(self.path)
        return f"{self.path}, line {node.start_mark.line + 1}"

    def convert(self, value: object, cls: type[SettingsT]) -> SettingsT:
        """The value as settings."""
        try:
            return msgspec.convert(value, cls, strict=False)
        except msgspec.ValidationError as e:
            place, reason = _explain(e)
            where = self.at(_node_at(self.root, place))
            if not place:
                raise ConfigError(f"{where}: {reason}") from e
            key = _key_text(place)
            raise ConfigError(f"{where}: the value of {key} does not fit: {reason}") from e


def _file_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError as e:
        raise ConfigError(f"the configuration file {path} does not exist") from e
    except OSError as e:
        reason = e.strerror or str(e)
        raise ConfigError(f"the configuration file {path} cannot be read: {reason}") from e
    except UnicodeDecodeError as e:
        raise ConfigError(f"the configuration file {path} is not UTF-8: {e}") from e


def _check_keys(document: _Document, node: yaml.Node, kind: inspect.Type) -> None:
    """Refuses keys that the type at that place does not have, and keys that stand twice."""
    if isinstance(kind, inspect.UnionType):
        for member in kind.types:
            _check_keys(document, node, member)
    elif isinstance(kind, inspect.StructType) and isinstance(node, yaml.MappingNode):
        kinds = {field.encode_name: field.type for field in kind.fields}
        seen: dict[str, yaml.Node] = {}
        for key_node, value_node in node.value:
            key = str(key_node.value)
            if key_node.tag == MERGE_TAG:
                continue
            if key not in kinds:
                raise ConfigError(
                    f"{document.at(key_node)}: unknown key {key!r}; {_suggestion(key, kinds)}"
                )
            if key in seen:
                first = seen[key].start_mark.line + 1
                raise ConfigError(
                    f"{document.at(key_node)}: the key {key!r} stands twice, first in line {first}"
                )
            seen[key] = key_node
            _check_keys(document, value_node, kinds[key])
    elif isinstance(kind, inspect.CollectionType) and isinstance(node, yaml.SequenceNode):
        for item in node.value:
            _check_keys(document, item, kind.item_type)
    elif isinstance(kind, inspect.DictType) and isinstance(node, yaml.MappingNode):
        for _, value_node in node.value:
            _check_keys(document, value_node, kind.value_type)


def _suggestion(key: str, known: Iterable[str]) -> str:
    by_lower = {name.lower(): name for name in known}
    near = difflib.get_close_matches(key.lower(), by_lower, n=1, cutoff=SIMILARITY_MIN)
    return f"did you mean {by_lower[near[0]]!r}?" if near else "no setting has a similar name"


# -- what msgspec says --------------------------------------------------------------------------

_Place = tuple[str | int, ...]
_WHERE = re.compile(r"(.*?)(?: - at `\$(.*)`)?", re.DOTALL)
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]|(\[\.\.\.\]).*")


def _explain(error: msgspec.ValidationError) -> tuple[_Place, str]:
    """The place that a validation error names, and its reason."""
    match = _WHERE.fullmatch(str(error))
    assert match is not None, "the pattern matches any text"
    steps: list[str | int] = []
    for name, index, unknown in _STEP.findall(match.group(2) or ""):
        if not unknown:  # `[...]` is some value of a table; msgspec does not tell which
            steps.append(name or int(index))
    reason = match.group(1).replace("`", "")
    return tuple(steps), reason[:1].lower() + reason[1:]


def _key_text(place: _Place) -> str:
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in place)
    return text.removeprefix(".")


def _node_at(root: yaml.Node | None, place: _Place) -> yaml.Node | None:
    """The node of a place, or the nearest one around it; None for the whole file."""
    node, found = root, None
    for step in place:
        child: yaml.Node | None = None
        if isinstance(node, yaml.MappingNode):
            child = next((v for k, v in node.value if k.value == step), None)
        elif isinstance(node, yaml.SequenceNode) and isinstance(step, int):
            child = node.value[step]
        if child is None:
            break
        node = found = child
    return found


# -- Java properties ----------------------------------------------------------------------------

_PROPERTY = re.compile(r"((?:[^\\=: \t\f]|\\.)*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(u(.{0,4})|.)", re.DOTALL)
_ESCAPED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPES = str.maketrans({"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f"})


def _escape(text: str) -> str:
    escaped = text.translate(_ESCAPES)
    return "\\" + escaped if escaped.startswith(" ") else escaped


def _unescape(text: str) -> str:
    def replace(match: re.Match[str]) -> str:
        code, digits = match.group(1), match.group(2)
        if digits is None:
            return _ESCAPED.get(code, code)
        if not re.fullmatch("[0-9a-fA-F]{4}", digits):
            raise ConfigError(f"four hexadecimal digits must follow \\u in {text!r}")
        return chr(int(digits, 16))

    return _ESCAPE.sub(replace, text)


def _logical_lines(text: str) -> Iterator[str]:
    """Lines without comments and blank ones; a backslash at the end joins the next line."""
    joined = ""
    for line in re.split(r"\r\n|\r|\n", text):
        line = line.lstrip(" \t\f")
        if not joined and (not line or line[0] in "#!"):
            continue
        joined += line
        if (len(joined) - len(joined.rstrip("\\"))) % 2:
            joined = joined[:-1]
            continue
        yield joined
        joined = ""
    if joined:
        yield joined
