"""Settings of servers: read from YAML with RocketMQ's key names, shown and changed as properties.

A key that does not exist is an error that names the nearest right one: a misspelt limit that is
silently ignored is found only when it would have been needed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, TypeVar

import msgspec

from pocketmq.protocol.errors import ConfigError
from pocketmq.protocol.signing import MASK
from pocketmq.runtime.yaml_document import YamlDocument, explain, key_text, suggestion

SettingsT = TypeVar("SettingsT", bound=msgspec.Struct)


def load_settings(path: str | os.PathLike[str], cls: type[SettingsT]) -> SettingsT:
    """Reads a YAML file of settings; settings that it leaves out keep their defaults.

    Args:
        path: the file.
        cls: the struct of the settings; its names on the wire are the keys.

    Raises:
        ConfigError: the file is missing or no YAML, a key is unknown or stands twice, or a value
            does not fit. The text names the file, and the line and key where there is one.
    """
    document = YamlDocument(path)
    if not document.is_empty and not document.is_mapping:
        raise ConfigError(
            f"{document.at()}: lines of the form 'key: value' are expected; "
            f"Java properties ('key=value') have to be rewritten as YAML"
        )
    return document.convert(cls, strict=False)


def settings_text(settings: msgspec.Struct, secret_keys: Collection[str] = ()) -> str:
    """Writes settings as Java properties text, sorted by key, as GET_BROKER_CONFIG answers them.

    What is unset is left out; lists and tables are written as JSON.

    Args:
        settings: to be shown.
        secret_keys: those of which only is shown that they are set.
    """
    return properties_text(
        {
            key: value if isinstance(value, str) else msgspec.json.encode(value).decode()
            for key, value in sorted(_shown(settings, secret_keys).items())
            if value is not None
        }
    )


def settings_repr(settings: msgspec.Struct, secret_keys: Collection[str]) -> str:
    """The `repr` of settings of which some are secret."""
    shown = _shown(settings, secret_keys)
    pairs = zip(settings.__struct_fields__, settings.__struct_encode_fields__, strict=True)
    values = [f"{name}={shown[key]!r}" for name, key in pairs if key in shown]
    return f"{type(settings).__name__}({', '.join(values)})"


def _shown(settings: msgspec.Struct, secret_keys: Collection[str]) -> dict[str, Any]:
    values: dict[str, Any] = msgspec.to_builtins(settings)
    return {key: MASK if value and key in secret_keys else value for key, value in values.items()}


def properties_text(values: Mapping[str, str]) -> str:
    """Writes Java properties text, which `properties_from_text` reads."""
    return "".join(f"{key}={_escape(text)}\n" for key, text in values.items())


def changed_settings(settings: SettingsT, changes: Mapping[str, str]) -> SettingsT:
    """Copies settings with some of them changed; values are text, as properties hold them.

    Raises:
        ConfigError: a key does not exist, or a value does not fit it.
    """
    known = settings.__struct_encode_fields__
    for key in changes:
        if key not in known:
            raise ConfigError(f"there is no setting {key!r}; {suggestion(key, known)}")
    values: dict[str, Any] = {**msgspec.to_builtins(settings), **changes}
    try:
        return msgspec.convert(values, type(settings), strict=False)
    except msgspec.ValidationError as e:
        key_path, reason = explain(e)
        if not key_path:  # what the settings check themselves names its key
            raise ConfigError(str(e)) from e
        raise ConfigError(f"the value of {key_text(key_path)} does not fit: {reason}") from e


def properties_from_text(text: str) -> dict[str, str]:
    """Reads Java properties text, ``key=value`` or ``key: value`` (`java.util.Properties`).

    Raises:
        ConfigError: an escape of the form backslash-u is not followed by four hexadecimal digits.
    """
    out: dict[str, str] = {}
    for line in _logical_lines(text):
        match = _PROPERTY.fullmatch(line)
        assert match is not None, "the pattern has no part that must be there"
        out[_unescape(match.group(1))] = _unescape(match.group(2))
    return out


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
    """Yields lines without comments and blanks; a backslash at a line's end joins the next one."""
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
