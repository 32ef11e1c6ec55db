"""Names in and out of namespaces, by the rules of NamespaceUtil."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.protocol.errors import IllegalNameError
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.protocol.names.names import SYSTEM_TOPICS
from pocketmq.protocol.names.namespaces import Namespace, request_fields

SHOP = Namespace("shop")
OTHERS = ["CID_RMQ_SYS_TRANS", "C_REPLY_TOPIC", ""]


@pytest.mark.parametrize(
    ("bare", "wrapped"),
    [
        ("Orders", "shop%Orders"),
        ("%RETRY%billing", "%RETRY%shop%billing"),
        ("%DLQ%billing", "%DLQ%shop%billing"),
        ("shopping", "shop%shopping"),
        ("other%Orders", "shop%other%Orders"),
    ],
)
def test_names_are_wrapped_and_unwrapped(bare: str, wrapped: str) -> None:
    assert SHOP.wrap(bare) == wrapped
    assert SHOP.unwrap(wrapped) == bare
    assert SHOP.wrap(wrapped) == wrapped


@pytest.mark.parametrize("name", [*sorted(SYSTEM_TOPICS), "rmq_sys_x", *OTHERS])
def test_system_names_are_in_no_namespace(name: str) -> None:
    assert SHOP.wrap(name) == SHOP.unwrap(name) == name


@pytest.mark.parametrize("name", ["Orders", "other%Orders", "%RETRY%other%billing", "%DLQ%g"])
def test_names_of_elsewhere_stay(name: str) -> None:
    assert SHOP.unwrap(name) == name


@given(st.from_regex(r"[a-zA-Z0-9_-]{1,20}", fullmatch=True))
def test_the_empty_namespace_changes_nothing(name: str) -> None:
    none = Namespace()
    assert not none
    assert none.wrap(name) == none.unwrap(name) == name


def test_queues() -> None:
    queue = MessageQueue("Orders", "a", 3)
    assert SHOP.wrap_queue(queue) == MessageQueue("shop%Orders", "a", 3)
    assert SHOP.unwrap_queue(SHOP.wrap_queue(queue)) == queue
    assert Namespace().wrap_queue(queue) is Namespace().unwrap_queue(queue) is queue


def test_an_illegal_namespace_is_refused() -> None:
    with pytest.raises(IllegalNameError, match="illegal"):
        Namespace("a b")


def test_version_two_is_two_fields() -> None:
    assert request_fields("shop") == {"nsd": "true", "ns": "shop"}
    assert request_fields("") == {}
