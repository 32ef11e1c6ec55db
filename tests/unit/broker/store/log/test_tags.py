from __future__ import annotations

import pytest

from pocketmq.broker.store.log.tags import encoded_tags_code
from pocketmq.protocol.messages.properties import tags_code


@pytest.mark.parametrize(
    ("properties", "tags"),
    [
        (b"", None),
        (b"KEYS\x01k\x02", None),
        (b"TAGS\x01red\x02KEYS\x01k\x02", "red"),
        (b"KEYS\x01k\x02TAGS\x01red", "red"),
        (b"MYTAGS\x01red\x02", None),
        (b"TAGS\x01\x02", None),
        ("TAGS\x01größe\x02".encode(), "größe"),
        (b"K\x01\xff\xfe\x02TAGS\x01red\x02", "red"),
    ],
)
def test_codes(properties: bytes, tags: str | None) -> None:
    assert encoded_tags_code(properties) == tags_code(tags)
