"""Whether members subscribe alike; over real connections it is tested in tests/integration."""

from __future__ import annotations

import logging

import pytest

from pocketmq.broker.groups.subscriptions import NAMED_MAX, TEXT_MAX, Wish, Wishes, wish_of
from pocketmq.protocol.bodies.clients import (
    BROADCASTING,
    CONSUME_ACTIVELY,
    CONSUME_PASSIVELY,
    SQL92,
    ConsumerData,
    Subscription,
)


def wish(
    *subscriptions: Subscription, model: str = "CLUSTERING", kind: str = CONSUME_PASSIVELY
) -> Wish:
    data = ConsumerData(
        group_name="g",
        consume_type=kind,
        message_model=model,
        subscription_data_set=list(subscriptions),
    )
    return wish_of(data)


def tags(expression: str, topic: str = "T", version: int = 1) -> Subscription:
    return Subscription.of_tags(topic, expression, version)


def sql(expression: str) -> Subscription:
    return Subscription(topic="T", sub_string=expression, expression_type=SQL92)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (wish(tags("A||B")), wish(tags(" B || A ", version=7))),
        (wish(tags("*"), tags("*", "U")), wish(tags("", "U"), tags("*"))),
        (wish(tags("*")), wish(tags("*"), tags("*", "%RETRY%g"))),
        (wish(tags("A || *")), wish(tags("*"))),
        (wish(sql("a > 1")), wish(sql("a > 1"))),
    ],
)
def test_what_is_the_same(one: Wish, other: Wish) -> None:
    assert one == other


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (wish(tags("A")), wish(tags("B"))),
        (wish(tags("A")), wish(tags("A"), tags("A", "U"))),
        (wish(tags("A")), wish(sql("A"))),
        (wish(tags("A")), wish()),
        (wish(tags("A")), wish(tags("A"), model=BROADCASTING)),
        (wish(tags("A")), wish(tags("A"), kind=CONSUME_ACTIVELY)),
    ],
)
def test_what_differs(one: Wish, other: Wish) -> None:
    assert one != other


def test_a_long_wish_is_cut_but_compared_as_a_whole() -> None:
    one, other = (wish(tags(" || ".join([*["x" * 9] * 500, end]))) for end in "ab")
    many = wish(*(tags("*", f"T{i}") for i in range(500)))
    assert len(many.text) == TEXT_MAX + 1
    assert one != other


def test_sides_are_sorted_by_size_and_name_some() -> None:
    wishes = Wishes("g")
    members = [(f"m{i}", wish(tags("A"))) for i in range(20)] + [("x", wish(tags("B")))]
    for _, wanted in members:
        wishes.change(None, wanted)
    first, second = wishes.sides([*members, ("not yet", None)])
    assert (first.subscription, first.member_count, len(first.client_ids)) == ("T A", 20, NAMED_MAX)
    assert (second.subscription, second.member_count, second.client_ids) == ("T B", 1, ["x"])


def test_a_third_side_is_told_of_and_one_that_left_is_not(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    wishes = Wishes("g")
    members = {c: wish(tags(c)) for c in "ABC"}

    def join(name: str) -> None:
        wishes.change(None, members[name])
        wishes.report((n, w) for n, w in members.items())

    for name in members:
        join(name)
    assert len(caplog.records) == 2
    wishes.change(members["C"], None)
    wishes.report(members.items())
    assert len(caplog.records) == 2, "A and B are known to differ"
    assert len(wishes.sides(members.items())) == 3
    wishes.change(members["B"], None)
    wishes.report(members.items())
    assert wishes.sides(members.items()) == []
    assert "alike again" in caplog.records[-1].getMessage()
    wishes.change(members["A"], None)
    wishes.report([])
    assert len(caplog.records) == 3
