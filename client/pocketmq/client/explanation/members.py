"""Asks the members of the group what they subscribe to, and which queues they have."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from pocketmq.client.explanation.case import Case, Place
from pocketmq.protocol.bodies.clients import BROADCASTING, CONSUME_POP, Subscription
from pocketmq.protocol.bodies.groups import ProcessQueueInfo, RunningInfo
from pocketmq.protocol.bodies.topics import QueueKey
from pocketmq.protocol.names.names import RETRY_PREFIX

MEMBERS_MAX = 100
"""Members of a group that are asked for their queues."""


@dataclass
class Member:
    """A connected member of the group.

    Attributes:
        client_id, address: its client, and where that is.
        broker: address of a broker that it is connected to.
        info: what it says of itself (307); None if it does not answer.
    """

    client_id: str
    address: str
    broker: str
    info: RunningInfo | None = None

    def __str__(self) -> str:
        return f"{self.client_id} ({self.address})"

    def subscription(self, topic: str) -> Subscription | None:
        """Returns its subscription of a topic; None if there is none, or it is unknown."""
        found = [] if self.info is None else self.info.subscription_set
        return next((one for one in found if one.topic == topic), None)

    def queue(self, place: Place) -> ProcessQueueInfo | None:
        """Returns the state of a record's queue in it; None if it does not have the queue."""
        if self.info is None:
            return None
        queue = place.queue
        return self.info.mq_table.get(QueueKey(queue.broker_name, queue.queue_id, queue.topic))


@dataclass
class Members:
    """The connected members of the group.

    Attributes:
        known: a broker told who they are.
        all: they, sorted by client id.
        model, consume_type, consume_from_where: as the members told brokers.
        subscriptions: of the topic, by the address of the broker that holds them.
    """

    known: bool = False
    all: list[Member] = field(default_factory=list)
    model: str | None = None
    consume_type: str | None = None
    consume_from_where: str | None = None
    subscriptions: dict[str, Subscription] = field(default_factory=dict)

    @property
    def broadcasts(self) -> bool:
        """Whether each member gets all messages."""
        return self.model == BROADCASTING

    @property
    def pops(self) -> bool:
        """Whether the members pop."""
        return self.consume_type == CONSUME_POP

    @property
    def silent(self) -> list[Member]:
        """The members that do not say which queues they have."""
        return [member for member in self.all if member.info is None]


async def members_of(case: Case) -> Members:
    """Asks brokers for the members of the group, and the members for what they do."""
    tables = await case.ask("who consumes", case.admin.consumers(case.group))
    members = Members(known=tables is not None)
    found: dict[str, Member] = {}
    for address, table in (tables or {}).items():
        members.model = table.message_model or members.model
        members.consume_type = table.consume_type or members.consume_type
        members.consume_from_where = table.consume_from_where or members.consume_from_where
        if (subscription := table.subscription_table.get(case.topic)) is not None:
            members.subscriptions[address] = subscription
        for one in table.connection_set:
            found.setdefault(one.client_id, Member(one.client_id, one.client_addr, address))
    members.all = [found[name] for name in sorted(found)]
    if members.known:
        case.facts.members = len(members.all)
    await asyncio.gather(*(_ask(case, member) for member in members.all[:MEMBERS_MAX]))
    if len(members.all) > MEMBERS_MAX:
        case.unknown.append(
            f"the queues of {len(members.all) - MEMBERS_MAX} members: only the first {MEMBERS_MAX} "
            f"were asked"
        )
    return members


async def _ask(case: Case, member: Member) -> None:
    member.info = await case.ask(
        f"the queues of member {member}",
        case.admin.running_info(case.group, member.client_id, broker_addr=member.broker),
    )


def expressions_of(case: Case, members: Members) -> dict[str, list[Member]]:
    """Groups the members that answered by their expression for the topic; empty for none."""
    sides: dict[str, list[Member]] = {}
    for member in members.all:
        if member.info is not None:
            subscription = member.subscription(case.topic)
            text = "" if subscription is None else words_of(subscription)
            sides.setdefault(text, []).append(member)
    return sides


def words_of(subscription: Subscription) -> str:
    """Words the filter of a subscription."""
    if subscription.takes_all:
        return "* (all messages)"
    kind = subscription.expression_type or "TAG"
    return f"{subscription.sub_string} ({kind})"


def is_retry(topic: str) -> bool:
    """Whether a topic holds further attempts of a group, which no filter applies to."""
    return topic.startswith(RETRY_PREFIX)
