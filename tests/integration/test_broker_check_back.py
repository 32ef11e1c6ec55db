"""Checks of open half messages, in virtual time: who is asked, when, how often, and what then."""

from __future__ import annotations

import asyncio
import errno
from collections import Counter
from pathlib import Path

import pytest
from support.brokers.broker_parts import TOPIC, Client, Stage, advance_until
from support.brokers.delay_parts import SetClock, set_back
from support.brokers.transaction_parts import (
    COMMIT,
    PRODUCERS,
    QUIET,
    ROLLBACK,
    asked,
    bodies,
    half_request,
    in_log,
    open_bodies,
    send_half,
)
from support.peers.transport import until
from support.store.disks import FailingFiles
from support.store.stores import copy_of, damage

from pocketmq.broker.transactions import check_back
from pocketmq.broker.transactions.check_back import CheckBack, CheckSettings
from pocketmq.broker.transactions.half import HALF_PROPERTIES_SIZE_MAX
from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.names import names
from pocketmq.protocol.requests.transactions import ResumeCheckHalfMessageRequest
from pocketmq.runtime.live import Live
from pocketmq.testing.clock import VirtualClock

pytestmark = pytest.mark.usefixtures("checked")

INTERVAL_S = 30
"""transactionCheckInterval, by default."""


async def producing(stage: Stage, **settings: object) -> Client:
    """A broker with a topic, and a client that it knows as a producer."""
    client = await stage.started_with_topic(**QUIET | settings)
    await client.heartbeat(group="", producer=PRODUCERS)
    return client


async def checks(client: Client, count: int) -> None:
    """Returns when the client was asked so often, and makes sure that it was not more often."""
    await until(lambda: len(client.checks) >= count)
    await client.max_offset()
    assert len(client.checks) == count


async def test_an_open_transaction_is_asked_about(stage: Stage, clock: VirtualClock) -> None:
    client = await producing(stage)
    ended = await send_half(client, clock, b"ended", 1)
    half = await send_half(client, clock, b"open", 2, TAGS="a")
    await client.ask(ended.end(ROLLBACK))
    await clock.advance(INTERVAL_S - 1)
    assert not client.checks
    await clock.advance(1)
    await checks(client, 1)
    header, message = client.checks[0]
    assert asked(client.checks[0]).offset == 2
    assert header.broker_name == "broker-a"
    assert header.msg_id == half.unique_key
    assert (message.body, message.topic, message.queue_id) == (b"open", TOPIC, 2)
    assert message.queue_offset == 2
    assert message.physical_offset == header.commit_log_offset
    assert message.properties["TRANSACTION_CHECK_TIMES"] == "1"
    assert message.properties["REAL_TOPIC"] == TOPIC
    await client.ask(asked(client.checks[0]).end(COMMIT, from_check=True, topic=names.HALF_TOPIC))
    (real,) = (await client.pull(queue_id=2, subscription="a")).messages
    assert real.body == b"open"
    assert real.prepared_transaction_offset == header.commit_log_offset
    await clock.advance(3 * INTERVAL_S)
    await checks(client, 1)


async def test_the_whole_ladder_to_the_end_and_back(stage: Stage, clock: VirtualClock) -> None:
    client = await producing(stage)
    await send_half(client, clock, b"never")
    for times in range(1, 16):
        await clock.advance(INTERVAL_S)
        await checks(client, times)
        assert client.checks[-1].message.properties["TRANSACTION_CHECK_TIMES"] == str(times)
        assert asked(client.checks[-1]).offset == times
    assert names.CHECK_MAX_TIME_TOPIC not in client.broker.topics
    await clock.advance(INTERVAL_S)
    (given_up,) = in_log(client.broker, names.CHECK_MAX_TIME_TOPIC)
    assert (given_up.body, given_up.properties["REAL_TOPIC"]) == (b"never", TOPIC)
    assert given_up.properties["TRANSACTION_CHECK_TIMES"] == "15"
    await clock.advance(3 * INTERVAL_S)
    await checks(client, 15)
    assert open_bodies(client.broker) == []
    refusal = await client.refusal(asked(client.checks[-1]).end(COMMIT, from_check=True))
    assert refusal.code == 1
    await client.ask(ResumeCheckHalfMessageRequest(msg_id=given_up.offset_msg_id))
    await client.heartbeat(group="", producer=PRODUCERS)
    await clock.advance(INTERVAL_S)
    await checks(client, 16)
    assert client.checks[-1].message.properties["TRANSACTION_CHECK_TIMES"] == "1"
    await client.ask(asked(client.checks[-1]).end(COMMIT, from_check=True))
    assert bodies(client.broker) == [b"never"]


