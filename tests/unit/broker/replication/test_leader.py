"""A leader and its followers: real stores, and a link without a socket."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio
from support.replication.members import Member
from support.store.disks import refuse_changes
from support.store.stores import TOPIC, append, bodies, put

from pocketmq.broker.store.disk.errors import FormatError, NotReplicatedError, WriteFailedError
from pocketmq.broker.store.log.queue_log import WRITTEN, QueueLog
from pocketmq.broker.store.settings import StoreSettings
from pocketmq.testing.clock import VirtualClock, settle


@pytest_asyncio.fixture
async def members(tmp_path: Path, clock: VirtualClock) -> AsyncIterator[list[Member]]:
    members = [Member(tmp_path / str(number), clock) for number in (1, 2, 3)]
    yield members
    for member in members:
        if member.leader is not None:
            await member.step_down()
        await member.store.close()


def log_of(member: Member) -> QueueLog:
    queue_log = member.store.find_log(TOPIC, 0)
    assert queue_log is not None
    return queue_log


def is_readable(member: Member) -> bool:
    return member.follower.is_readable


async def commit(member: Member) -> None:
    member.store.commit()
    await settle()


async def test_what_is_not_replicated_is_neither_answered_nor_seen(members: list[Member]) -> None:
    one, two, _ = members
    leader = one.lead(1, 2)
    link = await two.follow(one)
    await settle()
    link.is_cut = True
    told = append(one.store, b"held")
    at_once = append(one.store, b"not waited for", durability=WRITTEN)
    await commit(one)
    assert (told.is_told, at_once.is_stored) == (False, True)
    assert bodies(one.store) == []
    link.deliver()
    assert told.is_stored
    assert bodies(one.store) == [b"held", b"not waited for"]
    assert bodies(two.store) == []  # it does not know yet that all have it
    link.is_cut = False
    await commit(one)
    leader.keep_alive()
    await settle()
    assert bodies(two.store) == [b"held", b"not waited for"]


async def test_a_new_follower_gets_logs_and_metadata_while_the_leader_works_on(
    members: list[Member],
) -> None:
    one, two, _ = members
    put(one.store, *(f"{i}".encode() * 50 for i in range(40)))
    put(one.store, b"other", topic="Other", queue_id=3)
    one.store.metadata.save_topics([("Orders", "{}"), ("Other", "{}")])
    one.lead(1, 2)
    told = append(one.store, b"before")
    await commit(one)
    await two.follow(one)
    await settle()
    assert told.is_stored
    again = append(one.store, b"after")
    one.store.metadata.set_state("some", "thing")
    one.store.metadata.set_state("member_own", "thing")
    await commit(one)
    await settle()
    assert again.is_stored
    two.follower.show_all()
    assert bodies(two.store) == bodies(one.store)
    assert bodies(two.store, "Other", 3) == [b"other"]
    assert two.store.metadata.topics() == one.store.metadata.topics()
    assert two.store.metadata.state("some") == "thing"
    assert two.store.metadata.state("member_own") is None
    assert two.store.metadata.last_log_number() == one.store.metadata.last_log_number()


async def test_a_deposed_leader_loses_what_nobody_has(members: list[Member]) -> None:
    one, two, _ = members
    one.lead(1, 2)
    link = await two.follow(one)
    first = append(one.store, b"kept")
    await commit(one)
    await settle()
    assert first.is_stored
    link.is_cut = True
    lost = append(one.store, b"nobody has it" * 100)
    await commit(one)
    put_aside = log_of(one).written_offset
    await one.step_down()
    assert lost.error is not None
    leader = two.lead(2, 1)
    assert bodies(two.store) == [b"kept"]
    leader.turns.require([])
    put(two.store, b"of the second epoch")
    leader.turns.require([1])
    await one.follow(two, 1)
    await settle()
    one.follower.show_all()
    assert put_aside == 2
    assert bodies(one.store) == [b"kept", b"of the second epoch"]
    assert [path.name for path in (one.store.directory / "cut").iterdir()] == [
        f"Orders-0-1-{one.epochs.of(1)[1].position}.cut"
    ]
    assert one.epochs.of(1) == two.epochs.of(1)


async def test_a_turn_that_takes_too_long_is_told_and_stays(
    members: list[Member], clock: VirtualClock
) -> None:
    one, two, _ = members
    one.lead(1, 2)
    link = await two.follow(one)
    await settle()
    link.is_cut = True
    told = append(one.store, b"late")
    await commit(one)
    await clock.advance(3.1)
    assert isinstance(told.error, NotReplicatedError)
    assert told.error.lacking == [2]
    assert bodies(one.store) == []
    link.deliver()
    assert bodies(one.store) == [b"late"]


async def test_topics_go_and_come_again_under_other_numbers(members: list[Member]) -> None:
    one, two, _ = members
    one.lead(1, 2)
    await two.follow(one)
    append(one.store, b"old")
    await commit(one)
    gone = one.store.delete_topic(TOPIC)
    append(one.store, b"new")
    await commit(one)
    await gone
    await settle()
    two.follower.show_all()
    assert bodies(two.store) == bodies(one.store) == [b"new"]
    assert two.store.logs.table.numbers(TOPIC) == one.store.logs.table.numbers(TOPIC) == [2]


async def test_a_follower_begins_where_retention_has_left_the_leader(
    members: list[Member],
) -> None:
    one, two, _ = members
    put(one.store, *(f"{i}".encode() * 200 for i in range(30)))
    log = log_of(one)
    await one.store.checkpoint()
    while log.has_spare_segment:
        log.drop_oldest_segment()
    one.lead(1, 2)
    await two.follow(one)
    await settle()
    two.follower.show_all()
    assert bodies(two.store) == bodies(one.store)
    assert log_of(two).min_offset == log.min_offset > 0


async def test_a_follower_that_began_late_comes_back_without_a_cut(members: list[Member]) -> None:
    one, two, _ = members
    one.lead(1, 2)
    put(one.store, *(f"{i}".encode() * 200 for i in range(30)))
    log = log_of(one)
    await one.store.checkpoint()
    while log.has_spare_segment:
        log.drop_oldest_segment()
    await two.follow(one)
    await settle()
    begin = log_of(two).segments[0].base_position
    assert begin > 0
    link = await two.follow(one)
    await settle()
    assert log_of(two).segments[0].base_position == begin
    assert link.frames < 10
    assert not (two.store.directory / "cut").exists()


async def test_a_log_without_records_goes_on_where_the_leaders_does(
    members: list[Member], tmp_path: Path, clock: VirtualClock
) -> None:
    one, two, _ = members
    one.lead(1)
    put(one.store, *(f"{i}".encode() * 200 for i in range(30)))
    log = log_of(one)
    log.begin_segment(clock.now_ms())
    one.store.committer.unsynced[log] = None
    await one.store.checkpoint()
    while log.has_spare_segment:
        log.drop_oldest_segment()
    assert log.min_offset == log.end_offset == 30
    await two.follow(one)
    await settle()
    await two.store.checkpoint()
    await two.store.close()
    again = members[1] = Member(tmp_path / "2", clock)
    assert log_of(again).written_offset == 30


async def test_a_damaged_queue_is_copied_anew(members: list[Member]) -> None:
    one, two, _ = members
    one.lead(1, 2)
    await two.follow(one)
    put(one.store, b"one", b"two")
    put(one.store, b"other", queue_id=1)
    await settle()
    two.store.damaged.record(TOPIC, 0, FormatError(two.store.directory, "a bad record"))
    await two.follow(one)
    await settle()
    two.follower.show_all()
    assert bodies(two.store) == [b"one", b"two"]
    assert bodies(two.store, queue_id=1) == [b"other"]
    assert len(two.store.damaged) == 0
    assert [path.name for path in (two.store.directory / "cut").iterdir()] == ["Orders-0-1-damaged"]


async def test_what_was_there_at_the_join_is_read_when_all_have_it(members: list[Member]) -> None:
    one, two, three = members
    one.lead(1, 2, 3)
    link = await three.follow(one, 3)
    await two.follow(one, 2)
    await settle()
    link.is_cut = True
    append(one.store, b"not on three")
    await commit(one)
    await two.follow(one, 2)
    await settle()
    assert two.follower.is_live
    assert not is_readable(two)
    link.is_cut = False
    link.deliver()
    one.leader_now.keep_alive()
    await settle()
    assert is_readable(two)
    assert bodies(two.store) == [b"not on three"]


async def test_a_member_that_answers_and_does_not_keep_up_is_late(
    members: list[Member], clock: VirtualClock
) -> None:
    one, two, _ = members
    leader = one.lead(1, 2)
    link = await two.follow(one)
    await settle()
    link.is_cut = True
    append(one.store, b"late")
    await commit(one)
    written_s = clock.monotonic()
    await clock.advance(5)
    assert leader.turns.late(written_s - 0.1) == []
    assert leader.turns.late(written_s) == [2]
    link.deliver()
    assert leader.turns.late(clock.monotonic()) == []


async def test_nothing_is_written_of_an_epoch_that_cannot_be_noted(members: list[Member]) -> None:
    one, _, _ = members
    one.lead(1)
    refuse_changes(one.store.metadata, "log_epochs")
    told = append(one.store, b"nowhere")
    await commit(one)
    assert isinstance(told.error, WriteFailedError)
    assert log_of(one).written_offset == 0


async def test_committed_offsets_reach_the_follower(
    members: list[Member], clock: VirtualClock
) -> None:
    one, two, _ = members
    leader = one.lead(1, 2)
    await two.follow(one)
    await settle()
    leader.note_offset("group", TOPIC, 0, 5)
    leader.note_offset("group", TOPIC, 0, 6)
    await clock.advance(0.05)
    await settle()
    two.follower.save_offsets()
    assert two.store.metadata.consumer_offsets() == [("group", TOPIC, 0, 6)]


async def test_a_large_commit_goes_in_pieces(tmp_path: Path, clock: VirtualClock) -> None:
    one = Member(tmp_path / "1", clock, StoreSettings(disk_free_min=0))
    two = Member(tmp_path / "2", clock, StoreSettings(disk_free_min=0))
    one.lead(1, 2)
    link = await two.follow(one)
    await settle()
    before = link.frames
    outcomes = [append(one.store, bytes([i]) * 600_000) for i in range(5)]
    await commit(one)
    assert all(outcome.is_stored for outcome in outcomes)
    assert link.frames - before == 5
    two.follower.show_all()
    assert bodies(two.store) == bodies(one.store)
    await one.step_down()
    await one.store.close()
    await two.store.close()


async def test_turns_share_a_frame_while_nobody_waits_for_the_follower(
    members: list[Member],
) -> None:
    one, two, _ = members
    leader = one.lead(1, 2, waits=False)
    link = await two.follow(one)
    await settle()
    link.is_cut, before = True, link.frames
    for number in range(5):
        append(one.store, f"{number}".encode())
        await commit(one)
    assert link.frames == before + 1  # the first; the others wait for its answer
    assert bodies(one.store) == []
    link.deliver()
    assert link.frames == before + 2
    assert bodies(one.store) == [b"0"]
    link.deliver()
    assert (link.frames, bodies(one.store)) == (before + 2, [b"0", b"1", b"2", b"3", b"4"])
    assert leader.is_replicated
    assert two.store.find_log(TOPIC, 0).written_offset == 5  # type: ignore[union-attr]


async def test_each_turn_has_its_frame_where_senders_wait(members: list[Member]) -> None:
    one, two, _ = members
    one.lead(1, 2)
    link = await two.follow(one)
    await settle()
    link.is_cut, before = True, link.frames
    for number in range(5):
        append(one.store, f"{number}".encode())
        await commit(one)
    assert link.frames == before + 5
    link.deliver()
    assert len(bodies(one.store)) == 5
