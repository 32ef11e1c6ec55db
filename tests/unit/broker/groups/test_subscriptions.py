"""Whether members subscribe alike; over real connections it is tested in tests/integration."""

from __future__ import annotations

import logging

import pytest

from pocketmq.broker.groups.subscriptions import (
    NAMED_MAX,
    TEXT_MAX,
    MemberSubscription,
    SubscriptionConflicts,
    subscription_of,
)
from pocketmq.protocol.bodies.clients import (
    BROADCASTING,
    CONSUME_ACTIVELY,
    CONSUME_PASSIVELY,
    SQL92,
    ConsumerData,
    Subscription,
)


def subscription(
    *subscriptions: Subscription, model: str = "CLUSTERING", kind: str = CONSUME_PASSIVELY
) -> MemberSubscription:
    data = ConsumerData(
        group_name="g",
        consume_type=kind,
        message_model=model,
        subscription_data_set=list(subscriptions),
    )
    return subscription_of(data)


def tags(expression: str, topic: str = "T", version: int = 1) -> Subscription:
    return Subscription.of_tags(topic, expression, version)


def sql(expression: str) -> Subscription:
    return Subscription(topic="T", sub_string=expression, expression_type=SQL92)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (subscription(tags("A||B")), subscription(tags(" B || A ", version=7))),
        (subscription(tags("*"), tags("*", "U")), subscription(tags("", "U"), tags("*"))),
        (subscription(tags("*")), subscription(tags("*"), tags("*", "%RETRY%g"))),
        (subscription(tags("A || *")), subscription(tags("*"))),
        (subscription(sql("a > 1")), subscription(sql("a > 1"))),
    ],
)
def test_what_is_the_same(one: MemberSubscription, other: MemberSubscription) -> None:
    assert one == other


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (subscription(tags("A")), subscription(tags("B"))),
        (subscription(tags("A")), subscription(tags("A"), tags("A", "U"))),
        (subscription(tags("A")), subscription(sql("A"))),
        (subscription(tags("A")), subscription()),
        (subscription(tags("A")), subscription(tags("A"), model=BROADCASTING)),
        (subscription(tags("A")), subscription(tags("A"), kind=CONSUME_ACTIVELY)),
    ],
)
def test_what_differs(one: MemberSubscription, other: MemberSubscription) -> None:
    assert one != other


def test_a_long_wish_is_cut_but_compared_as_a_whole() -> None:
    one, other = (subscription(tags(" || ".join([*["x" * 9] * 500, end]))) for end in "ab")
    many = subscription(*(tags("*", f"T{i}") for i in range(500)))
    assert len(many.text) == TEXT_MAX + 1
    assert one != other


def test_sides_are_sorted_by_size_and_name_some() -> None:
    conflicts = SubscriptionConflicts("g")
    members = [(f"m{i}", subscription(tags("A"))) for i in range(20)] + [
        ("x", subscription(tags("B")))
    ]
    for _, wanted in members:
        conflicts.change(None, wanted)
    first, second = conflicts.sides([*members, ("not yet", None)])
    assert (first.subscription, first.member_count, len(first.client_ids)) == ("T A", 20, NAMED_MAX)
    assert (second.subscription, second.member_count, second.client_ids) == ("T B", 1, ["x"])


def test_a_third_side_is_told_of_and_one_that_left_is_not(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    conflicts = SubscriptionConflicts("g")
    members = {c: subscription(tags(c)) for c in "ABC"}

    def join(name: str) -> None:
        conflicts.change(None, members[name])
        conflicts.report((n, w) for n, w in members.items())

    for name in members:
        join(name)
    assert len(caplog.records) == 2
    conflicts.change(members["C"], None)
    conflicts.report(members.items())
    assert len(caplog.records) == 2, "A and B are known to differ"
    assert len(conflicts.sides(members.items())) == 3
    conflicts.change(members["B"], None)
    conflicts.report(members.items())
    assert conflicts.sides(members.items()) == []
    assert "alike again" in caplog.records[-1].getMessage()
    conflicts.change(members["A"], None)
    conflicts.report([])
    assert len(caplog.records) == 3
