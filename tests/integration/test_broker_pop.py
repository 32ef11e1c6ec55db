"""Pops: who gets which messages, until when, and what becomes of those nobody acknowledges."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

import pytest
from support.brokers.broker_parts import GROUP, TOPIC, Client, Refusal, Stage, tagged
from support.brokers.pop_parts import (
    FOUND,
    FULL,
    INVISIBLE_MS,
    NOTHING,
    ack,
    ack_request,
    committed,
    fill,
    held_pop,
    pop,
    pop_request,
    renew,
)
from support.peers.transport import until
from support.store.disks import FailingFiles

from pocketmq.protocol.bodies.popping import BatchAck, BatchAckEntry
from pocketmq.protocol.messages.receipts import OrderedMessage, Origin
from pocketmq.protocol.names.names import pop_retry_topic, retry_topic
from pocketmq.protocol.requests.popping import (
    BatchAckRequest,
    NotificationRequest,
    NotificationResponse,
    PeekMessageRequest,
    PollingInfoRequest,
    PollingInfoResponse,
)
from pocketmq.protocol.requests.topics import DeleteTopicRequest
from pocketmq.testing.clock import START_MS, VirtualClock, settle

pytestmark = pytest.mark.usefixtures("checked")

RETRY_TOPIC = pop_retry_topic(GROUP, TOPIC)
INVISIBLE_S = INVISIBLE_MS / 1000


def numbered(count: int, start: int = 0) -> list[bytes]:
    return [b"%d" % i for i in range(start, start + count)]


# -- what is found ------------------------------------------------------------------------------


async def test_each_message_is_popped_once(client: Client) -> None:
    await fill(client, numbered(5))
    first = await pop(client, max_msg_nums=3)
    assert (first.code, first.bodies, first.header.rest_num) == (FOUND, numbered(3), 2)
    assert first.header.start_offset_info == "0 0 0"
    assert first.header.msg_offset_info == "0 0 0,1,2"
    assert (first.header.pop_time, first.header.revive_qid) == (START_MS, 0)
    second = await pop(client)
    assert (second.bodies, second.header.rest_num) == (numbered(2, 3), 0)
    assert (await pop(client)).code == NOTHING
    assert (await pop(client, consumer_group="others")).bodies == numbered(5)


async def test_all_queues_or_one(client: Client) -> None:
    for queue_id in range(4):
        await fill(client, [b"q%d" % queue_id], queue_id=queue_id)
    assert (await pop(client, queue_id=2)).bodies == [b"q2"]
    rest = await pop(client)
    assert sorted(rest.bodies) == [b"q0", b"q1", b"q3"]
    assert sorted(handed.handle.queue_id for handed in rest.messages) == [0, 1, 3]


async def test_a_filter_passes_over_the_others_for_good(client: Client) -> None:
    await fill(client, [b"a"], properties=tagged("A"))
    await fill(client, [b"b"], properties=tagged("B"))
    await fill(client, [b"c"], properties=tagged("A"))
    found = await pop(client, exp="A")
    assert found.bodies == [b"a", b"c"]
    assert found.header.msg_offset_info == "0 0 0,2"
    assert (await pop(client)).code == NOTHING
    await fill(client, [b"d"], properties=tagged("B"))
    assert (await pop(client, exp="A")).code == NOTHING
    await ack(client, *found.messages)
    assert await committed(client) == 4


async def test_where_a_group_without_an_offset_begins(stage: Stage, clock: VirtualClock) -> None:
    client = await stage.started_with_topic(queues=1, segment_size=64 * 1024, file_reserved_time=1)
    await fill(client, numbered(3))
    assert (await pop(client, init_mode=1)).bodies == numbered(3), "nothing is lost yet"
    await fill(client, [bytes(60_000)] * 3)
    await clock.advance(2 * 3600)
    await fill(client, [b"x", b"y"])
    await client.broker.parts.retention.run()
    assert (await pop(client, init_mode=1, consumer_group="late")).bodies == [b"y"]


# -- acknowledgements ---------------------------------------------------------------------------


async def test_the_committed_offset_moves_with_acknowledgements(client: Client) -> None:
    await fill(client, numbered(4))
    handed = (await pop(client)).messages
    assert await committed(client) == 0
    await ack(client, handed[1], handed[0])
    assert await committed(client) == 2
    await ack(client, handed[3])
    assert await committed(client) == 2
    await ack(client, handed[2], handed[2])
    assert await committed(client) == 4


async def test_a_batch_of_acknowledgements(client: Client) -> None:
    await fill(client, numbered(4))
    handed = (await pop(client)).messages
    bits = BatchAckEntry.bits(0, [0, 1, 3])
    entry = BatchAckEntry(c=GROUP, t=TOPIC, q=0, pt=handed[0].handle.pop_time, b=bits)
    lost = BatchAckEntry(c=GROUP, t="nowhere", q=0, b=bits)
    body = BatchAck(broker_name="broker-a", acks=[lost, entry])
    await client.ask(BatchAckRequest(), body.encode())
    assert await committed(client) == 2
    assert client.broker.parts.popping.queues.count == 1
    refusal = await client.refusal(BatchAckRequest(), BatchAck().encode())
    assert refusal.code == 208


async def test_acknowledgements_that_make_no_sense(client: Client) -> None:
    await fill(client, numbered(2))
    (one, _) = (await pop(client)).messages
    assert (await client.refusal(ack_request(one, topic="nowhere"))).code == 17
    assert (await client.refusal(ack_request(one, queue_id=9))).code == 13
    assert await client.refusal(ack_request(one, offset=99)) == Refusal(
        208, "offset is illegal, key:TopicTest@0, commit:99, store:0~2"
    )
    assert (await client.refusal(ack_request(one, extra_info="0 1 2"))).code == 1
    await client.ask(ack_request(one, consumer_group="strangers"))
    assert client.broker.parts.popping.queues.count == 2


# -- another attempt ----------------------------------------------------------------------------


async def test_what_is_not_acknowledged_comes_again_when_its_time_is_over(
    client: Client, clock: VirtualClock
) -> None:
    await fill(client, numbered(3), properties=tagged("A"))
    handed = (await pop(client)).messages
    await ack(client, handed[1])
    await clock.advance(INVISIBLE_S - 0.001)
    assert (await pop(client)).code == NOTHING
    await clock.advance(0.001)
    await until(lambda: client.broker.parts.popping.revival.count == 2)
    again = await pop(client, exp="A")
    assert again.bodies == [b"0", b"2"]
    message = again.messages[0].message
    assert (message.topic, message.reconsume_times) == (RETRY_TOPIC, 1)
    assert message.properties["ORIGIN_GROUP"] == GROUP
    assert message.properties["1ST_POP_TIME"] == str(START_MS)
    assert await committed(client) == 3
    await ack(client, *again.messages)
    assert await committed(client, topic=RETRY_TOPIC) == 2
    assert client.broker.parts.popping.queues.count == 0


def _have_come_again(client: Client, count: int) -> bool:
    return client.broker.parts.popping.revival.count == count


async def test_each_further_attempt_counts(client: Client, clock: VirtualClock) -> None:
    await fill(client, [b"x"])
    await pop(client)
    for attempt in range(1, 4):
        await clock.advance(INVISIBLE_S)
        await until(partial(_have_come_again, client, attempt))
        (handed,) = (await pop(client)).messages
        assert handed.message.reconsume_times == attempt
        assert handed.message.properties["1ST_POP_TIME"] == str(START_MS)


async def test_an_invisible_time_set_anew(client: Client, clock: VirtualClock) -> None:
    await fill(client, numbered(2))
    longer, sooner = (await pop(client)).messages
    await clock.advance(10)
    renewed = await renew(client, longer, 120_000)
    assert renewed.handle.pop_time == START_MS + 10_000
    await renew(client, sooner, 0, suspend=True)
    await clock.advance(0)
    await until(lambda: client.broker.parts.popping.revival.count == 1)
    (back,) = (await pop(client)).messages
    assert (back.body, back.message.reconsume_times) == (b"1", 0), "it was suspended"
    await clock.advance(119)
    assert client.broker.parts.popping.revival.count == 2, "only the other one's time was over"
    await clock.advance(1)
    await until(lambda: client.broker.parts.popping.revival.count == 3)
    await renew(client, longer, 1000)  # not in flight any more: as Apache's it is no error
    await clock.advance(1)
    assert client.broker.parts.popping.revival.count == 3, "which would deliver it once more"


async def test_a_full_disk_delays_the_next_attempt(stage: Stage, clock: VirtualClock) -> None:
    files = FailingFiles()
    client = await stage.started_with_topic(queues=1, files=files)
    await fill(client, [b"x"])
    await pop(client)
    files.fail_after(0, failures=None)
    await clock.advance(INVISIBLE_S + 5)
    assert client.broker.parts.popping.revival.count == 0
    files.heal()
    await clock.advance(5)
    await until(lambda: client.broker.parts.popping.revival.count == 1)
    assert (await pop(client)).bodies == [b"x"]


# -- waiting ------------------------------------------------------------------------------------


async def test_a_pop_waits_for_a_message(client: Client) -> None:
    waiting = await held_pop(client)
    await fill(client, [b"x"], queue_id=3)
    assert (await waiting).bodies == [b"x"]


async def test_pops_that_wait_are_served_in_turn(stage: Stage) -> None:
    client = await stage.started_with_topic()
    others = [stage.client(client.broker) for _ in range(3)]
    waiting = [await held_pop(other, max_msg_nums=1) for other in others]
    await fill(client, numbered(2))
    assert [(await task).bodies for task in waiting[:2]] == [[b"0"], [b"1"]]
    assert not waiting[2].done()
    await fill(client, [b"2"])
    assert (await waiting[2]).bodies == [b"2"]


async def test_a_pop_that_waits_gets_what_comes_again(client: Client, clock: VirtualClock) -> None:
    await fill(client, [b"x"])
    await pop(client, invisible_time=2000)
    waiting = await held_pop(client)
    await clock.advance(2)
    (handed,) = (await waiting).messages
    assert (handed.body, handed.message.reconsume_times) == (b"x", 1)


async def test_a_pop_ends_when_its_time_is_over(client: Client, clock: VirtualClock) -> None:
    waiting = await held_pop(client, poll_time=3000)
    await clock.advance(2.8)
    assert not waiting.done()
    await clock.advance(0.4)
    assert (await waiting).code == NOTHING


async def test_only_so_many_wait(stage: Stage) -> None:
    client = await stage.started_with_topic(pop_polling_size=1)
    await held_pop(client)
    assert (await pop(client, poll_time=1000)).code == FULL
    info = PollingInfoRequest(consumer_group=GROUP, topic=TOPIC, queue_id=-1)
    assert (await client.ask(info)).read(PollingInfoResponse).polling_num == 1


async def test_messages_for_a_client_that_has_gone_come_to_others_at_once(
    stage: Stage, clock: VirtualClock
) -> None:
    client = await stage.started_with_topic()
    gone = stage.client(client.broker)
    await held_pop(gone)
    await gone.close()
    await fill(client, [b"x"])
    assert (await pop(client)).bodies == [b"x"]


async def test_a_notification_takes_nothing(client: Client) -> None:
    request = NotificationRequest(
        consumer_group=GROUP, topic=TOPIC, queue_id=-1, poll_time=0, born_time=0
    )
    assert not (await client.ask(request)).read(NotificationResponse).has_msg
    await fill(client, [b"x"])
    assert (await client.ask(request)).read(NotificationResponse).has_msg
    peek = PeekMessageRequest(consumer_group=GROUP, topic=TOPIC, queue_id=-1, max_msg_nums=8)
    assert (await client.call(peek)).code == 0
    assert (await pop(client)).bodies == [b"x"]
    assert not (await client.ask(request)).read(NotificationResponse).has_msg
    assert (await client.call(peek)).code == 19


# -- refusals -----------------------------------------------------------------------------------


async def test_pops_that_make_no_sense(client: Client) -> None:
    now_ms = START_MS
    for fields, code in (
        ({"topic": "nowhere"}, 17),
        ({"max_msg_nums": 33}, 29),
        ({"queue_id": 9}, 29),
        ({"born_time": now_ms - 600}, NOTHING),
        ({"consumer_group": "a b"}, 26),
        ({"exp_type": "SQL92", "exp": "a >"}, 23),
    ):
        assert (await client.refusal(pop_request(**fields))).code == code, fields


async def test_a_group_that_pops_has_its_ordinary_retry_topic(client: Client) -> None:
    await pop(client)
    assert retry_topic(GROUP) in client.broker.topics


async def test_so_many_are_in_flight_and_no_more(stage: Stage) -> None:
    client = await stage.started_with_topic(queues=1, max_pop_in_flight_of_group=2)
    await fill(client, numbered(4))
    handed = (await pop(client, max_msg_nums=2)).messages
    assert (await pop(client)).code == NOTHING
    await ack(client, *handed)
    assert (await pop(client)).bodies == numbered(2, 2)


# -- in order -----------------------------------------------------------------------------------


async def test_a_queue_popped_in_order_is_blocked_until_all_are_acknowledged(
    client: Client,
) -> None:
    await fill(client, numbered(3))
    first = await pop(client, order=True, max_msg_nums=2)
    assert (first.bodies, first.header.revive_qid) == (numbered(2), 999)
    assert first.counts == {OrderedMessage(Origin.TOPIC, 0, None): 0}
    assert (await pop(client, order=True)).code == NOTHING
    waiting = await held_pop(client, order=True)
    await ack(client, first.messages[1])
    assert await committed(client) == 0
    await settle()
    assert not waiting.done()
    await ack(client, first.messages[0])
    assert await committed(client) == 2
    assert (await waiting).bodies == [b"2"]


async def test_an_ordered_pop_that_is_repeated_gets_the_same(client: Client) -> None:
    await fill(client, numbered(2))
    first = await pop(client, order=True, attempt_id="a", max_msg_nums=1)
    again = await pop(client, order=True, attempt_id="a", max_msg_nums=1)
    assert again.bodies == first.bodies == [b"0"]
    assert again.counts == {OrderedMessage(Origin.TOPIC, 0, None): 0}
    assert (await pop(client, order=True, attempt_id="b")).code == NOTHING


async def test_ordered_messages_come_again_in_their_order(
    client: Client, clock: VirtualClock
) -> None:
    await fill(client, numbered(3))
    first = await pop(client, order=True, max_msg_nums=2)
    waiting = await held_pop(client, order=True, poll_time=100_000, max_msg_nums=3)
    await clock.advance(INVISIBLE_S)
    again = await waiting
    assert again.bodies == numbered(3)
    assert again.counts == {
        OrderedMessage(Origin.TOPIC, 0, 0): 1,
        OrderedMessage(Origin.TOPIC, 0, 1): 1,
        OrderedMessage(Origin.TOPIC, 0, None): 0,
    }
    await ack(client, first.messages[0])  # of the earlier pop: it does not count
    assert await committed(client) == 0
    sooner = await renew(client, again.messages[0], 1000)
    assert sooner.handle.pop_time == again.header.pop_time
    await ack(client, *again.messages)
    assert await committed(client) == 3


# -- a restart ----------------------------------------------------------------------------------


async def restarted(stage: Stage, client: Client) -> Client:
    """A client of a broker that has found what a kill -9 leaves of the broker's directory."""
    copy = stage.directory / "killed"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(stage.directory / "store", copy)
    (copy / "lock").unlink(missing_ok=True)
    await client.broker.close()
    return await stage.start(store_path_root_dir=str(copy))


