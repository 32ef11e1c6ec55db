"""Ready-made queue selectors: callables of (queues, message, arg) that return one of the queues."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from random import Random
from typing import Any

from pocketmq.client.errors import QueueChoiceError
from pocketmq.protocol.errors import UsageError
from pocketmq.protocol.messages.message import Message, MessageQueue
from pocketmq.protocol.messages.properties import java_hash

QueueSelector = Callable[[Sequence[MessageQueue], Message, Any], MessageQueue]

_ROOM_SEPARATOR = "@"


def by_hash(queues: Sequence[MessageQueue], message: Message, arg: Any = None) -> MessageQueue:
    """Selects the same queue for equal keys while the number of queues stays the same.

    The key is `arg` or else the message's sharding key. Text and integers hash as in Java
    (`producer/selector/SelectMessageQueueByHash`), so Java producers choose the same queue.

    Raises:
        UsageError: there is neither an arg nor a sharding key.
    """
    key = message.sharding_key if arg is None else arg
    if key is None:
        raise UsageError("the hash selector needs a key: give arg= or the message a sharding_key")
    code = key if isinstance(key, int) else java_hash(str(key))
    return queues[abs(code) % len(queues)]


class ByRandom:
    """Selects a random queue.

    Args:
        random: the source of randomness.
    """

    def __init__(self, random: Random | None = None) -> None:
        self._random = random or Random()

    def __call__(
        self, queues: Sequence[MessageQueue], message: Message, arg: Any = None
    ) -> MessageQueue:
        """Returns one of the queues."""
        return self._random.choice(queues)


by_random = ByRandom()


def room_of(broker_name: str) -> str:
    """Returns the machine room of a broker named ``room@name``; empty for other names."""
    room, separator, _ = broker_name.partition(_ROOM_SEPARATOR)
    return room if separator else ""


class ByMachineRoom:
    """Selects the queues of the brokers in some machine rooms one after the other.

    Args:
        rooms: the rooms to send to.
        room_of: returns a broker's room by its name; by default the part before ``@``.
    """

    def __init__(self, rooms: Collection[str], room_of: Callable[[str], str] = room_of) -> None:
        self._rooms, self._room_of = frozenset(rooms), room_of
        self._index = 0

    def __call__(
        self, queues: Sequence[MessageQueue], message: Message, arg: Any = None
    ) -> MessageQueue:
        """Returns one of the rooms' queues.

        Raises:
            QueueChoiceError: the topic has no queue in these rooms.
        """
        near = [q for q in queues if self._room_of(q.broker_name) in self._rooms]
        if not near:
            raise QueueChoiceError(
                message.topic, sorted(self._rooms), "the topic has no queue in these machine rooms"
            )
        self._index += 1
        return near[self._index % len(near)]
