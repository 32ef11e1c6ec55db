"""The tags code of a record: what its index entry holds, so that filters need not read it."""

from __future__ import annotations

from pocketmq.protocol import properties as props

_MARK = props.TAGS.encode() + b"\x01"


def encoded_tags_code(properties: bytes) -> int:
    """The tags code of encoded properties; 0 without tags.

    Appends and recovery use the same rule, so that an index made again equals the lost one.
    """
    if _MARK not in properties:
        return 0
    return props.tags_code(props.value_of(properties.decode("utf-8", "replace"), props.TAGS))
