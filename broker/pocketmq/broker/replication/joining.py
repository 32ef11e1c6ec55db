"""How a member joins its leader: it tells where its logs end, and cuts off what differs."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

import msgspec

from pocketmq.broker.replication.peer import Place
from pocketmq.broker.store.disk.errors import StoreError
from pocketmq.broker.store.log.checkpoint import Checkpoint
from pocketmq.broker.store.log.queue_log import QueueLog
from pocketmq.broker.store.log.segment import HEADER_SIZE
from pocketmq.broker.store.log_ends import end_of
from pocketmq.broker.store.metadata.log_epochs import EpochStart, LogEpochs, common_end
from pocketmq.broker.store.store import MessageStore

log = logging.getLogger("pocketmq.replication")

CUT_KEPT_SIZE_MAX = 64 * 1024 * 1024
"""Bytes of the end of one log that are kept aside when the end is cut off."""

CUTS = "cut"
"""The folder of the data directory in which they are kept."""


class WouldLoseError(StoreError):
    """A member is told to cut what all in-sync members had: the leader is of other data."""


class LogReport(msgspec.Struct, frozen=True, array_like=True):
    """What a member has of one log.

    Attributes:
        number, topic, queue_id: of the log.
        position: where it ends.
        history: (epoch, position) rows, see `LogEpochs`.
    """

    number: int
    topic: str
    queue_id: int
    position: int
    history: list[EpochStart]


class Cuts(msgspec.Struct, frozen=True, array_like=True):
    """What a member is to remove before it follows.

    Attributes:
        positions: (number of a log, position from which on it differs from the leader's).
        topics: those with logs that the leader does not have.
    """

    positions: list[tuple[int, int]]
    topics: list[str]


def set_damaged_aside(store: MessageStore, epochs: LogEpochs) -> None:
    """Moves the files of damaged queues aside: they are copied anew from the leader.

    Raises:
        OSError, WriteFailedError: some of them are still damaged.
    """
    for error in list(store.damaged):
        known = store.logs.table.get(error.topic, error.queue_id)
        if known is None:
            continue
        store.metadata.save_checkpoints([(known.number, Checkpoint())])
        store.logs.table.set_checkpoint(known.number, Checkpoint())
        store.metadata.sync()
        store.files.make_directory(store.directory / CUTS)
        name = f"{known.topic}-{known.queue_id}-{known.number}-damaged"
        store.logs.set_aside(known, _new_name(store.directory / CUTS, name))
        epochs.forget(known.number)
        store.damaged.forget(known.topic, known.queue_id)
        log.warning("%s queue %d is damaged, and is copied from the leader: its files are in %s",
                    known.topic, known.queue_id, store.directory / CUTS)  # fmt: skip


def _new_name(folder: Path, name: str) -> Path:
    """A name that nothing in the folder has."""
    path, count = folder / name, 1
    while path.exists():
        count += 1
        path = folder / f"{name}-{count}"
    return path


def report_of(store: MessageStore, epochs: LogEpochs) -> list[LogReport]:
    """Tells what there is of each log.

    A damaged log counts as empty.

    Raises:
        StoreError, OSError: a log cannot be read.
    """
    reports: list[LogReport] = []
    for topic, queue_id, number, _ in store.logs.table:
        position, history = 0, list[EpochStart]()
        if store.damaged.get(topic, queue_id) is None:
            position, history = end_of(store, number), list(epochs.of(number))
        reports.append(LogReport(number, topic, queue_id, position, history))
    return reports


def cuts_for(reports: Sequence[LogReport], store: MessageStore, epochs: LogEpochs) -> Cuts:
    """Compares a member's logs with the leader's.

    Args:
        reports: what the member has.
        store, epochs: of the leader.
    """
    positions: list[tuple[int, int]] = []
    topics: dict[str, None] = {}
    for theirs in reports:
        known = store.logs.table.by_number(theirs.number)
        if known is None or (known.topic, known.queue_id) != (theirs.topic, theirs.queue_id):
            topics[theirs.topic] = None
            continue
        end = common_end(
            epochs.of(theirs.number), end_of(store, theirs.number),
            theirs.history, theirs.position,
        )  # fmt: skip
        if end < theirs.position:
            positions.append((theirs.number, end))
    return Cuts(positions, list(topics))


def places_of(store: MessageStore) -> dict[int, Place]:
    """Returns where each log ends."""
    places: dict[int, Place] = {}
    for known in store.logs.table:
        if known.checkpoint is not None and store.logs.is_at_rest(known):
            places[known.number] = Place(known.checkpoint.position, known.checkpoint.offset)
        elif (queue_log := store.find_log(known.topic, known.queue_id)) is not None:
            places[known.number] = Place(queue_log.written_position, queue_log.written_offset)
    return places


async def apply_cuts(
    store: MessageStore, epochs: LogEpochs, cuts: Cuts, replicated: dict[int, int]
) -> None:
    """Cuts off what differs from the leader; it is on the disk when this returns.

    The checkpoints go down first, durably: else a start that finds the records gone takes the log
    for damaged. The histories go last: until then the records are known as those of their epochs.

    Args:
        store, epochs: of the member.
        cuts: what the leader told.
        replicated: up to where all in-sync members had a log, by number.

    Raises:
        WouldLoseError: nothing was cut.
        StoreError, OSError: the disk failed.
    """
    logs: list[tuple[QueueLog, int]] = []
    for number, position in cuts.positions:
        known = store.logs.table.by_number(number)
        queue_log = known and store.find_log(known.topic, known.queue_id)
        if queue_log is None:
            continue
        if position < replicated.get(number, 0):
            raise WouldLoseError(
                f"the leader lacks {queue_log.topic} queue {queue_log.queue_id} from position "
                f"{position} on, though all in-sync members had it up to {replicated[number]}: is "
                f"it a leader of another broker set, or were its files replaced? Nothing was cut; "
                f"to take the leader's data over, start this member with an empty directory"
            )
        logs.append((queue_log, position))
    if logs:
        _lower_checkpoints(store, logs)
    for queue_log, position in logs:
        log.warning(
            "%s queue %d: %d bytes from position %d on are cut off, which the leader does not "
            "have", queue_log.topic, queue_log.queue_id, queue_log.written_position - position,
            position,
        )  # fmt: skip
        _keep_aside(store, queue_log, position)
        if queue_log.segments and position > queue_log.segments[0].base_position:
            queue_log.cut(position)
        else:
            queue_log.restart_at(0, 0)
        store.committer.unsynced[queue_log] = None
        await store.flusher.sync(queue_log, index=True)
    for queue_log, position in logs:
        epochs.cut(queue_log.number, position)
    for topic in cuts.topics:
        log.warning("%s has queues here that the leader does not have: it is removed", topic)
        for number in store.logs.table.numbers(topic):
            epochs.forget(number)
        await store.delete_topic(topic)
    await store.checkpoint()


def _lower_checkpoints(store: MessageStore, logs: Sequence[tuple[QueueLog, int]]) -> None:
    lowered: list[tuple[int, Checkpoint]] = []
    for queue_log, position in logs:
        known = store.logs.table.by_number(queue_log.number)
        if known is None or known.checkpoint is None or known.checkpoint.position <= position:
            continue
        if not queue_log.segments or position <= queue_log.segments[0].base_position:
            checkpoint = Checkpoint()
        else:
            offset = queue_log.written_offset_at(position)
            checkpoint = Checkpoint(position, offset, queue_log.written_timestamp(offset - 1))
        lowered.append((queue_log.number, checkpoint))
    store.metadata.save_checkpoints(lowered)
    for number, checkpoint in lowered:
        store.logs.table.set_checkpoint(number, checkpoint)
    store.metadata.sync()


def _keep_aside(store: MessageStore, queue_log: QueueLog, position: int) -> None:
    """Copies the end of a log into a file of its own: somebody may want to look at it."""
    folder = store.directory / CUTS
    store.files.make_directory(folder)
    name = f"{queue_log.topic}-{queue_log.queue_id}-{queue_log.number}-{position}.cut"
    path, at = Path(folder / name), 0
    store.files.create(path, b"")
    for index, segment in enumerate(queue_log.segments):
        end, _ = queue_log.segment_end(index)
        start = max(position, segment.base_position)
        if start >= end or at >= CUT_KEPT_SIZE_MAX:
            continue
        size = min(end - start, CUT_KEPT_SIZE_MAX - at)
        data = store.files.read(segment.log_file, start - segment.base_position + HEADER_SIZE, size)
        store.files.write(path, at, data)
        at += len(data)
