"""Attacks by pulls: costly filters, and many pulls that one message wakes."""

from __future__ import annotations

import asyncio

from support.abuse.arena import TOPIC, Arena, Attack, RawConnection, batch_request

from pocketmq.protocol.filters import TEXT_LENGTH_MAX
from pocketmq.protocol.filters.parser import TEXT_SEARCHES_MAX
from pocketmq.protocol.messages.batch import encode_batch
from pocketmq.protocol.requests.pulling import (
    PULL_SUBSCRIPTION,
    PULL_SUSPEND,
    PullMessageRequest,
)

HOLD_MS = 600_000
SHORT_HOLD_MS = 5_000
PINGS = 200
TAGS_COUNT = 1000
MESSAGE_COUNT = 20_000
LONG_PROPERTY_SIZE = 32_000


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


def long_expression(term: str, joint: str = " OR ", end: str = "") -> str:
    """A SQL92 expression as long as it may be."""
    count = (TEXT_LENGTH_MAX - len(end)) // (len(term) + len(joint))
    return joint.join([term] * count) + end


async def costly_expression(arena: Arena) -> None:
    """One pull whose expression is as long as it may be, and matches nothing."""
    await _one_pull(arena, long_expression("a>b"), "a\x011\x02b\x012\x02")


async def searches_of_long_texts(arena: Arena) -> None:
    """One pull that searches as often as it may in properties as long as they may be."""
    expression = " OR ".join(["a CONTAINS 'aab'"] * TEXT_SEARCHES_MAX)
    await _one_pull(arena, expression, f"a\x01{'a' * LONG_PROPERTY_SIZE}\x02")


async def numbers_without_end(arena: Arena) -> None:
    """One pull that takes properties for numbers which are very long, and none in the end."""
    await _one_pull(arena, "a > 1.5", f"a\x01{'1' * LONG_PROPERTY_SIZE}x\x02")


async def tags_that_match_nothing(arena: Arena) -> None:
    """One pull for many tags, none of which any message has."""
    tags = "||".join(f"t{n}" for n in range(TAGS_COUNT))
    await _one_pull(arena, tags, "TAGS\x01other\x02", kind="TAG")


async def _one_pull(arena: Arena, expression: str, properties: str, *, kind: str = "SQL92") -> None:
    await arena.create_topic()
    await arena.fill(arena.size, properties=properties)
    attacker = await arena.connect()
    async with arena.measured():
        await attacker.call(pull_request(subscription=expression, expression_type=kind))


async def many_expressions(arena: Arena) -> None:
    """A burst of pulls, each with another expression of some length, over the same messages."""
    await _many_pulls(
        arena,
        [
            pull_request(subscription=f"a = {n} OR " + "a > b OR " * 100 + "b = 1",
                         expression_type="SQL92")
            for n in range(arena.size)
        ],
    )  # fmt: skip


async def many_longest_expressions(arena: Arena) -> None:
    """The same with expressions as long as they may be."""
    await _many_pulls(
        arena,
        [
            pull_request(subscription=long_expression("a>b", end=f" OR a={n}"),
                         expression_type="SQL92")
            for n in range(arena.size)
        ],
    )  # fmt: skip


async def many_tags(arena: Arena) -> None:
    """A burst of pulls for a tag that no message has."""
    await _many_pulls(arena, [pull_request(subscription="none")] * arena.size)


async def _many_pulls(arena: Arena, requests: list[PullMessageRequest]) -> None:
    await arena.create_topic()
    await arena.fill(MESSAGE_COUNT, properties="a\x011\x02b\x012\x02TAGS\x01other\x02")
    attacker = await arena.connect()
    burst = b"".join(map(attacker.frame, requests))
    async with arena.measured():
        reading = asyncio.ensure_future(attacker.read_many(len(requests)))
        await attacker.write(burst)
        await reading


async def held_pulls(arena: Arena) -> None:
    """Many pulls held on one queue, then one message for it."""
    attacker, sender = await _hold_pulls(arena)
    async with arena.measured():
        await sender.ask(batch_request(), encode_batch([(0, b"wakes them all", b"")]))
        await attacker.read_many(arena.size)


async def held_pulls_of_one_that_goes(arena: Arena) -> None:
    """Many pulls held on one queue, then their connection closes."""
    attacker, sender = await _hold_pulls(arena)
    async with arena.measured():
        attacker.close()
        for _ in range(PINGS):  # until the broker has noticed, and long after
            await sender.ask(batch_request(queue_id=1), encode_batch([(0, b"x", b"")]))


async def held_pulls_that_end(arena: Arena) -> None:
    """Many pulls held on one queue whose time ends all at once."""
    await _hold_pulls(arena, SHORT_HOLD_MS, attack=True)


async def _hold_pulls(
    arena: Arena, hold_ms: int = HOLD_MS, *, attack: bool = False
) -> tuple[RawConnection, RawConnection]:
    await arena.create_topic(queues=2)
    attacker, sender = await arena.connect(), await arena.connect()
    await attacker.ask(batch_request(), encode_batch([(0, b"first", b"")]))
    pull = attacker.frame(
        pull_request(
            queue_offset=1,
            sys_flag=PULL_SUBSCRIPTION | PULL_SUSPEND,
            suspend_timeout_millis=hold_ms,
        )
    )
    if attack:
        async with arena.measured():
            reading = asyncio.ensure_future(attacker.read_many(arena.size))
            await attacker.write(pull * arena.size)
            await reading
        return attacker, sender
    await attacker.write(pull * arena.size)
    # Frames of a connection are handled in their order: its answer says that all pulls are held.
    await attacker.ask(batch_request(queue_id=1), encode_batch([(0, b"all are held", b"")]))
    return attacker, sender


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
    Attack("a 16 KB SQL92 expression over 20,000 messages", costly_expression, 20_000, 100),
    Attack("256 searches in each of 500 texts of 32 KB", searches_of_long_texts, 500, None),
    Attack("numbers of 32,000 digits", numbers_without_end, 500, None),
    Attack("1,000 tags over 20,000 messages", tags_that_match_nothing, 20_000, 20_000),
    Attack("1,000 pulls with a filter each", many_expressions, 1_000, 20),
    Attack("100 pulls with a filter of 16 KB each", many_longest_expressions, 100, 3),
    Attack("20,000 pulls for a tag that is not there", many_tags, 20_000, 50),
    Attack("50,000 held pulls, then one send", held_pulls, 50_000, 3_000),
    Attack(
        "50,000 held pulls, then their client goes", held_pulls_of_one_that_goes, 50_000, 20_000
    ),
    Attack("50,000 held pulls that end at once", held_pulls_that_end, 50_000, None),
]
