from __future__ import annotations

from typing import Any

import pytest

from pocketmq.protocol.bodies import Body
from pocketmq.protocol.bodies.topics import TopicConfig, TopicList
from pocketmq.protocol.errors import ContentError


def test_none_is_absent() -> None:
    assert TopicList(topic_list=["T"]).encode() == b'{"topicList":["T"]}'
    assert TopicList(topic_list=["T"], broker_addr="h:1").encode() == (
        b'{"brokerAddr":"h:1","topicList":["T"]}'
    )


def test_a_body_that_does_not_fit_names_its_class() -> None:
    with pytest.raises(ContentError, match=r"the body is no TopicConfig: .*`topicName`"):
        TopicConfig.decode(b"{}")


def classes(cls: type[Body]) -> list[type[Body]]:
    found = []
    for sub in cls.__subclasses__():
        found += [sub, *classes(sub)]
    return found


@pytest.mark.parametrize("cls", classes(Body), ids=lambda c: c.__name__)
@pytest.mark.parametrize("data", [b"", b"[]", b"null", b"7", b'{"x":', b"\xff", b'{"\xff":1}'])
def test_garbage_is_refused_by_every_body(cls: type[Body], data: bytes) -> None:
    with pytest.raises(ContentError):
        cls.decode(data)


def table_types() -> list[Any]:
    return [c for c in classes(Body) if not c.__name__.startswith("_")]


def test_all_public_bodies_have_docstrings() -> None:
    assert all(c.__doc__ for c in table_types())
