"""Half messages and their ends: what is stored, what is refused, and what a kill leaves."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest
from support.brokers.broker_parts import TOPIC, Stage, send_request
from support.brokers.transaction_parts import (
    COMMIT,
    PRODUCERS,
    QUIET,
    ROLLBACK,
    bodies,
    command_of,
    half_request,
    in_log,
    open_bodies,
    send_half,
)
from support.peers.transport import until
from support.store.disks import FailingFiles
from support.store.stores import copy_of, cut_file

from pocketmq.protocol.flags import TRANSACTION_COMMIT, TRANSACTION_MASK
from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.messages.batch import BatchEntry, encode_batch
from pocketmq.protocol.names import names
from pocketmq.protocol.requests.sending import SendMessageResponse
from pocketmq.protocol.requests.topics import DeleteTopicRequest
from pocketmq.testing.clock import VirtualClock

pytestmark = pytest.mark.usefixtures("checked")


# -- half messages ------------------------------------------------------------------------------


async def test_a_half_message_waits_out_of_sight(stage: Stage, clock: VirtualClock) -> None:
    client = await stage.started_with_topic(**QUIET)
    await send_half(client, clock, b"earlier")
    request = half_request(clock, 3, TAGS="a", KEYS="k", own="1", UNIQ_KEY="U1")
    answer = (await client.ask(request, b"body")).read(SendMessageResponse)
    assert (answer.queue_id, answer.queue_offset, answer.transaction_id) == (3, 1, "U1")
    assert (await client.pull(queue_id=3)).messages == []
    assert await client.max_offset(3) == 0
    _, half = in_log(client.broker, names.HALF_TOPIC)
    assert (half.body, half.queue_id, half.offset_msg_id) == (b"body", 0, answer.msg_id)
    assert (half.sys_flag & TRANSACTION_MASK, half.prepared_transaction_offset) == (0, 0)
    assert half.properties == {
        "TRAN_MSG": "true", "PGROUP": PRODUCERS, "TAGS": "a", "KEYS": "k", "own": "1",
        "UNIQ_KEY": "U1", "__transactionId__": "U1", "REAL_TOPIC": TOPIC, "REAL_QID": "3",
        "MSG_REGION": "DefaultRegion", "TRACE_ON": "true", "CLUSTER": "DefaultCluster",
    }  # fmt: skip


async def test_a_message_says_in_its_properties_that_it_is_transactional(
    stage: Stage, clock: VirtualClock
) -> None:
    client = await stage.started_with_topic(**QUIET)
    properties = props.encode({"TRAN_MSG": "True", "PGROUP": PRODUCERS})
    await client.ask(send_request(properties=properties), b"without the flag")
    assert open_bodies(client.broker) == [b"without the flag"]
    properties = props.encode({"TRAN_MSG": "true", "PGROUP": PRODUCERS, "DELAY": "4"})
    again = send_request(properties=properties, reconsume_times=1)
    await client.ask(again, b"a retry of old clients")
    assert bodies(client.broker, names.SCHEDULE_TOPIC, 3) == [b"a retry of old clients"]


@pytest.mark.parametrize(
    ("properties", "reason"),
    [
        ({"DELAY": "3", "PGROUP": "g"}, "cannot be delayed"),
        ({"TIMER_DELAY_SEC": "3", "PGROUP": "g"}, "TIMER_DELAY_SEC"),
        ({}, "PGROUP"),
    ],
)
async def test_half_messages_that_could_not_end_well_are_refused(
    stage: Stage, properties: dict[str, str], reason: str
) -> None:
    client = await stage.started_with_topic(**QUIET)
    text = props.encode({"TRAN_MSG": "true", **properties})
    refusal = await client.refusal(send_request(properties=text), b"x")
    assert (refusal.code, reason in refusal.remark) == (13, True)
    assert not client.broker.parts.transactions.half_log


async def test_a_batch_holds_no_transactional_messages(stage: Stage) -> None:
    client = await stage.started_with_topic(**QUIET)
    text = props.encode({"TRAN_MSG": "true", "PGROUP": "g"})
    for inner, outer in (("", text), (text, "")):
        batch = encode_batch([BatchEntry(0, b"a", b""), BatchEntry(0, b"b", inner.encode())])
        refusal = await client.refusal(send_request(batch=True, properties=outer), batch)
        assert (refusal.code, "one by one" in refusal.remark) == (13, True)
    assert await client.max_offset() == 0


async def test_a_broker_may_take_no_transactions(stage: Stage, clock: VirtualClock) -> None:
    client = await stage.started_with_topic(reject_transaction_message=True, **QUIET)
    refusal = await client.refusal(half_request(clock), b"x")
    assert (refusal.code, "rejectTransactionMessage" in refusal.remark) == (16, True)
    await client.send(b"plain", properties=props.encode({"TRAN_MSG": "false"}))


# -- ends ---------------------------------------------------------------------------------------


async def test_a_commit_stores_the_real_message(stage: Stage, clock: VirtualClock) -> None:
    client = await stage.started_with_topic(**QUIET)
    half = await send_half(client, clock, b"body", 2, TAGS="a", own="1")
    held = await client.hold(queue_id=2)
    await clock.advance(3)
    await client.ask(half.end(COMMIT))
    (message,) = (await held).messages
    (stored,) = in_log(client.broker, names.HALF_TOPIC)
    assert (message.body, message.topic, message.queue_id) == (b"body", TOPIC, 2)
    assert message.sys_flag & TRANSACTION_MASK == TRANSACTION_COMMIT
    assert message.prepared_transaction_offset == half.place == stored.physical_offset
    assert message.store_timestamp == stored.store_timestamp + 3000
    assert (message.born_timestamp, message.born_host) == (stored.born_timestamp, stored.born_host)
    gone = {"REAL_TOPIC", "REAL_QID"}
    assert message.properties.keys() == stored.properties.keys() - gone
    assert message.properties["__transactionId__"] == half.unique_key
    assert (await client.pull(queue_id=2, subscription="a")).messages
    assert (await client.pull(queue_id=2, subscription="b")).code == 20
    (op,) = in_log(client.broker, names.OP_HALF_TOPIC)
    assert (op.body, op.tags, op.queue_id) == (b"0,", "d", 0)


async def test_a_rollback_stores_nothing_but_that(stage: Stage, clock: VirtualClock) -> None:
    client = await stage.started_with_topic(**QUIET)
    await send_half(client, clock)
    half = await send_half(client, clock, b"regretted")
    await client.ask(half.end(ROLLBACK))
    assert bodies(client.broker, names.OP_HALF_TOPIC) == [b"1,"]
    assert open_bodies(client.broker) == [b"x"]
    assert bodies(client.broker) == []


async def test_what_ends_together_shares_an_op_record(stage: Stage, clock: VirtualClock) -> None:
    client = await stage.started_with_topic(**QUIET)
    connection = await client.pool.get(client.broker.address)
    halves = [await send_half(client, clock) for _ in range(20)]
    for half in halves:
        connection.send_request(command_of(half.end(COMMIT)), 1000, lambda _: None)
    await until(lambda: not open_bodies(client.broker))
    await client.max_offset()  # a turn later
    records = bodies(client.broker, names.OP_HALF_TOPIC)
    assert len(records) < 20
    assert b"".join(records) == b"".join(b"%d," % half.offset for half in halves)


async def test_a_repeated_end_counts_once_and_the_first_one_does(
    stage: Stage, clock: VirtualClock
) -> None:
    client = await stage.started_with_topic(**QUIET)
    kept, dropped = await send_half(client, clock, b"kept"), await send_half(client, clock)
    for _ in range(3):
        await client.ask(kept.end(COMMIT))
        await client.ask(dropped.end(ROLLBACK))
    late, wrong = (
        await client.refusal(kept.end(ROLLBACK)),
        await client.refusal(dropped.end(COMMIT)),
    )
    assert (late.code, "committed already" in late.remark) == (1, True)
    assert (wrong.code, "rolled back already" in wrong.remark) == (1, True)
    assert bodies(client.broker) == [b"kept"]
    await client.broker.close()
    client = await stage.start(**QUIET)
    await client.ask(kept.end(COMMIT))
    assert "rolled back already" in (await client.refusal(dropped.end(COMMIT))).remark
    assert bodies(client.broker) == [b"kept"]


@pytest.mark.parametrize(
    ("fields", "code", "remark"),
    [
        ({"producer_group": "strangers"}, 1, "The producer group wrong"),
        ({"tran_state_table_offset": 7}, 1, "The transaction state table offset wrong"),
        ({"commit_log_offset": 1}, 1, "Find prepared transaction message failed"),
        ({"commit_log_offset": -1}, 1, "Find prepared transaction message failed"),
        ({"commit_log_offset": 1 << 62}, 1, "Find prepared transaction message failed"),
    ],
)
@pytest.mark.parametrize("decision", [COMMIT, ROLLBACK])
async def test_wrong_ends_are_refused(
    stage: Stage, clock: VirtualClock, decision: int, fields: dict[str, Any], code: int, remark: str
) -> None:
    client = await stage.started_with_topic(**QUIET)
    half = await send_half(client, clock)
    assert await client.refusal(half.end(decision, **fields)) == (code, remark)
    assert open_bodies(client.broker) == [b"x"]


async def test_an_ordinary_message_is_no_half_message(stage: Stage, clock: VirtualClock) -> None:
    client = await stage.started_with_topic(**QUIET)
    half = await send_half(client, clock)
    properties = props.encode({"PGROUP": PRODUCERS, "REAL_TOPIC": TOPIC, "REAL_QID": "1"})
    await client.send(b"x", properties=properties)
    (message,) = (await client.pull()).messages
    refusal = await client.refusal(half.end(COMMIT, commit_log_offset=message.physical_offset))
    assert refusal == (1, "Find prepared transaction message failed")


async def test_a_producer_that_does_not_know_is_not_answered(
    stage: Stage, clock: VirtualClock
) -> None:
    client = await stage.started_with_topic(**QUIET)
    half = await send_half(client, clock)
    connection = await client.pool.get(client.broker.address)
    connection.send_request(command_of(half.end(0)), 60_000, lambda _: None)
    await client.max_offset()  # which is answered, behind it
    assert connection.pending_calls == 1
    assert open_bodies(client.broker) == [b"x"]
    assert not bodies(client.broker, names.OP_HALF_TOPIC)


async def test_a_late_decision_waits_to_be_asked_for(stage: Stage, clock: VirtualClock) -> None:
    client = await stage.started_with_topic(**QUIET)
    own = await send_half(client, clock, b"own", CHECK_IMMUNITY_TIME_IN_SECONDS="10")
    short = await send_half(client, clock, b"short", CHECK_IMMUNITY_TIME_IN_SECONDS="1")
    plain = await send_half(client, clock, b"plain")
    await clock.advance(6)
    await client.ask(short.end(COMMIT))  # transactionTimeOut is the least
    await clock.advance(4.5)
    assert (await client.refusal(own.end(COMMIT))).code == 604
    assert (await client.refusal(own.end(ROLLBACK))).code == 604
    await client.ask(plain.end(COMMIT))
    await client.ask(own.end(COMMIT, from_check=True))
    assert bodies(client.broker) == [b"short", b"plain", b"own"]


async def test_the_topic_may_shrink_or_go_before_the_commit(
    stage: Stage, clock: VirtualClock
) -> None:
    client = await stage.started_with_topic(**QUIET)
    await client.create_topic("Other")
    half = await send_half(client, clock, b"moved", 3)
    other = await client.ask(
        send_request(topic="Other", properties=props.encode({"TRAN_MSG": "true", "PGROUP": "g"})),
        b"lost",
    )
    place = other.read(SendMessageResponse)
    await client.create_topic(TOPIC, 2, 2)
    await client.ask(half.end(COMMIT))
    assert bodies(client.broker, queue_id=1) == [b"moved"]
    await client.ask(DeleteTopicRequest(topic="Other"))
    request = half.end(
        COMMIT, producer_group="g", tran_state_table_offset=place.queue_offset,
        commit_log_offset=int(place.msg_id[16:], 16),
    )  # fmt: skip
    refusal = await client.refusal(request)
    assert (refusal.code, "Other was deleted" in refusal.remark) == (17, True)
    assert open_bodies(client.broker) == [b"lost"]


@pytest.mark.parametrize("decision", [COMMIT, ROLLBACK])
async def test_an_end_that_cannot_be_stored_can_be_repeated(
    stage: Stage, clock: VirtualClock, decision: int
) -> None:
    files = FailingFiles()
    client = await stage.started_with_topic(files=files, **QUIET)
    half = await send_half(client, clock)
    files.fail_after(0, errno.EIO)
    assert (await client.refusal(half.end(decision))).code == 14
    files.heal()
    assert open_bodies(client.broker) == [b"x"]
    await client.ask(half.end(decision))
    assert bodies(client.broker) == ([b"x"] if decision == COMMIT else [])
    await until(lambda: bodies(client.broker, names.OP_HALF_TOPIC) == [b"0,"])


async def test_a_commit_whose_op_record_fails_is_not_forgotten(
    stage: Stage, clock: VirtualClock
) -> None:
    files = FailingFiles()
    client = await stage.started_with_topic(files=files, **QUIET)
    half = await send_half(client, clock)
    await client.send()  # so that the topic's segment is there
    files.fail_after(1, errno.EIO)
    await client.ask(half.end(COMMIT))
    await until(lambda: files.failed)
    files.heal()
    assert not bodies(client.broker, names.OP_HALF_TOPIC)
    await clock.advance(1.1)
    assert bodies(client.broker, names.OP_HALF_TOPIC) == [b"0,"]


# -- restarts and kills -------------------------------------------------------------------------


async def test_a_restart_knows_what_is_open(stage: Stage, clock: VirtualClock) -> None:
    client = await stage.started_with_topic(**QUIET)
    halves = [await send_half(client, clock, b"%d" % i) for i in range(6)]
    await client.ask(halves[1].end(COMMIT))
    await client.ask(halves[3].end(ROLLBACK))
    for _ in range(2):
        await client.broker.close()
        client = await stage.start(**QUIET)
        assert open_bodies(client.broker) == [b"0", b"2", b"4", b"5"]
    await client.ask(halves[4].end(COMMIT))
    assert bodies(client.broker) == [b"1", b"4"]


async def test_after_a_kill_nothing_is_visible_that_was_not_committed(
    stage: Stage, clock: VirtualClock, tmp_path: Path
) -> None:
    """The directory is copied at chosen moments, as a kill leaves it, and opened again."""
    client = await stage.started_with_topic(**QUIET)
    copies = []
    committed: list[bytes] = []
    for index in range(24):
        body = b"%d" % index
        half = await send_half(client, clock, body)
        if index % 3:
            await client.ask(half.end(COMMIT if index % 3 == 1 else ROLLBACK))
        if index % 3 == 1:
            committed.append(body)
        if index % 5 == 4:
            directory = copy_of(tmp_path / "store", f"killed-{index}")
            copies.append((directory, list(committed), index + 1))
    for directory, expected, count in copies:
        killed = await stage.start(store_path_root_dir=str(directory), **QUIET)
        assert bodies(killed.broker) == expected
        # What was told last may not have its op record yet: that is checked back then.
        known = {b"%d" % i for i in range(0, count, 3)}
        assert known <= set(open_bodies(killed.broker)) <= known | {b"%d" % (count - 1)}
        await killed.broker.close()


async def test_a_power_cut_does_not_give_new_half_messages_the_ends_of_lost_ones(
    stage: Stage, clock: VirtualClock, tmp_path: Path
) -> None:
    client = await stage.started_with_topic(**QUIET)
    await send_half(client, clock, b"old")
    await client.broker.store.checkpoint()
    size = next((tmp_path / "store").glob(f"queues/{names.HALF_TOPIC}/0/*.log")).stat().st_size
    await client.ask((await send_half(client, clock, b"lost")).end(ROLLBACK))
    killed = copy_of(tmp_path / "store", "cut")
    cut_file(next(killed.glob(f"queues/{names.HALF_TOPIC}/0/*.log")), size)
    cut = {"store_path_root_dir": str(killed), **QUIET}
    client = await stage.start(**cut)
    await send_half(client, clock, b"new")
    assert open_bodies(client.broker) == [b"old", b"new"]
    await client.broker.close()
    client = await stage.start(**cut)
    assert open_bodies(client.broker) == [b"old", b"new"]


async def test_sync_flush_holds_for_every_step(stage: Stage, clock: VirtualClock) -> None:
    client = await stage.started_with_topic(flush_disk_type="SYNC_FLUSH", **QUIET)
    half = await send_half(client, clock, b"kept")
    for topic, request in (
        (names.HALF_TOPIC, None),
        (TOPIC, half.end(COMMIT)),
        (names.OP_HALF_TOPIC, (await send_half(client, clock)).end(ROLLBACK)),
    ):
        if request is not None:
            await client.ask(request)
        queue_log = client.broker.store.find_log(topic, 0)
        assert queue_log is not None
        assert queue_log.synced_position > 0
    assert bodies(client.broker) == [b"kept"]


@pytest.mark.usefixtures("rare_rounds")
async def test_retention_keeps_what_the_next_start_must_read(
    stage: Stage, clock: VirtualClock
) -> None:
    settings = QUIET | {
        "flush_interval_commit_log": 30_000, "flush_delay_offset_interval": 30_000,
        "clean_resource_interval": 60_000, "file_reserved_time": 1,
        "transaction_check_interval": 86_000_000,
    }  # fmt: skip
    client = await stage.started_with_topic(**settings)
    half = await send_half(client, clock, b"patient")
    await client.ask((await send_half(client, clock)).end(ROLLBACK))
    await clock.advance(3 * 3600)
    assert bodies(client.broker, names.HALF_TOPIC) == [b"patient", b"x"]
    assert bodies(client.broker, names.OP_HALF_TOPIC) == [b"1,"]
    await client.ask(half.end(COMMIT))
    client.broker.parts.transactions.note_round()
    await clock.advance(3 * 3600)
    assert not bodies(client.broker, names.HALF_TOPIC)
    assert not bodies(client.broker, names.OP_HALF_TOPIC)