@pytest.mark.parametrize("msg_id", [None, "", "nonsense", "7F00000100002A9F0000000000000000"])
async def test_only_what_was_given_up_can_be_resumed(stage: Stage, msg_id: str | None) -> None:
    client = await producing(stage)
    assert (await client.refusal(ResumeCheckHalfMessageRequest(msg_id=msg_id))).code == 1


async def test_settings_decide_when_and_how_often(stage: Stage, clock: VirtualClock) -> None:
    client = await producing(
        stage, transaction_check_interval=1000, transaction_time_out=5000, transaction_check_max=2
    )
    await send_half(client, clock, b"x")
    await clock.advance(5)
    assert not client.checks
    await clock.advance(1)
    await checks(client, 1)
    await clock.advance(1)
    await checks(client, 2)
    await clock.advance(1)
    assert bodies(client.broker, names.CHECK_MAX_TIME_TOPIC) == [b"x"]


async def test_a_message_may_be_immune_for_longer_and_holds_nobody_up(
    stage: Stage, clock: VirtualClock
) -> None:
    client = await producing(stage)
    immune = await send_half(client, clock, b"immune", CHECK_IMMUNITY_TIME_IN_SECONDS="100")
    await send_half(client, clock, b"odd", CHECK_IMMUNITY_TIME_IN_SECONDS="soon")
    await send_half(client, clock, b"plain")
    await clock.advance(INTERVAL_S)
    await checks(client, 2)
    assert [c.message.body for c in client.checks] == [b"odd", b"plain"]
    await clock.advance(2 * INTERVAL_S)
    assert {c.message.body for c in client.checks} == {b"odd", b"plain"}
    await clock.advance(INTERVAL_S)
    assert client.checks[-1].message.body == b"plain"
    assert b"immune" in {c.message.body for c in client.checks}
    assert immune.offset == 0


async def test_with_too_many_behind_them_the_immune_move_too(
    stage: Stage, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check_back, "HALF_STATES_MAX", 3)
    client = await producing(stage)
    half = await send_half(client, clock, b"immune", CHECK_IMMUNITY_TIME_IN_SECONDS="1000")
    for _ in range(3):
        await client.ask((await send_half(client, clock)).end(ROLLBACK))
    await clock.advance(2 * INTERVAL_S)
    assert not client.checks
    (_, *_, moved) = in_log(client.broker, names.HALF_TOPIC)
    assert (moved.queue_offset, moved.body) == (4, b"immune")
    assert moved.prepared_transaction_offset == half.place
    assert client.broker.parts.transactions.half_states.base == 4
    await client.ask(half.end(COMMIT))  # the producer knows only the first place
    assert bodies(client.broker) == [b"immune"]
    assert open_bodies(client.broker) == []


async def test_a_message_as_old_as_files_is_given_up(stage: Stage, clock: VirtualClock) -> None:
    client = await producing(stage, file_reserved_time=1)
    await send_half(client, clock, b"old", CHECK_IMMUNITY_TIME_IN_SECONDS="86400")
    await clock.advance(3600)
    assert not bodies(client.broker, names.CHECK_MAX_TIME_TOPIC)
    await clock.advance(INTERVAL_S)
    assert bodies(client.broker, names.CHECK_MAX_TIME_TOPIC) == [b"old"]
    assert not client.checks


async def test_the_clock_of_a_producer_neither_hastens_nor_prevents_checks(
    stage: Stage, clock: VirtualClock
) -> None:
    client = await producing(stage, transaction_check_interval=1000, transaction_time_out=5000)
    ahead = half_request(clock)
    ahead.born_timestamp = clock.now_ms() + 86_400_000
    immune = half_request(clock, CHECK_IMMUNITY_TIME_IN_SECONDS="10")
    immune.born_timestamp = 2**62
    await client.ask(ahead, b"ahead")
    await client.ask(immune, b"immune")
    await clock.advance(5)
    assert not client.checks
    await clock.advance(1)
    await checks(client, 1)
    await clock.advance(5)
    assert b"immune" in {check.message.body for check in client.checks}


async def test_checks_go_on_when_the_clock_was_set_back(checked: Path, seed: int) -> None:
    clock = SetClock()
    async with Stage(checked, clock, seed) as stage:
        client = await producing(stage)
        await send_half(client, clock, b"before")
        set_back(clock, 3600)
        await send_half(client, clock, b"after")
        await clock.advance(2 * INTERVAL_S)
        await until(lambda: len({check.message.body for check in client.checks}) == 2)


