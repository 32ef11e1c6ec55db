"""Typed headers: one class per request or response, with RocketMQ's field names on the wire.

On RocketMQ's own codecs every value is a string; the msgpack codec keeps numbers and booleans.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, ClassVar, TypeVar

import msgspec

from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.errors import ContentError

HeaderT = TypeVar("HeaderT", bound="Header")


class Header(msgspec.Struct, rename="camel", kw_only=True):
    """Fields that travel in a frame's header (`extFields`); None means absent."""


class RequestHeader(Header, kw_only=True):
    """A request's fields; the class knows its request code."""

    code: ClassVar[RequestCode]


class NoFields(Header):
    """A header without fields."""


_Wire = tuple[tuple[str, str], ...]


@lru_cache(maxsize=512)
def wire_fields(cls: type[Header]) -> _Wire:
    """(attribute, name on the wire) of a header class, in the order of the wire names."""
    pairs = zip(cls.__struct_fields__, cls.__struct_encode_fields__, strict=True)
    return tuple(sorted(pairs, key=lambda pair: pair[1]))


def text_fields(header: Header) -> dict[str, str]:
    """The header as RocketMQ's codecs carry it: strings only, absent fields left out."""
    out: dict[str, str] = {}
    for attribute, name in wire_fields(type(header)):
        value = getattr(header, attribute)
        if value is None:
            continue
        if value.__class__ is str:
            out[name] = value
        elif value is True:
            out[name] = "true"
        elif value is False:
            out[name] = "false"
        else:
            out[name] = str(int(value))
    return out


def native_fields(header: Header) -> dict[str, str | int | bool]:
    """The header as the msgpack codec carries it: numbers stay numbers."""
    out: dict[str, str | int | bool] = {}
    for attribute, name in wire_fields(type(header)):
        value = getattr(header, attribute)
        if value is not None:
            out[name] = value
    return out


def header_from_fields(fields: dict[str, Any], cls: type[HeaderT]) -> HeaderT:
    """Reads a header from its fields, strings or native values.

    Raises:
        ContentError: a required field is missing, or a value does not have the field's type.
    """
    present = {k: v for k, v in fields.items() if v is not None}
    try:
        return msgspec.convert(present, cls, strict=False)
    except msgspec.ValidationError as e:
        raise ContentError(f"{cls.__name__} cannot be read: {e}") from e
