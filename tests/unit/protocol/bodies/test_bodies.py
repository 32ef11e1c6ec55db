from __future__ import annotations

import importlib
import inspect

import pytest

from pocketmq.protocol.bodies import (
    DIALECT_SIZE_MAX,
    REQUEST_BODY_SIZE_MAX,
    REQUEST_PARTS_MAX,
    Body,
)
from pocketmq.protocol.bodies.topics import TopicConfig, TopicList
from pocketmq.protocol.errors import ContentError

FAMILIES = ("clients", "routes", "topics")


def bodies() -> list[type[Body]]:
    found = []
    for family in FAMILIES:
        module = importlib.import_module(f"pocketmq.protocol.bodies.{family}")
        found += [
            value
            for name, value in vars(module).items()
            if inspect.isclass(value)
            and issubclass(value, Body)
            and value.__module__ == module.__name__
            and not name.startswith("_")
        ]
    return found


def test_none_is_absent() -> None:
    assert TopicList(topic_list=["T"]).encode() == b'{"topicList":["T"]}'
    assert TopicList(topic_list=["T"], broker_addr="h:1").encode() == (
        b'{"brokerAddr":"h:1","topicList":["T"]}'
    )


def test_a_body_that_does_not_fit_names_its_class() -> None:
    with pytest.raises(ContentError, match=r"the body is no TopicConfig: .*`topicName`"):
        TopicConfig.decode(b"{}")


@pytest.mark.parametrize("cls", bodies(), ids=lambda c: c.__name__)
def test_every_body_refuses_garbage(cls: type[Body]) -> None:
    for data in (b"", b"[]", b"null", b"7", b'{"x":', b"\xff", b"{\xff:1}"):
        with pytest.raises(ContentError):
            cls.decode(data)


@pytest.mark.parametrize("cls", bodies(), ids=lambda c: c.__name__)
def test_every_body_says_what_it_is(cls: type[Body]) -> None:
    assert cls.__doc__


def test_a_request_is_not_read_for_long() -> None:
    def of_size(count: int) -> bytes:
        return b'{"topicList":[' + b",".join([b'"T"'] * count) + b"]}"

    assert TopicList.of_request(of_size(REQUEST_BODY_SIZE_MAX // 4 - 10))
    with pytest.raises(ContentError, match=r"a TopicList may have 2097152 .* send several"):
        TopicList.of_request(of_size(REQUEST_BODY_SIZE_MAX // 4))
    parts = b'{"topicList":[],"x":[' + b",".join([b"{}"] * (REQUEST_PARTS_MAX - 3)) + b"]}"
    assert TopicList.of_request(parts)
    with pytest.raises(ContentError, match="with 30001 objects and lists"):
        TopicList.of_request(parts[:-2] + b",{}]}")
    dialect = b'{"topicList":[],"x":[' + b",".join([b"{1:1}"] * 10) + b"]}"
    assert TopicList.of_request(dialect)
    with pytest.raises(ContentError, match="the body is no TopicList"):
        TopicList.of_request(dialect + b" " * DIALECT_SIZE_MAX)
