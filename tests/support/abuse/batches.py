"""Attacks by sends: many small ones at once, and batches of very many messages."""

from __future__ import annotations

import asyncio

from support.abuse.arena import Arena, Attack, batch_request

from pocketmq.broker.handlers.sending.long_batches import AT_ONCE_COUNT_MAX
from pocketmq.protocol.messages.batch import encode_batch

BURST_SIZE = 16 * 1024 * 1024
TINY_SIZE = 1


async def small_sends(arena: Arena) -> None:
    """As many sends as fit into 16 MiB, or fewer, in one burst."""
    await arena.create_topic()
    attacker = await arena.connect()
    batch = encode_batch([(0, bytes(TINY_SIZE), b"")])
    frame = attacker.frame(batch_request(), batch)
    count = min(arena.size, BURST_SIZE // len(frame))
    async with arena.measured():
        reading = asyncio.ensure_future(attacker.read_many(count))
        await attacker.write(frame * count)
        await reading


async def tiny_messages(arena: Arena) -> None:
    """One batch of very many messages of a byte each, as alike as can be."""
    await arena.create_topic()
    attacker = await arena.connect()
    batch = encode_batch([(0, b"x", b"")] * arena.size)
    async with arena.measured():
        await attacker.call(batch_request(), batch)


async def tiny_messages_of_two_sizes(arena: Arena) -> None:
    """The same with messages of one byte and of two by turns, each with a tag of its own."""
    await arena.create_topic()
    attacker = await arena.connect()
    batch = encode_batch(
        [(0, b"x" * (1 + n % 2), f"TAGS\x01{n}\x02".encode()) for n in range(arena.size)]
    )
    async with arena.measured():
        await attacker.call(batch_request(), batch)


async def many_batches(arena: Arena) -> None:
    """A burst of batches, each just short enough to be handled at once."""
    await arena.create_topic()
    attacker = await arena.connect()
    frame = attacker.frame(batch_request(), encode_batch([(0, b"x", b"")] * AT_ONCE_COUNT_MAX))
    count = min(arena.size, BURST_SIZE // len(frame))
    async with arena.measured():
        reading = asyncio.ensure_future(attacker.read_many(count))
        await attacker.write(frame * count)
        await reading


ATTACKS = [
    Attack("16 MiB of small sends in one burst", small_sends, 100_000, 2_000),
    Attack("16 MiB of batches of 1,500 messages", many_batches, 1_000, 60),
    Attack("a batch of 180,000 messages", tiny_messages, 180_000, 60_000),
    Attack("a batch of 110,000 messages with tags", tiny_messages_of_two_sizes, 110_000, 50_000),
]
