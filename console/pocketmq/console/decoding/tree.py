"""A decoded value as a tree that fits an answer; each part tells where it goes on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from pocketmq.console.decoding.pointers import joined

NODES_MAX = 1000
"""Parts of a value in one answer."""

MEMBERS_MAX = 100
"""Members of one object or list in one answer, of the one that was asked for five times as many."""

DEPTH_MAX = 12
"""Levels below the part that was asked for."""

TEXT_LENGTH_MAX, ROOT_TEXT_LENGTH_MAX = 2_000, 64 * 1024
"""Characters of a text within a value, and of one that was asked for."""

BYTES_SIZE_MAX, ROOT_BYTES_SIZE_MAX = 256, 4096
"""Bytes within a value, and of bytes that were asked for."""

ALL_TEXT_LENGTH_MAX = 256 * 1024
"""Characters of all texts of an answer, names included, but for one text."""

NAME_LENGTH_MAX = 200
"""Characters of a name; a longer one is cut."""

POINTER_LENGTH_MAX = 1_000
"""Characters of a pointer, which links carry."""

LINE_SIZE = 16

Kind = Literal["object", "list", "text", "bytes", "number", "boolean", "null"]


class Node(Struct, kw_only=True, rename="camel", omit_defaults=True):
    """A part of a decoded body.

    Attributes:
        name: key or number in the part above; of the first part none.
        kind: what it is.
        text: of a text, a number, ``true``, ``false`` or ``null``; of bytes lines in hexadecimal.
        size: members, characters or bytes that it has.
        begin: the first of those that are shown.
        next: the first of those that follow and are not shown; null if none follow.
        pointer: where it is in the body, as a JSON pointer; null if that is too long for a link.
        members: of an object or a list.
    """

    name: str | UnsetType = UNSET
    kind: Kind
    text: str | UnsetType = UNSET
    size: Annotated[int, Meta(ge=0)] = 0
    begin: Annotated[int, Meta(ge=0)] = 0
    next: int | None = None
    pointer: str | None = ""
    members: list[Node] = []

    @property
    def is_open(self) -> bool:
        """Whether it has members."""
        return self.kind in ("object", "list")


class _Room:
    """What may still be put into an answer."""

    def __init__(self) -> None:
        self.nodes, self.text = NODES_MAX, ALL_TEXT_LENGTH_MAX


def tree_of(value: object, pointer: str = "", begin: int = 0) -> Node:
    """Makes the tree of a value.

    Args:
        value: the part of a body that was asked for.
        pointer: where the part is in the body.
        begin: the first member, character or byte of the part that is shown.
    """
    return _node(value, None, pointer, begin, 0, _Room())


def _node(
    value: object, name: str | None, pointer: str | None, begin: int, depth: int, room: _Room
) -> Node:
    room.nodes -= 1
    room.text -= len(pointer or "")
    node = Node(kind="null", pointer=pointer, begin=begin)
    if name is not None:
        node.name = _shortened(name)
        room.text -= len(node.name)
    if isinstance(value, str):
        length = TEXT_LENGTH_MAX if depth else ROOT_TEXT_LENGTH_MAX
        node.kind, node.size = "text", len(value)
        part = value[begin : begin + min(length, max(room.text, 0))]
        node.text, node.next = _encodable(part), _next(node, len(part))
        room.text -= len(node.text)
    elif isinstance(value, (bytes, bytearray, memoryview)):
        size = BYTES_SIZE_MAX if depth else ROOT_BYTES_SIZE_MAX
        dumped = bytes(value[begin : begin + (size if room.text > 0 else 0)])
        node.kind, node.size = "bytes", len(value)
        node.text, node.next = "\n".join(_lines(dumped, begin)), _next(node, len(dumped))
        room.text -= len(node.text)
    elif isinstance(value, (Mapping, list, tuple)):
        _fill(node, value, depth, room)
    else:
        node.text = _scalar(value)
        node.kind = _kind_of(value)
    return node


def _fill(
    node: Node, value: Mapping[object, object] | list[object] | tuple[object, ...],
    depth: int, room: _Room,
) -> None:  # fmt: skip
    node.kind = "object" if isinstance(value, Mapping) else "list"
    node.size = len(value)
    members: Iterable[tuple[object, object]]
    members = value.items() if isinstance(value, Mapping) else enumerate(value)
    count = (MEMBERS_MAX if depth else 5 * MEMBERS_MAX) if depth < DEPTH_MAX else 0
    shown = []
    for key, item in islice(members, node.begin, node.begin + count):
        if room.nodes <= 0 or room.text <= 0:
            break
        name = _scalar(key)
        shown.append(_node(item, name, _below(node.pointer, name), 0, depth + 1, room))
    node.members = shown
    node.next = _next(node, len(shown))


def _below(pointer: str | None, name: str) -> str | None:
    if pointer is None or len(pointer) + len(name) >= POINTER_LENGTH_MAX:
        return None
    return joined(pointer, _encodable(name))


def _next(node: Node, count: int) -> int | None:
    behind = node.begin + count
    return behind if behind < node.size else None


def _kind_of(value: object) -> Kind:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    return "number" if isinstance(value, (int, float)) else "text"


def _scalar(value: object) -> str:
    """A value without members as JSON writes it; a text as it is."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and value.bit_length() > 10_000:
        return "a number of thousands of digits"  # Python refuses to write it
    return str(value)


def _shortened(name: str) -> str:
    return _encodable(name if len(name) <= NAME_LENGTH_MAX else name[:NAME_LENGTH_MAX] + "…")


def _encodable(text: str) -> str:
    """A text without halves of pairs of surrogates, which UTF-8 cannot hold."""
    return text if text.isascii() else text.encode(errors="backslashreplace").decode()


def _lines(part: bytes, begin: int) -> Iterable[str]:
    for at in range(0, len(part), LINE_SIZE):
        line = part[at : at + LINE_SIZE]
        text = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in line)
        yield f"{begin + at:08x}  {line.hex(' '):<{LINE_SIZE * 3}} {text}"
