"""Attacks by pulls: costly filters, and many pulls that one message wakes."""

from __future__ import annotations

import asyncio

from support.abuse.arena import TOPIC, Arena, Attack, batch_request

from pocketmq.protocol.filters import TEXT_LENGTH_MAX
from pocketmq.protocol.messages.batch import encode_batch
from pocketmq.protocol.requests.pulling import (
    PULL_SUBSCRIPTION,
    PULL_SUSPEND,
    PullMessageRequest,
)

HOLD_MS = 600_000
PULLS_PER_WRITE = 1000
TAGS_COUNT = 1000


def pull_request(**fields: object) -> PullMessageRequest:
    """A pull of queue 0 of the attacked topic, from its beginning, but for the fields given."""
    given: dict[str, object] = {
        "consumer_group": "attackers",
        "topic": TOPIC,
        "queue_id": 0,
        "queue_offset": 0,
        "sys_flag": PULL_SUBSCRIPTION,
        "subscription": "*",
    }
    return PullMessageRequest(**(given | fields))  # type: ignore[arg-type]


async def costly_expression(arena: Arena) -> None:
    """One pull whose SQL92 expression is as long as it may be, and matches nothing."""
    term = "a = 'x' OR "
    expression = term * ((TEXT_LENGTH_MAX - 5) // len(term)) + "b = 1"
    await _one_pull(arena, expression, "SQL92")


async def tags_that_match_nothing(arena: Arena) -> None:
    """One pull for many tags, none of which any message has."""
    await _one_pull(arena, "||".join(f"t{n}" for n in range(TAGS_COUNT)), "TAG")


async def _one_pull(arena: Arena, expression: str, kind: str) -> None:
    await arena.create_topic()
    await arena.fill(arena.size, properties="a\x01y\x02TAGS\x01other\x02")
    attacker = await arena.connect()
    async with arena.measured():
        await attacker.call(pull_request(subscription=expression, expression_type=kind))


async def held_pulls(arena: Arena) -> None:
    """Many pulls held on one queue, then one message for it."""
    await arena.create_topic(queues=2)
    attacker, sender = await arena.connect(), await arena.connect()
    await attacker.ask(batch_request(), encode_batch([(0, b"first", b"")]))
    requests = [
        attacker.frame(
            pull_request(
                queue_offset=1,
                sys_flag=PULL_SUBSCRIPTION | PULL_SUSPEND,
                suspend_timeout_millis=HOLD_MS,
            )
        )
        for _ in range(arena.size)
    ]
    for first in range(0, arena.size, PULLS_PER_WRITE):
        await attacker.write(b"".join(requests[first : first + PULLS_PER_WRITE]))
    # Frames of a connection are handled in their order: its answer says that all pulls are held.
    await attacker.ask(batch_request(queue_id=1), encode_batch([(0, b"all are held", b"")]))
    async with arena.measured():
        await sender.ask(batch_request(), encode_batch([(0, b"wakes them all", b"")]))
        await attacker.read_many(arena.size)


async def small_pulls(arena: Arena) -> None:
    """Many pulls of 32 messages in one burst, whose answers are read."""
    await arena.create_topic()
    await arena.fill(100)
    attacker = await arena.connect()
    pull = attacker.frame(pull_request())
    async with arena.measured():
        reading = asyncio.ensure_future(attacker.read_many(arena.size))
        await attacker.write(pull * arena.size)
        await reading


ATTACKS = [
    Attack("20,000 pulls in one burst", small_pulls, 20_000, 2_000),
    Attack("1,000 tags over 20,000 messages", tags_that_match_nothing, 20_000, 20_000),
]