async def test_what_was_acknowledged_does_not_come_again_after_a_kill(
    stage: Stage, clock: VirtualClock
) -> None:
    client = await stage.started_with_topic(queues=1)
    await fill(client, numbered(6))
    handed = (await pop(client, max_msg_nums=4)).messages
    await ack(client, handed[0], handed[2])
    await renew(client, handed[3], 2 * INVISIBLE_MS)
    client = await restarted(stage, client)
    assert client.broker.parts.popping.queues.count == 2
    assert (await pop(client)).bodies == numbered(2, 4), "what is invisible stays so"
    await clock.advance(INVISIBLE_S)
    await until(lambda: client.broker.parts.popping.revival.count == 3)
    assert sorted((await pop(client)).bodies) == [b"1", b"4", b"5"]
    await clock.advance(INVISIBLE_S)
    await until(lambda: client.broker.parts.popping.revival.count >= 4)
    assert b"3" in (await pop(client)).bodies


async def test_messages_of_a_group_that_was_not_saved_come_again_after_a_kill(
    stage: Stage, clock: VirtualClock
) -> None:
    client = await stage.started_with_topic(queues=1)
    await fill(client, numbered(2))
    await pop(client)
    assert GROUP in client.broker.parts.data.groups.provisional
    client = await restarted(stage, client)
    await clock.advance(INVISIBLE_S)
    await until(lambda: client.broker.parts.popping.queues.count == 0)
    assert sorted((await pop(client)).bodies) == numbered(2)


