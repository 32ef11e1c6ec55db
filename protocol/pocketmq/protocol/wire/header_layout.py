"""Layouts: fast reading of binary headers that differ from each other in a few values only.

A client's sends name the same group, topic and flags again and again. A layout remembers which
bytes of such headers are always the same. If those bytes are equal, the few values between them
were cut at the right positions, and only these values have to be read.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, get_type_hints

from pocketmq.protocol.wire.header import Header, HeaderT, header_from_fields, wire_fields

DIGITS_MAX = 18
"""Any number of at most so many digits fits in 64 bits; longer ones take the slow way."""

_KINDS = {str: False, str | None: False, int: True, int | None: True}
"""Types of fields that a layout can read → whether they are numbers. Others take the slow way."""

_IGNORED = ""


class _Form(NamedTuple):
    """How a header of one class is made: a copy of a template, on which varying values are set."""

    copy: Callable[[], Any]
    steps: tuple[tuple[str, bool], ...]


class HeaderLayout:
    """Where the constant bytes and the varying values of headers of one form stand.

    Args:
        fixed: the `struct` format of the bytes before the fields.
        data: a header of this form.
        fields: its fields in their order.
        spans: where the value of each begins and ends.
        varying: names of the fields whose values differ.

    Attributes:
        unpack: cuts a header into what is fixed, then constant bytes and values in turn.
        constant: those bytes.
        misses: how many headers of this size had another form.
    """

    __slots__ = ("_forms", "constant", "fields", "misses", "spans", "unpack", "varying")

    def __init__(
        self,
        fixed: str,
        data: bytes,
        fields: dict[str, str],
        spans: Sequence[tuple[int, int]],
        varying: Sequence[str],
    ) -> None:
        sizes: list[int] = []
        end = struct.calcsize(fixed)
        for name, (start, stop) in zip(fields, spans, strict=True):
            if name in varying:
                sizes += (start - end, stop - start)
                end = stop
        sizes.append(len(data) - end)
        parts = struct.Struct(fixed + "".join([f"{size}s" for size in sizes]))
        self.unpack: Callable[[bytes], tuple[Any, ...]] = parts.unpack
        self.constant = self.unpack(data)[-len(sizes) :: 2]
        self.fields, self.spans, self.varying = fields, spans, tuple(varying)
        self.misses = 0
        self._forms: dict[type[Header], _Form | None] = {}

    def widened(
        self,
        fixed: str,
        data: bytes,
        fields: dict[str, str],
        spans: Sequence[tuple[int, int]],
    ) -> HeaderLayout | None:
        """Returns a layout for this form and another header; None if the header's fields differ."""
        if spans != self.spans or list(fields) != list(self.fields):
            return None
        known = self.fields
        varying = [n for n in fields if n in self.varying or fields[n] != known[n]]
        return HeaderLayout(fixed, data, fields, spans, varying)

    def read(self, cls: type[HeaderT], values: list[str]) -> HeaderT:
        """Makes a typed header with these values of the varying fields.

        Raises:
            ContentError: a required field is missing or has the wrong type.
        """
        try:
            form = self._forms[cls]
        except KeyError:
            form = self._forms[cls] = self._form_of(cls, values)
        if form is not None:
            header: HeaderT = form.copy()
            for (attribute, is_number), value in zip(form.steps, values, strict=False):
                if not is_number:
                    if attribute:
                        setattr(header, attribute, value)
                elif (number := _number(value)) is not None:
                    setattr(header, attribute, number)
                else:
                    break
            else:
                return header
        return header_from_fields(self.fields_with(values), cls)

    def fields_with(self, values: list[str]) -> dict[str, str]:
        """Returns all fields by wire name, with these values of the varying ones."""
        return {**self.fields, **dict(zip(self.varying, values, strict=True))}

    def _form_of(self, cls: type[HeaderT], values: list[str]) -> _Form | None:
        prototype: Any = header_from_fields(self.fields_with(values), cls)
        attributes = {name: attribute for attribute, name in wire_fields(cls)}
        types = get_type_hints(cls)
        steps: list[tuple[str, bool]] = []
        for name in self.varying:
            attribute = attributes.get(name)
            if attribute is None:
                steps.append((_IGNORED, False))
            elif types[attribute] in _KINDS:
                steps.append((attribute, _KINDS[types[attribute]]))
            else:
                return None
        return _Form(prototype.__copy__, tuple(steps))


def _number(text: str) -> int | None:
    """Reads a plain decimal number; None if the text is none, or one written in an unusual way."""
    try:
        number = int(text) if len(text) <= DIGITS_MAX else None
    except ValueError:
        return None
    return number if str(number) == text else None


class LaidOutFields:
    """The values that a layout has cut out of a received header (`Command.raw`)."""

    __slots__ = ("_layout", "_values")

    def __init__(self, layout: HeaderLayout, values: list[str]) -> None:
        self._layout, self._values = layout, values

    def read(self, cls: type[HeaderT]) -> HeaderT:
        """Makes the typed header.

        Raises:
            ContentError: a required field is missing or has the wrong type.
        """
        return self._layout.read(cls, self._values)

    def fields(self) -> dict[str, str]:
        """All fields by wire name."""
        return self._layout.fields_with(self._values)
