"""The bases of JSON bodies."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

Count = Annotated[int, Meta(ge=0)]


class RequestBody(Struct, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The base of request bodies: unknown fields are errors."""


class ResponseBody(Struct, kw_only=True, rename="camel"):
    """The base of response bodies."""