async def test_copies_are_not_made_again_after_a_kill(stage: Stage, clock: VirtualClock) -> None:
    client = await stage.started_with_topic(queues=1)
    await fill(client, numbered(2))
    await pop(client, max_msg_nums=1)
    await clock.advance(INVISIBLE_S)
    await until(lambda: client.broker.parts.popping.revival.count == 1)
    await until(lambda: client.broker.parts.popping.queues.count == 0)
    await settle()
    client = await restarted(stage, client)
    await clock.advance(INVISIBLE_S)
    assert sorted((await pop(client)).bodies) == numbered(2)
    assert await client.max_offset(topic=RETRY_TOPIC) == 1


async def test_a_snapshot_keeps_the_journal_small(stage: Stage, clock: VirtualClock) -> None:
    client = await stage.started_with_topic(queues=1)
    await fill(client, numbered(40))
    first = (await pop(client)).messages
    await ack(client, *first[5:])
    await client.broker.parts.popping.keep_small(at_once=True)
    second = (await pop(client)).messages
    await ack(client, *second[1:])
    client = await restarted(stage, client)
    assert client.broker.parts.popping.queues.count == 6
    assert await committed(client) == 0
    await ack(client, *first[:5], second[0])
    assert await committed(client) == 40


async def test_a_queue_in_order_stays_blocked_after_a_restart(
    stage: Stage, clock: VirtualClock
) -> None:
    client = await stage.started_with_topic(queues=1)
    await fill(client, numbered(2))
    (first, _) = (await pop(client, order=True)).messages
    await ack(client, first)
    client = await restarted(stage, client)
    assert (await pop(client, order=True)).code == NOTHING
    await clock.advance(INVISIBLE_S)
    assert (await pop(client, order=True)).bodies == [b"1"]


async def test_a_journal_that_cannot_be_read_loses_nothing(stage: Stage, tmp_path: Path) -> None:
    client = await stage.started_with_topic(queues=1)
    await fill(client, numbered(3))
    handed = (await pop(client)).messages
    await ack(client, handed[0])
    await client.broker.close()
    (log,) = (tmp_path / "store").rglob("*pop_journal*/0/*.log")
    data = bytearray(log.read_bytes())
    data[-30] ^= 0xFF
    log.write_bytes(data)
    client = await stage.start()
    assert set((await pop(client)).bodies) >= {b"1", b"2"}
    await client.broker.close()
    shutil.rmtree(tmp_path / "store")  # it is damaged: nothing more is checked


async def test_a_deleted_topic_takes_its_retry_topics_along(
    client: Client, clock: VirtualClock
) -> None:
    await fill(client, [b"x"])
    await pop(client)
    await clock.advance(INVISIBLE_S)
    await until(lambda: RETRY_TOPIC in client.broker.topics)
    await client.ask(DeleteTopicRequest(topic=TOPIC))
    assert RETRY_TOPIC not in client.broker.topics
    assert len(client.broker.parts.popping.queues) == 0
