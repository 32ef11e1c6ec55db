"""Each kind of damage to a queue's files, and what is in service after its repair."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from support.store.repairs import BODIES, contents, enter_topic, filled, left, repaired, served
from support.store.stores import (
    RECORD_OVERHEAD,
    SMALL,
    TOPIC,
    abandon,
    copy_of,
    cut_file,
    damage,
    open_store,
    put,
    queue_directory,
    segment_files,
)

from pocketmq.broker.store.log.segment import ENTRY, ENTRY_SIZE, HEADER_SIZE
from pocketmq.broker.store.mending.check import check_directory
from pocketmq.broker.store.mending.metadata_check import survey_metadata
from pocketmq.broker.store.mending.repair import repair_directory
from pocketmq.broker.store.metadata.features import GAPS
from pocketmq.protocol.names.names import SCHEDULE_TOPIC
from pocketmq.testing.clock import VirtualClock

SIZE = RECORD_OVERHEAD + 400


def logs(directory: Path) -> list[Path]:
    return segment_files(directory)


def indexes(directory: Path) -> list[Path]:
    return segment_files(directory, "idx")


def append_to(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def damage_header(directory: Path) -> None:
    damage(logs(directory)[1], 30)


def damage_two(directory: Path) -> None:
    for position in (100, SIZE + 100):
        damage(logs(directory)[0], HEADER_SIZE + position)


def rename(directory: Path) -> None:
    path = logs(directory)[2]
    path.rename(path.with_name("00000000000000000777.log"))


def swap_in(directory: Path) -> None:
    """A segment of another queue in the place of the first one."""
    for suffix in ("log", "idx"):
        other = queue_directory(directory, TOPIC, 3) / f"{0:020d}.{suffix}"
        shutil.copy(other, queue_directory(directory) / other.name)


Damage = Callable[[Path], object]

CASES: dict[str, tuple[Damage, list[bytes], str]] = {
    "garbage behind the end": (
        lambda d: append_to(logs(d)[2], b"!" * 100), BODIES, "cut off 100 bytes",
    ),
    "a torn last record": (
        lambda d: cut_file(logs(d)[2], HEADER_SIZE + SIZE - 1), BODIES[:4], "a gap at offset 4,",
    ),
    "a damaged last record": (
        lambda d: damage(logs(d)[2], HEADER_SIZE + 100), BODIES[:4], "a gap at offset 4,",
    ),
    "a damaged record in the middle": (
        lambda d: damage(logs(d)[1], HEADER_SIZE + 100),
        [*BODIES[:2], *BODIES[3:]], "a gap at offset 2,",
    ),
    "a damaged record at a segment's end": (
        lambda d: damage(logs(d)[0], HEADER_SIZE + SIZE + 100), [BODIES[0], *BODIES[2:]],
        "a gap at offset 1,",
    ),
    "the first record of all": (
        lambda d: damage(logs(d)[0], HEADER_SIZE + 100), BODIES[1:], "a gap at offset 0,",
    ),
    "two damaged records": (damage_two, BODIES[2:], "a gap at offsets 0 to 1,"),
    "a damaged length": (
        lambda d: damage(logs(d)[1], HEADER_SIZE + 1), [*BODIES[:2], *BODIES[3:]],
        "a gap at offset 2,",
    ),
    "a missing middle segment": (
        lambda d: logs(d)[1].unlink(), BODIES[4:], "cannot be joined",
    ),
    "a missing newest segment": (lambda d: logs(d)[2].unlink(), BODIES[:4], "no log to it"),
    "a damaged header": (damage_header, BODIES, "write its header anew"),
    "an empty newest file": (lambda d: cut_file(logs(d)[2], 0), BODIES[:4], "does not begin with"),
    "a foreign file": (
        lambda d: (queue_directory(d) / "9.log").write_text("no log"), BODIES, "does not begin",
    ),
    "a segment of another queue": (swap_in, BODIES[2:], "it is of queue log"),
    "a missing index": (lambda d: indexes(d)[1].unlink(), BODIES, "it is missing"),
    "a short index": (
        lambda d: cut_file(indexes(d)[0], HEADER_SIZE + 3), BODIES, "entries are wrong",
    ),
    "an index longer than its log": (
        lambda d: append_to(indexes(d)[0], bytes(ENTRY_SIZE)), BODIES, "20 bytes more",
    ),
    "a damaged index": (
        lambda d: damage(indexes(d)[1], HEADER_SIZE + 3), BODIES, "make the index again",
    ),
    "no file at all": (lambda d: shutil.rmtree(queue_directory(d)), [], "goes on at offset 5"),
    "a renamed segment": (rename, BODIES[:4], "move it aside"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
async def test_what_is_sound_stays_in_service(
    tmp_path: Path, clock: VirtualClock, case: str
) -> None:
    harm, expected, text = CASES[case]
    directory = await filled(tmp_path / "data", clock)
    harm(directory)
    before = set(contents(directory / "queues").values())
    report = repaired(directory)
    assert text in "\n".join(report.steps)
    assert survey_metadata(directory).features() == ({GAPS} if "a gap" in text else set())
    kept = set(contents(directory).values())
    changed = [data for data in before - kept if len(data) > HEADER_SIZE]
    # Cut ends are kept as pieces, new headers beside the old ones; all else is there whole.
    assert all(any(data[HEADER_SIZE:].endswith(k[-50:]) for k in kept) for data in changed)
    assert await left(directory, clock) == expected
    assert await left(directory, clock, queue_id=3) == [b"x"]


async def test_behind_the_checkpoint_of_a_crash_the_older_records_stay(
    tmp_path: Path, clock: VirtualClock
) -> None:
    """As recovery has it: what was on the disk is not given up for what may not have been."""
    store = open_store(tmp_path / "killed", clock)
    enter_topic(store)
    put(store, *BODIES[:1])
    await store.checkpoint()
    put(store, *BODIES[1:])
    directory = copy_of(tmp_path / "killed", "data")
    abandon(store)
    damage(logs(directory)[1], HEADER_SIZE + 100)
    report = repaired(directory)
    assert "a gap at offset 2," in "\n".join(report.steps)
    assert await left(directory, clock) == [*BODIES[:2], *BODIES[3:]]
    notes = check_directory(directory).notes
    assert any("1 message lost to damage, from offset 2 to 2" in note for note in notes)


async def test_a_gap_is_passed_over_and_its_place_is_no_message(
    tmp_path: Path, clock: VirtualClock
) -> None:
    directory = await filled(tmp_path / "data", clock)
    damage(logs(directory)[1], HEADER_SIZE + 100)
    repaired(directory)
    store = open_store(directory, clock, SMALL)
    found = served(store)
    assert [(m.queue_offset, m.body) for m in found] == [
        (offset, body) for offset, body in enumerate(BODIES) if offset != 2
    ]
    again = [m.queue_offset for m in served(store)]  # also once all has been checked
    assert again == [m.queue_offset for m in found]
    queue_log = store.find_log(TOPIC, 0)
    assert queue_log is not None
    (physical, *_) = ENTRY.unpack(queue_log.entries(2, 1))
    assert store.read_physical(physical) == b""
    assert store.read_physical(found[0].physical_offset) != b""
    await store.close()


async def test_a_topic_of_the_brokers_own_gets_no_gap(tmp_path: Path, clock: VirtualClock) -> None:
    """Each record there means something to the broker, which nothing can stand for."""
    directory = tmp_path / "data"
    store = open_store(directory, clock)
    put(store, *BODIES, topic=SCHEDULE_TOPIC)
    await store.close()
    damage(sorted(queue_directory(directory, SCHEDULE_TOPIC).glob("*.log"))[1], HEADER_SIZE + 150)
    report = repair_directory(directory, directory / "set-aside", dry_run=True)
    assert "a gap" not in "\n".join(report.steps)
    assert "cannot be joined" in "\n".join(report.steps)


async def test_a_newer_version_is_left_as_it_is(tmp_path: Path, clock: VirtualClock) -> None:
    directory = await filled(tmp_path / "data", clock)
    damage(logs(directory)[0], 9)
    before = contents(directory)
    report = repair_directory(directory, directory / "set-aside", dry_run=False)
    assert report.steps == []
    assert "run the version of PocketMQ that wrote it" in report.refusals[0]
    assert contents(directory) == before