async def test_a_damaged_half_message_holds_nobody_up(
    tmp_path_factory: pytest.TempPathFactory,
    clock: VirtualClock,
    seed: int,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with Stage(tmp_path_factory.mktemp("damaged"), clock, seed) as stage:
        client = await producing(stage)
        for index in range(3):
            await send_half(client, clock, b"body-%d" % index)
        path = client.broker.store.queue_log(names.HALF_TOPIC, 0).segments[0].log_path
        damage(path, path.read_bytes().index(b"body-1"))
        await clock.advance(2 * INTERVAL_S)
        await checks(client, 4)
        assert {check.message.body for check in client.checks} == {b"body-0", b"body-2"}
        assert caplog.text.count("the half message at 1 is damaged") == 1


async def test_the_number_of_checks_always_has_room(stage: Stage, clock: VirtualClock) -> None:
    client = await producing(stage)
    await send_half(client, clock, b"x")
    (half,) = in_log(client.broker, names.HALF_TOPIC)
    room = HALF_PROPERTIES_SIZE_MAX - len(props.encode(half.properties)) - len("own\x01\x02")
    refusal = await client.refusal(half_request(clock, own="v" * (room + 1)), b"x")
    assert (refusal.code, str(HALF_PROPERTIES_SIZE_MAX) in refusal.remark) == (13, True)
    await client.ask(half_request(clock, own="v" * room), b"full")
    await clock.advance(INTERVAL_S)
    await checks(client, 2)
    (full,) = (check.message for check in client.checks if check.message.body == b"full")
    assert full.properties["TRANSACTION_CHECK_TIMES"] == "1"
    assert len(props.encode(full.properties)) <= props.PROPERTIES_SIZE_MAX


# -- who is asked -------------------------------------------------------------------------------


async def test_the_living_producers_of_the_group_take_turns(
    stage: Stage, clock: VirtualClock
) -> None:
    first = await producing(stage)
    second, stranger = stage.client(first.broker), stage.client(first.broker)
    await second.heartbeat(group="", producer=PRODUCERS, client_id="second")
    await stranger.heartbeat(group="", producer="strangers", client_id="stranger")
    for _ in range(10):
        await send_half(first, clock)
    await clock.advance(INTERVAL_S)
    await checks(first, 5)
    await checks(second, 5)
    await first.close()
    await clock.advance(INTERVAL_S)
    await checks(second, 15)
    assert not stranger.checks


async def test_without_a_producer_it_waits_for_one(stage: Stage, clock: VirtualClock) -> None:
    client = await stage.started_with_topic(**QUIET)
    await send_half(client, clock, b"x")
    await clock.advance(3 * INTERVAL_S)
    await client.heartbeat(group="", producer=PRODUCERS)
    await clock.advance(INTERVAL_S)
    await checks(client, 1)
    assert client.checks[0].message.properties["TRANSACTION_CHECK_TIMES"] == "4"


# -- one transaction, however often it was moved ------------------------------------------------


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("named", ["original", "first", "last"])
async def test_whichever_copy_a_decision_names_it_counts_once(
    stage: Stage, clock: VirtualClock, named: str, restart: bool
) -> None:
    client = await producing(stage)
    original = await send_half(client, clock, b"once")
    await clock.advance(2 * INTERVAL_S)
    await checks(client, 2)
    copies = [asked(check) for check in client.checks]
    if restart:
        await client.broker.close()
        client = await stage.start(**QUIET)
        assert open_bodies(client.broker) == [b"once"]
    places = {"original": original, "first": copies[0], "last": copies[1]}
    await client.ask(places[named].end(COMMIT, from_check=True))
    for half in (original, *copies):
        answer = await client.call(half.end(COMMIT, from_check=True))
        assert answer.code in (0, 1)
    assert bodies(client.broker) == [b"once"]
    await clock.advance(3 * INTERVAL_S)
    assert bodies(client.broker) == [b"once"]
    assert open_bodies(client.broker) == []


async def test_after_a_kill_the_count_goes_on_and_nothing_ends_twice(
    stage: Stage, clock: VirtualClock, tmp_path: Path
) -> None:
    client = await producing(stage, flush_delay_offset_interval=7000)
    halves = [await send_half(client, clock, b"%d" % i) for i in range(8)]
    copies = []
    for round_number in range(4):
        await clock.advance(INTERVAL_S)
        await client.ask(halves[round_number].end(COMMIT))
        await client.ask(halves[7 - round_number].end(ROLLBACK))
        copies.append(copy_of(tmp_path / "store", f"killed-{round_number}"))
    for round_number, directory in enumerate(copies):
        killed = await stage.start(store_path_root_dir=str(directory), **QUIET)
        await killed.heartbeat(group="", producer=PRODUCERS)
        assert bodies(killed.broker) == [b"%d" % i for i in range(round_number + 1)]
        left = {b"%d" % i for i in range(round_number + 1, 7 - round_number)}
        # The end that was told last may lack its op record, which is written a turn later.
        assert left <= set(open_bodies(killed.broker)) <= left | {b"%d" % round_number}
        await clock.advance(INTERVAL_S)
        found = {c.message.body: c for c in killed.checks}
        assert found.keys() >= left
        assert {found[body].message.properties["TRANSACTION_CHECK_TIMES"] for body in left} == (
            {str(round_number + 2)} if left else set()
        )
        await killed.broker.close()


async def test_a_check_that_cannot_be_stored_is_not_counted(
    stage: Stage, clock: VirtualClock
) -> None:
    files = FailingFiles()
    client = await producing(stage, files=files)
    await send_half(client, clock, b"x")
    files.fail_after(0, errno.EIO)
    await clock.advance(INTERVAL_S)
    files.heal()
    assert files.failed
    assert not client.checks
    assert bodies(client.broker, names.HALF_TOPIC) == [b"x"]
    await clock.advance(INTERVAL_S)
    await checks(client, 1)
    assert client.checks[0].message.properties["TRANSACTION_CHECK_TIMES"] == "1"


async def test_a_message_that_cannot_be_given_up_stays(stage: Stage, clock: VirtualClock) -> None:
    files = FailingFiles()
    client = await producing(stage, files=files, transaction_check_max=1)
    await send_half(client, clock, b"x")
    await clock.advance(INTERVAL_S)
    files.fail_after(0, errno.EIO)
    await clock.advance(INTERVAL_S)
    files.heal()
    assert files.failed
    assert open_bodies(client.broker) == [b"x"]
    await clock.advance(INTERVAL_S)
    assert bodies(client.broker, names.CHECK_MAX_TIME_TOPIC) == [b"x"]


async def test_while_the_disk_is_full_nobody_is_asked(stage: Stage, clock: VirtualClock) -> None:
    client = await producing(stage)
    half = await send_half(client, clock, b"x")
    client.broker.store.disk.refuse("full")
    assert (await client.refusal(half.end(COMMIT))).code == 14
    rounds = CheckBack(
        client.broker.parts.transactions, client.broker.parts.members.producers,
        client.broker.store, client.broker.store.clock,
        client.broker.parts.data.appender, client.broker.topics,
        Live(CheckSettings(broker_name="b", timeout_ms=0, check_max=15, reserved_ms=1 << 40)),
        bytes(8),
    )  # fmt: skip
    assert await rounds.run() == 0
    assert not client.checks


# -- many ---------------------------------------------------------------------------------------


async def test_many_open_ones_are_looked_at_a_few_a_turn(
    stage: Stage, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """10,000 open half messages; ordinary sends are answered in the middle of the round."""
    client = await producing(stage)
    for _ in range(100):
        await asyncio.gather(*(send_half(client, clock) for _ in range(100)))
    turns: Counter[int] = Counter()
    turn = CheckBack._turn

    def counted(self: CheckBack, *args: object) -> tuple[int | None, int]:
        next_offset, count = turn(self, *args)  # type: ignore[arg-type]
        turns[count] += 1
        return next_offset, count

    monkeypatch.setattr(CheckBack, "_turn", counted)
    advancing = asyncio.ensure_future(clock.advance(INTERVAL_S + 1))
    await until(lambda: turns.total() > 3)
    await client.send(b"in between")
    assert len(client.checks) < 10_000
    await advancing
    await until(lambda: len(client.checks) == 10_000)
    assert max(turns) <= check_back.EXAMINED_PER_TURN_MAX
    assert turns.total() >= 10_000 / check_back.EXAMINED_PER_TURN_MAX
    transactions = client.broker.parts.transactions
    assert transactions.half_states.base == 10_000
    assert len(transactions.copies) == 10_000
    await client.broker.close()
    client = await stage.start(**QUIET)
    assert len(open_bodies(client.broker)) == 10_000
    assert client.broker.parts.transactions.half_states.base <= 10_000


async def test_no_more_than_so_many_are_under_check(
    stage: Stage, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check_back, "COPIES_MAX", 2)
    client = await producing(stage)
    for index in range(4):
        await send_half(client, clock, b"%d" % index)
    await clock.advance(2 * INTERVAL_S)
    await checks(client, 4)
    assert [c.message.body for c in client.checks] == [b"0", b"1", b"0", b"1"]
    await client.ask(asked(client.checks[2]).end(ROLLBACK, from_check=True))
    await advance_until(clock, lambda: b"2" in {c.message.body for c in client.checks})
    assert props.TRANSACTION_CHECK_TIMES in client.checks[-1].message.properties
