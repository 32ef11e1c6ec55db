"""The crash tests can fail: each way of breaking the store here is found by them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.crash.crash_runs import Explorer, Recording

from pocketmq.broker.delay import progress
from pocketmq.broker.groups.offsets import ConsumerOffsets
from pocketmq.broker.store.log import leftovers, scan
from pocketmq.broker.store.log.checkpoint import Checkpoint
from pocketmq.broker.store.log.queue_log import QueueLog, Waiter
from pocketmq.broker.store.writing.committer import Committer
from pocketmq.broker.store.writing.flusher import Flusher

pytestmark = pytest.mark.usefixtures("quiet")

STEPS = 40
SEEDS = range(1, 4)
EVERY = 13
Mutation = Callable[[pytest.MonkeyPatch], None]


def no_sync(patch: pytest.MonkeyPatch) -> None:
    """Files are not brought to the disk."""
    sync: Any = Flusher._sync
    patch.setattr(Flusher, "_sync", lambda self, _, directories: sync(self, [], directories))


def no_directory_sync(patch: pytest.MonkeyPatch) -> None:
    """The names of new files are not brought to the disk."""
    patch.setattr(QueueLog, "unsynced_directories", lambda _: [])


def answer_before_flush(patch: pytest.MonkeyPatch) -> None:
    """SYNC_FLUSH answers at once."""
    flush: Any = Flusher.flush

    def hasty(self: Flusher, queue_log: QueueLog, callbacks: list[Any], size: int = 0) -> None:
        for callback in callbacks:
            callback(None)
        flush(self, queue_log, [], size)

    patch.setattr(Flusher, "flush", hasty)


def answer_before_write(patch: pytest.MonkeyPatch) -> None:
    """Answers leave before the log is written."""
    append: Any = QueueLog.append

    def hasty(self: QueueLog, record: bytes, tags_code: int, waiter: Waiter | None) -> None:
        append(self, record, tags_code, None)
        if waiter is not None:
            waiter.on_stored(None)

    patch.setattr(QueueLog, "append", hasty)
    patch.setattr(Committer, "read_ends", lambda self: self._schedule())


def checkpoint_before_sync(patch: pytest.MonkeyPatch) -> None:
    """A checkpoint vouches for what is not on the disk."""

    async def hasty(self: Flusher, queue_log: QueueLog, *, index: bool = False) -> Checkpoint:
        return Checkpoint(queue_log.end_position, queue_log.end_offset, queue_log.last_timestamp)

    patch.setattr(Flusher, "sync", hasty)


def progress_before_copies(patch: pytest.MonkeyPatch) -> None:
    """It is written down that a message was delivered while its copy is not on the disk."""
    patch.setattr(progress, "_is_safe", lambda *_: True)


def offsets_behind_the_log(patch: pytest.MonkeyPatch) -> None:
    """Groups keep their place behind the end of a log that lost it."""
    patch.setattr(ConsumerOffsets, "bring_back", lambda *_: None)


def deletion_not_durable(patch: pytest.MonkeyPatch) -> None:
    """The deletion of a topic is answered before it is on the disk."""

    async def hasty(*_: object) -> None:
        """Nothing is brought to the disk."""

    patch.setattr(Flusher, "sync_file", hasty)


def removed_segments_return(patch: pytest.MonkeyPatch) -> None:
    """Recovery has the records behind a bad one stay in the log."""
    patch.setattr(leftovers, "_remove_segment", lambda *_: 0)


def records_unchecked(patch: pytest.MonkeyPatch) -> None:
    """Recovery takes every record for sound."""
    patch.setattr(
        scan, "check_record", lambda data, at, _: int.from_bytes(data[at : at + 4], "big")
    )


MUTATIONS: list[tuple[Mutation, bool, tuple[str, ...]]] = [
    (no_sync, True, ("everything",)),
    (no_directory_sync, True, ("everything",)),
    (answer_before_flush, True, ("everything",)),
    (answer_before_write, False, ("kill",)),
    (checkpoint_before_sync, False, ("everything", "anything")),
    (progress_before_copies, False, ("everything", "nothing", "anything")),
    (offsets_behind_the_log, False, ("nothing", "anything")),
    (deletion_not_durable, True, ("metadata", "everything")),
    (removed_segments_return, False, ("zeros", "anything")),
    (records_unchecked, False, ("zeros", "torn", "anything")),
]
"""What is broken, whether with SYNC_FLUSH, and the crashes that may show it."""


OFTEN = (no_sync, answer_before_flush, answer_before_write, checkpoint_before_sync)
"""What is tried with every run of the tests; the others take longer."""


def is_found(explorer: Explorer, run: Recording, how: tuple[str, ...]) -> bool:
    for position in range(run.first, len(run.disk.journal), EVERY):
        for name in how:
            try:
                explorer.crash(run, position, name)
            except AssertionError:
                return True
    return False


@pytest.mark.parametrize(
    ("mutation", "is_sync", "how"), MUTATIONS, ids=[m.__name__ for m, _, _ in MUTATIONS]
)
@pytest.mark.timeout(1200)
def test_a_broken_store_is_found(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    mutation: Mutation,
    is_sync: bool,
    how: tuple[str, ...],
    crash_points: int | None,
) -> None:
    if mutation not in OFTEN and crash_points is not None:
        pytest.skip("it takes long: --crash-points=all, make crash")
    mutation(monkeypatch)
    for seed in SEEDS:
        explorer = Explorer(tmp_path / str(seed), seed, is_sync=is_sync)
        if is_found(explorer, explorer.record(STEPS), how):
            return
    raise AssertionError(f"the crash tests do not notice: {mutation.__doc__}")
