"""Finds members of a group that subscribe differently.

RocketMQ keeps one subscription a group, the last heartbeat's. Members that differ take turns in
overwriting it, and the messages of the overwritten subscription are lost in silence.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable
from hashlib import blake2b

import msgspec

from pocketmq.protocol.bodies.clients import (
    BROADCASTING,
    CONSUME_ACTIVELY,
    TAG,
    ConsumerData,
    Subscription,
    SubscriptionSide,
)
from pocketmq.protocol.names.names import RETRY_PREFIX

log = logging.getLogger("pocketmq.broker")

TEXT_MAX = 1000
"""Characters that are kept of what a member wants, for people to read."""

NAMED_MAX = 10
"""Members of each side that are named."""


class MemberSubscription(msgspec.Struct, frozen=True):
    """A member's whole subscription; members that subscribe alike have equal ones.

    Attributes:
        digest: of the whole.
        text: of the whole or its beginning, for people.
    """

    digest: bytes
    text: str


def subscription_of(data: ConsumerData) -> MemberSubscription:
    """Reads a member's subscription from a heartbeat.

    Versions, order, and the group's own retry topic make no difference.

    Members that poll read no retry topic: a queue of it that is given to one of them is read by
    nobody, and with it what failed in the members that have listeners.
    """
    parts = sorted(
        f"{s.topic} {_expression(s)}"
        for s in data.subscription_data_set
        if not s.topic.startswith(RETRY_PREFIX)
    )
    if data.message_model == BROADCASTING:
        parts.append("by broadcasting")
    if data.consume_type == CONSUME_ACTIVELY:
        parts.append("by polling")
    text = ", ".join(parts) or "nothing"
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
    return MemberSubscription(digest, text if len(text) <= TEXT_MAX else f"{text[:TEXT_MAX]}…")


def _expression(subscription: Subscription) -> str:
    if subscription.takes_all:
        return "*"
    if subscription.expression_type in (None, TAG):
        tags = {tag.strip() for tag in subscription.sub_string.split("||")}
        return " || ".join(sorted(tag for tag in tags if tag))
    return f"{subscription.expression_type} {subscription.sub_string}"


class SubscriptionConflicts:
    """Counts the different subscriptions of a group's members, and warns of differences.

    Args:
        group: whose members they are.
    """

    def __init__(self, group: str) -> None:
        self._group = group
        self._counts: Counter[MemberSubscription] = Counter()
        self._warned: frozenset[MemberSubscription] = frozenset()

    @property
    def differ(self) -> bool:
        """Whether the members subscribe differently."""
        return len(self._counts) > 1

    @property
    def count(self) -> int:
        """How many different subscriptions the members have."""
        return len(self._counts)

    def change(self, before: MemberSubscription | None, after: MemberSubscription | None) -> None:
        """Records a member's change; `before` is None if it has come, `after` if it has gone."""
        if after is not None:
            self._counts[after] += 1
        if before is not None:
            self._counts[before] -= 1
            if not self._counts[before]:
                del self._counts[before]

    def report(self, members: Iterable[tuple[str, MemberSubscription | None]]) -> None:
        """Logs once that the members subscribe differently, and once that they agree again.

        Args:
            members: client ids and subscriptions.
        """
        now = frozenset(self._counts)
        if len(now) < 2:
            if self._warned and now:
                log.info("the members of group %s subscribe alike again", self._group)
            self._warned = frozenset()
            return
        if now <= self._warned:
            return  # nothing that was not told yet
        self._warned = now
        first, second = self.sides(members)[:2]
        log.warning(
            "the members of group %s subscribe differently: %s to %s, but %s to %s. Each gets only "
            "a part of its messages, the rest is lost to the group: give all members the same "
            "subscriptions, or each kind of member a group of its own",
            self._group,
            " and ".join(first.client_ids[:1]),
            first.subscription,
            " and ".join(second.client_ids[:1]),
            second.subscription,
        )

    def sides(
        self, members: Iterable[tuple[str, MemberSubscription | None]]
    ) -> list[SubscriptionSide]:
        """Lists the subscriptions with their members, the most frequent first; empty if all agree.

        Args:
            members: client ids and subscriptions.
        """
        if not self.differ:
            return []
        by_subscription: dict[MemberSubscription, SubscriptionSide] = {}
        for client_id, subscription in members:
            if subscription is None:
                continue
            side = by_subscription.setdefault(
                subscription, SubscriptionSide(subscription=subscription.text, member_count=0)
            )
            side.member_count += 1
            if len(side.client_ids) < NAMED_MAX:
                side.client_ids.append(client_id)
        return sorted(by_subscription.values(), key=lambda side: -side.member_count)
