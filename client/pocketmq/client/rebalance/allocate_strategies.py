"""Strategies that divide a topic's queues: pure functions, the same in every member."""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence

from pocketmq.client.producers.selectors import room_of
from pocketmq.protocol.errors import ConfigError
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.protocol.names.names import RETRY_PREFIX

AllocateStrategy = Callable[[str, Sequence[MessageQueue], Sequence[str]], Sequence[MessageQueue]]
"""(own client id, all queues sorted, all client ids sorted) → the own queues.

Every member computes this for itself, so it must depend on nothing else, and the members' shares
together must be all queues, each once.
"""

VIRTUAL_NODES_DEFAULT = 10
"""Places of each member on the ring of the consistent hash, as in RocketMQ."""


def allocate_averagely(
    client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
) -> Sequence[MessageQueue]:
    """Gives each member as many neighbouring queues; the first members take the remainder.

    `client/consumer/rebalance/AllocateMessageQueueAveragely`; members of other SDKs in the same
    group must come to the same result.
    """
    if client_id not in client_ids:
        return ()
    index = client_ids.index(client_id)
    share, left_over = divmod(len(queues), len(client_ids))
    start = index * share + min(index, left_over)
    return queues[start : start + share + (index < left_over)]


def allocate_by_circle(
    client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
) -> Sequence[MessageQueue]:
    """Deals queues out like cards (`AllocateMessageQueueAveragelyByCircle`)."""
    if client_id not in client_ids:
        return ()
    return queues[client_ids.index(client_id) :: len(client_ids)]


class AllocateByConfiguration:
    """Gives this member configured queues (`AllocateMessageQueueByConfig`).

    Whoever configures the group sees to it that each queue is with one member. The queues of the
    group's retry topic are shared averagely unless some of them are named: what failed must be
    somebody's.

    Args:
        queues: of any topics.
    """

    def __init__(self, queues: Iterable[MessageQueue]) -> None:
        self._queues = frozenset(queues)
        self._topics = frozenset(q.topic for q in self._queues)

    def __call__(
        self, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> Sequence[MessageQueue]:
        """Returns those of the topic's queues that are configured for this member."""
        topic = queues[0].topic if queues else ""
        if topic.startswith(RETRY_PREFIX) and topic not in self._topics:
            return allocate_averagely(client_id, queues, client_ids)
        return [q for q in queues if q in self._queues]


class AllocateByMachineRoom:
    """Divides the queues of some machine rooms (`AllocateMessageQueueByMachineRoom`).

    Each member gets as many neighbouring queues; one of the last ones goes to each of the first
    members. The queues of other rooms belong to no member.

    Args:
        rooms: the rooms; all members must name the same.
        room_of: returns a broker's room by its name; by default the part before ``@``.
    """

    def __init__(self, rooms: Collection[str], room_of: Callable[[str], str] = room_of) -> None:
        self._rooms, self._room_of = frozenset(rooms), room_of

    def __call__(
        self, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> Sequence[MessageQueue]:
        """Returns this member's part of the rooms' queues."""
        if client_id not in client_ids:
            return ()
        near = [q for q in queues if self._room_of(q.broker_name) in self._rooms]
        index, count = client_ids.index(client_id), len(client_ids)
        share, left_over = divmod(len(near), count)
        own = near[index * share : (index + 1) * share]
        return [*own, near[count * share + index]] if index < left_over else own


class AllocateNearby:
    """Gives queues to members in the same machine room (`AllocateMachineRoomNearby`).

    The queues of a room without members are shared among all.

    Args:
        room_of_client: returns a member's room by its client id (``ip@instance_name``).
        room_of_broker: returns a broker's room by its name; by default the part before ``@``.
        strategy: how the queues of one room are shared.
    """

    def __init__(
        self,
        room_of_client: Callable[[str], str],
        room_of_broker: Callable[[str], str] = room_of,
        strategy: AllocateStrategy = allocate_averagely,
    ) -> None:
        self._room_of_client, self._room_of_broker = room_of_client, room_of_broker
        self._strategy = strategy

    def __call__(
        self, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> Sequence[MessageQueue]:
        """Returns this member's part of its own room and of the rooms without members.

        Raises:
            ConfigError: the room of a broker or a member is not known.
        """
        if client_id not in client_ids:
            return ()
        queues_in: dict[str, list[MessageQueue]] = defaultdict(list)
        for queue in queues:
            room = self._room_of_broker(queue.broker_name)
            queues_in[_known(room, f"broker {queue.broker_name}")].append(queue)
        members_in: dict[str, list[str]] = defaultdict(list)
        for member in client_ids:
            members_in[_known(self._room_of_client(member), f"member {member}")].append(member)
        own_room = self._room_of_client(client_id)
        own = [*self._strategy(client_id, queues_in.pop(own_room, ()), members_in[own_room])]
        for room, abandoned in sorted(queues_in.items()):
            if room not in members_in:
                own += self._strategy(client_id, abandoned, client_ids)
        return own


def _known(room: str, whose: str) -> str:
    if not room:
        raise ConfigError(
            f"the machine room of {whose} is not known: name brokers `room@name`, or give "
            f"AllocateNearby a function that tells it"
        )
    return room


class AllocateByConsistentHash:
    """Moves few queues when members come or go (`AllocateMessageQueueConsistentHash`).

    Members and queues are put on a ring by MD5; a queue is the next member's. With RocketMQ's
    number of virtual nodes, members in Java come to the same result. The shares are uneven.

    Args:
        virtual_nodes: places of each member on the ring; more make the shares more even.

    Raises:
        ConfigError: there is none.
    """

    def __init__(self, virtual_nodes: int = VIRTUAL_NODES_DEFAULT) -> None:
        if virtual_nodes < 1:
            raise ConfigError(f"virtual_nodes={virtual_nodes}: each member needs a place")
        self._virtual_nodes = virtual_nodes

    def __call__(
        self, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> Sequence[MessageQueue]:
        """Returns the queues that follow this member on the hash ring."""
        if client_id not in client_ids:
            return ()
        ring = {
            _place(f"{member}-{number}"): member
            for member in client_ids
            for number in range(self._virtual_nodes)
        }
        places = sorted(ring)

        def owner(queue: MessageQueue) -> str:
            # The text is Java's `MessageQueue#toString`, which its members hash.
            text = (
                f"MessageQueue [topic={queue.topic}, brokerName={queue.broker_name}, "
                f"queueId={queue.queue_id}]"
            )
            return ring[places[bisect_left(places, _place(text)) % len(places)]]

        return [q for q in queues if owner(q) == client_id]


def _place(text: str) -> int:
    digest = hashlib.md5(text.encode(), usedforsecurity=False).digest()
    return int.from_bytes(digest[:4], "big")
