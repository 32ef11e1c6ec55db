"""Typed headers: one class per request or response, with RocketMQ's field names on the wire.

On RocketMQ's own codecs every value is a string; the msgpack codec keeps numbers and booleans.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from operator import attrgetter
from typing import Any, ClassVar, NamedTuple, TypeVar

import msgspec

from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.errors import ContentError

HeaderT = TypeVar("HeaderT", bound="Header")

TOPIC_FIELDS = ("topic", "origin_topic")
"""The attributes of headers that hold the topic of a request."""

GROUP_FIELDS = ("consumer_group", "producer_group", "group", "group_name")
"""The attributes of headers that hold the group of a request."""


class Header(msgspec.Struct, rename="camel", kw_only=True):
    """Fields of a frame's header (`extFields`); None means that a field is absent."""


class RequestHeader(Header, kw_only=True):
    """The fields of a request; each subclass names its request code."""

    code: ClassVar[RequestCode]


class NoFields(Header):
    """A header without fields."""


class NameFields(NamedTuple):
    """Which attributes of a header class hold names of topics and groups."""

    topics: tuple[str, ...]
    groups: tuple[str, ...]


@lru_cache(maxsize=512)
def name_fields(cls: type[Header]) -> NameFields:
    """The attributes of a header class that hold the topic and the group of a request."""
    fields = cls.__struct_fields__
    return NameFields(
        tuple(field for field in TOPIC_FIELDS if field in fields),
        tuple(field for field in GROUP_FIELDS if field in fields),
    )


_Wire = tuple[tuple[str, ...], Callable[[Header], tuple[Any, ...]]]


@lru_cache(maxsize=512)
def wire_getter(cls: type[Header]) -> _Wire:
    """Returns a header class's wire names, sorted, and a getter of the values in that order."""
    pairs = wire_fields(cls)
    names = tuple(name for _, name in pairs)
    attributes = tuple(attribute for attribute, _ in pairs)
    if len(attributes) > 1:
        return names, attrgetter(*attributes)
    return names, lambda header: tuple(getattr(header, a) for a in attributes)


def wire_fields(cls: type[Header]) -> tuple[tuple[str, str], ...]:
    """Returns (attribute, wire name) of each field of a header class, sorted by wire name."""
    pairs = zip(cls.__struct_fields__, cls.__struct_encode_fields__, strict=True)
    return tuple(sorted(pairs, key=lambda pair: pair[1]))


def text_fields(header: Header) -> dict[str, str]:
    """Returns a header's fields as strings, as RocketMQ's codecs need, without absent ones."""
    names, values = wire_getter(header.__class__)
    out: dict[str, str] = {}
    for name, value in zip(names, values(header), strict=False):
        if value is None:
            continue
        kind = value.__class__
        if kind is str:
            out[name] = value
        elif kind is bool:
            out[name] = "true" if value else "false"
        else:
            out[name] = str(int(value))
    return out


@lru_cache(maxsize=512)
def wire_form(cls: type[Header]) -> Callable[[Header], msgspec.Struct]:
    """Returns a function from a header of a class to a struct that msgspec encodes at once.

    It has the header's `native_fields` under their names on the wire, in order.
    """
    names, values = wire_getter(cls)
    fields = [(f"f{number}", Any, None) for number in range(len(names))]
    form = msgspec.defstruct(
        f"{cls.__name__}Form",
        fields,
        rename=dict(zip((name for name, _, _ in fields), names, strict=True)),
        omit_defaults=True,
        gc=False,
    )
    return lambda header: form(*values(header))


def native_fields(header: Header) -> dict[str, str | int | bool]:
    """Returns a header's fields as the msgpack codec carries them: numbers stay numbers."""
    names, values = wire_getter(header.__class__)
    return {
        name: value for name, value in zip(names, values(header), strict=False) if value is not None
    }


def header_from_fields(fields: dict[str, Any], cls: type[HeaderT]) -> HeaderT:
    """Reads a typed header from loose fields, whose values are strings or native.

    Raises:
        ContentError: a required field is missing, or a value does not have the field's type.
    """
    try:
        return msgspec.convert(fields, cls, strict=False)
    except msgspec.ValidationError:
        pass
    # Nulls, and numbers where text is due, are rare and legal: the slower reading allows them.
    try:
        return msgspec.convert(text_values(fields), cls, strict=False)
    except msgspec.ValidationError as e:
        raise ContentError(f"{cls.__name__} cannot be read: {e}") from e


def text_values(fields: Mapping[str, object]) -> dict[str, str]:
    """Turns the values of loose fields into strings, as RocketMQ's codecs need; drops nulls."""
    return {k: v if v.__class__ is str else _text(v) for k, v in fields.items() if v is not None}


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
