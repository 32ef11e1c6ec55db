from __future__ import annotations

import importlib
import inspect

import pytest

from pocketmq.protocol.bodies import Body
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
