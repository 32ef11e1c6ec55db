"""Tables of settings, made of the classes that hold them."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec
from msgspec import inspect as types

_ENTRY = re.compile(r"^(?P<names>[a-z_0-9]+(?: \([^)]*\))?(?:, [a-z_0-9]+)*): (?P<text>.*)$", re.S)
_NAME = re.compile(r"\b[a-z]+(?:_[a-z0-9]+)+\b")
_OLD_NAMES = re.compile(r" \(`?[A-Za-z0-9]+`?\)$")
_MILLISECONDS = re.compile(r"_ms$|mills$|interval|timeout|time_out|period")
_BYTES = re.compile(r"_size_max$|_size_for_|^segment_size$|^max_transfer_bytes|_buffer_max$")

UNITS = {
    "file_reserved_time": "hours",
    "disk_space_warning_level_ratio": "%",
    "disk_space_clean_forcibly_ratio": "%",
    "timer_max_delay_sec": "s",
    "wait_seconds_for_service": "s",
    "max_message_size": "bytes",
    "compress_body_over_size": "bytes",
    "disk_space_free_min": "bytes",
}
"""Of fields whose names do not tell, or tell in RocketMQ's way."""

MIB = 1 << 20


class Row(NamedTuple):
    """One setting.

    Attributes:
        name: as it is written in a file, or given in Python.
        kind, default, unit, meaning: what the table says.
    """

    name: str
    kind: str
    default: str
    unit: str
    meaning: str


Ranges = Mapping[str, tuple[int, int]]


def table(cls: type[msgspec.Struct], *, is_python: bool, ranges: Ranges | None = None) -> str:
    """A table in Markdown of a class's own fields, in their order.

    Args:
        cls: the settings.
        is_python: names as in Python, not as on the wire.
        ranges: of integers, by the fields' names, where types do not say them.

    Raises:
        KeyError: a field has no description in the class's docstring.
    """
    lines = ["| setting | type | default | unit | meaning |", "|---|---|---|---|---|"]
    for row in rows(cls, is_python=is_python, ranges=ranges or {}):
        cells = (f"`{row.name}`", row.kind, row.default, row.unit, row.meaning)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines)


def rows(cls: type[msgspec.Struct], *, is_python: bool, ranges: Ranges) -> Iterator[Row]:
    """What a class's docstring and annotations say of the fields that it adds to its bases."""
    meanings = meanings_of(cls)
    inherited = {name for base in cls.__mro__[1:] for name in getattr(base, "__annotations__", {})}
    info = types.type_info(cls)
    assert isinstance(info, types.StructType)
    shown = {f.name: f.name if is_python else f.encode_name for f in info.fields}
    for field in info.fields:
        is_own = field.name in cls.__annotations__
        if not is_own or (field.name in inherited and field.name not in meanings):
            continue
        yield Row(
            shown[field.name],
            kind_of(field.type) + _bounds(ranges.get(field.name)),
            default_of(field),
            unit_of(field.name),
            _NAME.sub(lambda match: shown.get(match[0], match[0]), meanings[field.name]),
        )


def meanings_of(cls: type) -> dict[str, str]:
    """The ``Attributes:`` of a docstring, by name."""
    doc = inspect.cleandoc(cls.__doc__ or "")
    text = textwrap.dedent(doc.partition("Attributes:\n")[2])
    entries = re.split(r"\n(?=\S)", text)
    out: dict[str, str] = {}
    for entry in entries:
        match = _ENTRY.match(" ".join(line.strip() for line in entry.splitlines()).strip())
        if match is None:
            continue
        meaning = re.sub(r"``([^`]+)``", r"`\1`", match["text"])
        meaning = re.sub(r"docs/(\w+)\.md", r"[\1](\1.md)", meaning)
        for name in match["names"].split(", "):
            out[_OLD_NAMES.sub("", name)] = meaning
    return out


def kind_of(kind: types.Type) -> str:
    """A type as people say it."""
    if isinstance(kind, types.UnionType):
        return " or ".join(kind_of(t) for t in kind.types if not isinstance(t, types.NoneType))
    if isinstance(kind, types.IntType):
        bounds = [str(b) if b is not None else "" for b in (kind.ge, kind.le)]
        return "integer" + (f", {_range(*bounds)}" if any(bounds) else "")
    if isinstance(kind, types.StructType):
        return f"`{kind.cls.__name__}`"
    if isinstance(kind, types.ListType):
        return "list"
    names = {types.BoolType: "true or false", types.FloatType: "number", types.StrType: "text"}
    return names.get(type(kind), type(kind).__name__.removesuffix("Type").lower())


def _bounds(bounds: tuple[int, int] | None) -> str:
    return "" if bounds is None else f", {_range(*map(str, bounds))}"


def _range(low: str, high: str) -> str:
    return f"{low} to {high}" if low and high else f"{low} or more" if low else f"up to {high}"


def default_of(field: types.Field) -> str:
    """A default as it would be written in a file."""
    if field.default_factory is not msgspec.NODEFAULT:
        value: Any = field.default_factory()
    else:
        value = field.default
    if value is None:
        return "unset"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and value >= MIB and value % MIB == 0 and value < 1 << 40:
        return f"{value} ({value // MIB} MiB)"
    if isinstance(value, (int, float)):
        return f"{value:g}" if isinstance(value, float) else str(value)
    if isinstance(value, str):
        return f"`{value}`" if value else "empty"
    return "empty" if value == [] else f"`{type(value).__name__}`, see its documentation"


def unit_of(name: str) -> str:
    """The unit of a field, by its name."""
    if name in UNITS:
        return UNITS[name]
    if _MILLISECONDS.search(name):
        return "ms"
    return "bytes" if _BYTES.search(name) else ""
