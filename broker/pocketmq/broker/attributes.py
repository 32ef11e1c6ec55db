"""Attributes of topics and groups (`common/attribute`)."""

from __future__ import annotations

from collections.abc import Mapping

from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import ResponseError, response_error


def changed_attributes(known: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """Applies attributes: ``+name`` sets and ``-name`` removes (`AttributeUtil`).

    A plain name sets as well, so that settings that were read can be sent back.

    Raises:
        ResponseError: 29, one has no name.
    """
    attributes = dict(known)
    for key, value in given.items():
        name = key[1:] if key[:1] in ("+", "-") else key
        if not name:
            raise _invalid(f"the attribute {key!r} has no name: give +name=value or -name")
        if key.startswith("-"):
            attributes.pop(name, None)
        else:
            attributes[name] = value
    return attributes


def parse_attributes(text: str | None) -> dict[str, str]:
    """Reads ``+name=value,-name`` (`AttributeParser`).

    Raises:
        ResponseError: 29, a part is neither of the two.
    """
    given = {}
    for part in (text or "").split(","):
        part = part.strip()
        if not part:
            continue
        key, separator, value = part.partition("=")
        sets = key[0] == "+" and separator
        removes = key[0] == "-" and not separator
        if len(key) < 2 or not (sets or removes):
            raise _invalid(f"the attribute {part!r} is neither +key=value nor -key")
        given[key] = value
    return given


def _invalid(remark: str) -> ResponseError:
    return response_error(ResponseCode.INVALID_PARAMETER, remark)
