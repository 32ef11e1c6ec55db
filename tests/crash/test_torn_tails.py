"""A log and its index, cut and damaged at every byte of what was written last."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path

import pytest
from support.store.stores import (
    SMALL,
    TOPIC,
    abandon,
    append,
    assert_sound,
    copy_of,
    cut_file,
    damage,
    messages,
    open_store,
    put,
    segment_files,
)

from pocketmq.broker.store.log.segment import ENTRY_SIZE, HEADER_SIZE
from pocketmq.broker.store.store import MessageStore
from pocketmq.protocol.messages.message import ReceivedMessage
from pocketmq.protocol.messages.records import QUEUE_OFFSET_AT
from pocketmq.testing.clock import VirtualClock

pytestmark = pytest.mark.usefixtures("quiet")

KEPT, LAST = 3, 3
"""Records that a checkpoint vouches for, and behind it."""


Left = tuple[Path, list[bytes], list[int]]
Some = Callable[[Iterable[int]], list[int]]


@pytest.fixture
async def left(tmp_path: Path, clock: VirtualClock) -> Left:
    """What a killed broker left, the bodies in it, and where in the file the last records begin."""
    store = open_store(tmp_path / "data", clock)
    bodies = [b"kept %d" % n for n in range(KEPT)] + [b"last %d" % n * 3 for n in range(LAST)]
    put(store, *bodies[:KEPT])
    await store.checkpoint()
    starts = []
    for body in bodies[KEPT:]:
        starts.append(store.queue_log(TOPIC, 0).end_position + HEADER_SIZE)
        put(store, body)
    store.queue_log(TOPIC, 0).write_index()
    path = copy_of(tmp_path / "data", "left")
    abandon(store)
    return path, bodies, starts


def found_in(directory: Path, clock: VirtualClock) -> list[ReceivedMessage]:
    """What a broker serves; it must be ready for more, and sound when it stops."""
    store = open_store(directory, clock)
    try:
        found = messages(store.find_log(TOPIC, 0))
        put(store, b"next")
        assert [m.body for m in messages(store.find_log(TOPIC, 0))][len(found) :] == [b"next"]
    finally:
        abandon(store)
    again = open_store(directory, clock)
    assert [m.body for m in messages(again.find_log(TOPIC, 0))][: len(found)] == [
        m.body for m in found
    ]
    abandon(again)
    assert_sound(directory)
    return found


@pytest.fixture
def some(chance: random.Random, crash_points: int | None) -> Some:
    """So many of some positions as crashes are asked for."""

    def choose(positions: Iterable[int]) -> list[int]:
        found = list(positions)
        count = len(found) if crash_points is None else min(crash_points, len(found))
        return chance.sample(found, count)

    return choose


def copies(path: Path, positions: Iterable[int]) -> Iterator[tuple[int, Path]]:
    for at in positions:
        target = path.with_name(f"{at}")
        shutil.copytree(path, target)
        yield at, target
        shutil.rmtree(target)


async def test_a_log_cut_anywhere_ends_behind_its_last_whole_record(
    left: Left, clock: VirtualClock, some: Some
) -> None:
    path, bodies, starts = left
    (log,) = segment_files(path)
    size = (path.parent / "data" / log.relative_to(path)).stat().st_size
    ends = [*starts[1:], size]
    for at, target in copies(path, some(range(starts[0], size))):
        cut_file(target / log.relative_to(path), at)
        whole = KEPT + sum(end <= at for end in ends)
        assert [m.body for m in found_in(target, clock)] == bodies[:whole]


async def test_no_damaged_body_is_ever_served(
    left: Left, clock: VirtualClock, chance: random.Random, some: Some
) -> None:
    """Each byte changed that is checked: what is served was sent, and nothing is in between."""
    path, bodies, starts = left
    (log,) = segment_files(path)
    size = log.stat().st_size
    checked = [
        range(start + first, start + end)
        for start, body in zip(starts, bodies[KEPT:], strict=True)
        for first, end in ((0, 12), (QUEUE_OFFSET_AT, QUEUE_OFFSET_AT + 16), (84, 88 + len(body)))
    ]
    assert checked[-1].stop < size
    for at, target in copies(path, some(chain(*checked))):
        damage(target / log.relative_to(path), at, bytes((chance.randrange(256),)))
        found = [m.body for m in found_in(target, clock)]
        assert found == bodies[: len(found)]
        victim = KEPT + sum(start <= at for start in starts) - 1
        assert len(found) >= victim


async def test_an_index_cut_or_damaged_anywhere_is_made_again(
    left: Left, clock: VirtualClock, chance: random.Random, some: Some
) -> None:
    path, bodies, _ = left
    (index,) = segment_files(path, "idx")
    start, size = HEADER_SIZE + KEPT * ENTRY_SIZE, index.stat().st_size
    for at, target in copies(path, some(range(start, size))):
        place = target / index.relative_to(path)
        if chance.random() < 0.5:
            cut_file(place, at)
        else:
            damage(place, at)
        assert [m.body for m in found_in(target, clock)] == bodies


def test_an_append_behind_a_torn_record_takes_its_place(
    tmp_path: Path, clock: VirtualClock
) -> None:
    """The same place is written again by a shorter record: nothing of the longer one is left."""
    store = MessageStore(tmp_path / "data", SMALL, clock)
    put(store, b"first", b"second" * 20)
    path = copy_of(tmp_path / "data", "left")
    abandon(store)
    (log,) = segment_files(path)
    cut_file(log, log.stat().st_size - 1)
    store = open_store(path, clock)
    outcome = append(store, b"2")
    store.commit()
    assert outcome.is_stored
    assert [m.body for m in messages(store.find_log(TOPIC, 0))] == [b"first", b"2"]
    abandon(store)
    assert [m.body for m in found_in(path, clock)] == [b"first", b"2"]
