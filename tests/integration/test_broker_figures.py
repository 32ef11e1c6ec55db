"""The broker's figures and statistics: 28, 315, 907, 31050."""

from __future__ import annotations

import logging
import math
from pathlib import Path

import pytest
import pytest_asyncio
from support.brokers.broker_parts import GROUP, TOPIC, Client, Stage, advance_until, send_request
from support.brokers.pop_parts import ack, fill, pop
from support.store.stores import measure_disk

from pocketmq.broker.statistics.day_totals import next_midnight_ms
from pocketmq.broker.store.disk.disk import DiskUse
from pocketmq.client.diagnosis.cluster_state import BrokerState, ClusterState
from pocketmq.client.diagnosis.disks import check_disks
from pocketmq.client.diagnosis.findings import Finding, Severity
from pocketmq.protocol.bodies.brokers import BrokerStats, HAStatus
from pocketmq.protocol.bodies.topics import (
    KVTable,
    TopicFigures,
    TopicFiguresTable,
    TopicNames,
    TopicStatsTable,
)
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.messages.batch import BatchEntry, encode_batch
from pocketmq.protocol.requests.brokers import BrokerStatsRequest, HAStatusRequest
from pocketmq.protocol.requests.consuming import ConsumerSendMsgBackRequest
from pocketmq.protocol.requests.topics import (
    DeleteTopicRequest,
    RuntimeInfoRequest,
    TopicFiguresRequest,
    TopicStatsRequest,
)
from pocketmq.protocol.wire.command import Command
from pocketmq.runtime import VERSION
from pocketmq.testing.clock import VirtualClock
from pocketmq.transport.connection import Connection

START_MS = 1_700_000_000_000


@pytest_asyncio.fixture
async def client(stage: Stage) -> Client:
    return await stage.start()


async def figures(client: Client) -> dict[str, str]:
    return KVTable.decode((await client.ask(RuntimeInfoRequest())).body).table


async def stats(client: Client, name: str, key: str) -> BrokerStats:
    answer = await client.ask(BrokerStatsRequest(stats_name=name, stats_key=key))
    return BrokerStats.decode(answer.body)


def rates(text: str) -> list[float]:
    return [float(rate) for rate in text.split()]


async def test_a_new_broker_has_all_of_rocketmqs_figures(client: Client) -> None:
    table = await figures(client)
    expected = {
        "brokerActive": "true", "brokerVersion": "513", "brokerVersionDesc": "V5_5_0",
        "pocketmqVersion": VERSION,
        "earliestMessageTimeStamp": "-1", "commitLogMinOffset": "0", "commitLogMaxOffset": "0",
        "putMessageTimesTotal": "0", "putMessageFailedTimes": "0", "putMessageAverageSize": "0.0",
        "putTps": "0.0 0.0 0.0", "getTotalTps": "0.0 0.0 0.0", "dispatchBehindBytes": "0",
        "msgPutTotalTodayMorning": "0", "msgPutTotalYesterdayMorning": "0",
        "msgGetTotalTodayMorning": "0", "msgGetTotalYesterdayMorning": "0",
        "remainHowManyDataToFlush": "0 B", "timerCongestNum": "0", "timerReadBehind": "0",
        "sendThreadPoolQueueSize": "0", "queryThreadPoolQueueHeadWaitTimeMills": "0",
        "startAcceptSendRequestTimeStamp": "0", "writable": "true",
        "runtime": "[ 0 days, 0 hours, 0 minutes, 0 seconds ]",
    }  # fmt: skip
    assert expected.items() <= table.items()
    assert 0 < float(table["commitLogDiskRatio"]) < 1
    assert table["commitLogDirCapacity"].startswith("Total : ")
    assert "refusal" not in table


async def test_rates_look_back_ten_seconds_a_minute_and_ten(
    client: Client, clock: VirtualClock
) -> None:
    await client.create_topic()
    for second in range(700):
        if second >= 640:
            await client.send(b"12345")
        await clock.advance(1)
    table = await figures(client)
    assert rates(table["putTps"]) == pytest.approx([1.0, 1.0, 0.1], rel=0.02)
    assert rates(table["getTotalTps"]) == [0, 0, 0]
    await clock.advance(30)
    assert rates((await figures(client))["putTps"]) == pytest.approx([0, 0.5, 0.1], rel=0.03)
    assert table["runtime"] == "[ 0 days, 0 hours, 11 minutes, 40 seconds ]"


async def test_what_was_put_and_got_is_counted(tmp_path: Path, seed: int) -> None:
    evening = VirtualClock(next_midnight_ms(START_MS) - 20_000)
    async with Stage(tmp_path, evening, seed) as stage:
        await put_and_get(await stage.started_with_topic(), evening)


async def put_and_get(client: Client, clock: VirtualClock) -> None:
    await clock.advance(5)
    first_ms = clock.now_ms()
    for body in (b"1", b"22", b"333", b"4444"):
        await client.send(body)
    assert (await client.pull()).code == 0
    assert (await client.pull(4)).code == 19
    await clock.advance(30)
    await client.send(b"next day")
    table = await figures(client)
    assert table["putMessageTimesTotal"] == table["msgPutTotalTodayNow"] == "5"
    assert (table["msgPutTotalTodayMorning"], table["msgPutTotalYesterdayMorning"]) == ("4", "0")
    assert (table["msgGetTotalTodayNow"], table["msgGetTotalTodayMorning"]) == ("4", "4")
    size = int(table["putMessageSizeTotal"])
    assert size > 5 * 91
    assert float(table["putMessageAverageSize"]) == size / 5
    assert table["earliestMessageTimeStamp"] == str(first_ms)
    assert "[<=0ms]:5 " in table["putMessageDistributeTime"]
    start, end = int(table["commitLogMinOffset"]), int(table["commitLogMaxOffset"])
    assert end - start == size
    status = HAStatus.decode((await client.ask(HAStatusRequest())).body)
    assert status == HAStatus(master_commit_log_max_offset=end)


async def test_statistics_of_a_topic_and_its_groups(client: Client, clock: VirtualClock) -> None:
    await client.create_topic()
    for _ in range(3):
        await client.send(b"12345")
    batch = encode_batch([BatchEntry(0, b"x", b"")] * 7)
    await client.ask(send_request(batch=True), batch)
    await client.pull()
    nums = (await stats(client, "TOPIC_PUT_NUMS", TOPIC)).stats_minute
    assert (nums.sum, nums.tps, nums.avgpt) == (10, 1.0, 2.5), "ten messages in four requests"
    size = (await stats(client, "TOPIC_PUT_SIZE", TOPIC)).stats_minute.sum
    assert size == int((await figures(client))["putMessageSizeTotal"])
    got = await stats(client, "GROUP_GET_NUMS", f"{TOPIC}@{GROUP}")
    assert (got.stats_minute.sum, got.stats_hour.sum, got.stats_day.sum) == (10, 10, 10)
    assert (await stats(client, "GROUP_GET_SIZE", f"{TOPIC}@{GROUP}")).stats_day.sum > 900
    assert (await stats(client, "BROKER_PUT_NUMS", "DefaultCluster")).stats_minute.sum == 10
    assert (await stats(client, "BROKER_GET_NUMS", "DefaultCluster")).stats_minute.sum == 10
    answer = await client.ask(TopicStatsRequest(topic=TOPIC))
    assert TopicStatsTable.decode(answer.body).topic_put_tps == 1.0
    await clock.advance(600)
    later = await stats(client, "TOPIC_PUT_NUMS", TOPIC)
    assert (later.stats_minute.sum, later.stats_minute.avgpt) == (0, 0)
    assert (later.stats_hour.sum, later.stats_day.sum) == (10, 10)
    assert math.isclose(later.stats_hour.tps, 10 / 600)


async def test_statistics_of_queues(client: Client, clock: VirtualClock) -> None:
    await client.create_topic()
    for queue_id in (0, 1, 1):
        await client.send(b"12345", queue_id=queue_id)
    await client.ask(send_request(batch=True), encode_batch([BatchEntry(0, b"x", b"")] * 4))
    await client.pull(queue_id=1)
    await advance_until(clock, lambda: clock.monotonic() > 20)
    await client.send(b"12345", queue_id=1)
    puts = await stats(client, "QUEUE_PUT_NUMS", f"{TOPIC}@1")
    assert (puts.stats_minute.sum, puts.stats_hour.sum, puts.stats_day.avgpt) == (3, 3, 1)
    sizes = [
        (await stats(client, "QUEUE_PUT_SIZE", f"{TOPIC}@{queue_id}")).stats_minute.sum
        for queue_id in (0, 1)
    ]
    assert sum(sizes) == int((await figures(client))["putMessageSizeTotal"])
    got = await stats(client, "QUEUE_GET_NUMS", f"{TOPIC}@1@{GROUP}")
    assert (got.stats_minute.sum, got.stats_minute.avgpt) == (2, 2)
    assert (await stats(client, "QUEUE_GET_SIZE", f"{TOPIC}@1@{GROUP}")).stats_hour.sum > 180
    for name, key in (("TOPIC_PUT_LATENCY", TOPIC), ("GROUP_GET_LATENCY", f"{TOPIC}@{GROUP}")):
        assert (await stats(client, name, f"1@{key}")).stats_minute.avgpt == 0, "no time passes"
    for name in ("BROKER_PUT_NUMS", "BROKER_PUT_NUMS_WITHOUT_SYSTEM_TOPIC"):
        assert (await stats(client, name, "DefaultCluster")).stats_minute.sum == 8
    await client.send(b"later", properties=f"TIMER_DELIVER_MS\x01{clock.now_ms() + 60_000}\x02")
    for name, count in (("BROKER_PUT_NUMS", 9), ("BROKER_PUT_NUMS_WITHOUT_SYSTEM_TOPIC", 8)):
        assert (await stats(client, name, "DefaultCluster")).stats_minute.sum == count
    await clock.advance(300)
    later = await stats(client, "QUEUE_PUT_NUMS", f"{TOPIC}@1")
    assert (later.stats_minute.sum, later.stats_hour.sum) == (0, 3)


async def test_queues_count_from_the_start_of_the_broker(stage: Stage) -> None:
    client = await stage.started_with_topic()
    await client.send()
    await client.broker.close()
    client = await stage.start()
    request = BrokerStatsRequest(stats_name="QUEUE_PUT_NUMS", stats_key=f"{TOPIC}@0")
    assert (await client.refusal(request)).code == 1
    await client.send()
    assert (await stats(client, "QUEUE_PUT_NUMS", f"{TOPIC}@0")).stats_day.sum == 1


async def test_queues_count_on_when_their_log_was_closed_for_being_idle(
    client: Client, clock: VirtualClock
) -> None:
    await client.create_topic()
    await client.send()
    await clock.advance(11)  # a sample
    store = client.broker.store
    await store.checkpoint()
    await client.broker.parts.keys.run()  # it keeps logs that it has not looked at yet
    known = store.logs.table.get(TOPIC, 0)
    assert known is not None
    for _ in range(3):
        await store.logs.close_idle_logs()
    assert store.logs.is_at_rest(known)
    await client.send()
    assert (await stats(client, "QUEUE_PUT_NUMS", f"{TOPIC}@0")).stats_day.sum == 2


async def test_what_was_sent_back_is_counted(client: Client, clock: VirtualClock) -> None:
    await client.create_topic()
    await client.send()
    (message,) = (await client.pull()).messages
    back = ConsumerSendMsgBackRequest(
        offset=message.physical_offset, group=GROUP, delay_level=1, origin_msg_id="x",
        origin_topic=TOPIC,
    )  # fmt: skip
    await client.ask(back)
    item = (await stats(client, "SNDBCK_PUT_NUMS", f"{TOPIC}@{GROUP}")).stats_minute
    assert item.sum == 1
    retry = f"%RETRY%{GROUP}"
    await advance_until(clock, lambda: retry in client.broker.store.counters.topics)
    assert (await stats(client, "TOPIC_PUT_NUMS", retry)).stats_minute.sum == 1


async def test_statistics_of_pops(client: Client) -> None:
    await fill(client, [b"1", b"2", b"3"])
    first, second = await pop(client, max_msg_nums=2), await pop(client)
    for answered in (*first.messages, first.messages[0]):
        await ack(client, answered)
    for name, count in (("CK", 2), ("ACK", 2)):
        of_group = await stats(client, f"GROUP_{name}_NUMS", f"{TOPIC}@{GROUP}")
        of_broker = await stats(client, f"BROKER_{name}_NUMS", "DefaultCluster")
        assert of_group.stats_minute.sum == of_broker.stats_minute.sum == count
    got = await stats(client, "GROUP_GET_NUMS", f"{TOPIC}@{GROUP}")
    assert (got.stats_minute.sum, len(second.messages)) == (3, 1)


@pytest.mark.parametrize(
    ("name", "key", "words"),
    [
        ("TOPIC_PUT_NUMS", "Unknown", "nothing was counted"),
        ("GROUP_GET_NUMS", TOPIC, "nothing was counted"),
        ("BROKER_PUT_NUMS", "OtherCluster", "nothing was counted"),
        ("NONSENSE", TOPIC, "TOPIC_PUT_NUMS"),
        ("", "", "TOPIC_PUT_NUMS"),
        ("QUEUE_PUT_NUMS", f"{TOPIC}@3", "nothing was counted"),
        ("QUEUE_PUT_NUMS", TOPIC, "nothing was counted"),
        ("QUEUE_PUT_NUMS", f"{TOPIC}@one", "nothing was counted"),
        ("QUEUE_GET_NUMS", f"{TOPIC}@0@unknown", "nothing was counted"),
        ("TOPIC_PUT_LATENCY", f"{TOPIC}@0", "nothing was counted"),
        ("DLQ_PUT_NUMS", f"{TOPIC}@{GROUP}", "QUEUE_PUT_NUMS"),
    ],
)
async def test_unknown_statistics(client: Client, name: str, key: str, words: str) -> None:
    await client.create_topic()
    await client.send()
    code, remark = await client.refusal(BrokerStatsRequest(stats_name=name, stats_key=key))
    assert code == 1
    assert remark.startswith(f"The stats <{name}> <{key}> not exist")
    assert words in remark


async def test_a_deleted_topic_is_not_counted_on(client: Client) -> None:
    await client.create_topic()
    await client.send()
    await client.ask(DeleteTopicRequest(topic=TOPIC))
    request = BrokerStatsRequest(stats_name="TOPIC_PUT_NUMS", stats_key=TOPIC)
    assert (await client.refusal(request)).code == 1
    assert (await figures(client))["putMessageTimesTotal"] == "1", "the broker did get it"


async def test_flushes_count_into_the_times_of_sends(stage: Stage) -> None:
    client = await stage.started_with_topic(flush_disk_type="SYNC_FLUSH")
    await client.send()
    assert "[<=0ms]:1 " in (await figures(client))["putMessageDistributeTime"]


async def test_timer_figures(client: Client, clock: VirtualClock) -> None:
    await client.create_topic()
    await client.send(properties=f"TIMER_DELIVER_MS\x01{clock.now_ms() + 5000}\x02")
    table = await figures(client)
    assert (table["timerCongestNum"], table["timerEnqueueTps"]) == ("1", "0.1")
    await advance_until(clock, lambda: TOPIC in client.broker.store.counters.topics)
    table = await figures(client)
    assert (table["timerCongestNum"], table["timerOffsetBehind"]) == ("0", "0")
    assert float(table["timerDequeueTps"]) > 0


async def test_a_blocked_loop_is_told(
    client: Client, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    def block(_: Command, __: Connection) -> Command:
        clock.block(0.5)
        return Command(0)

    client.broker.handlers[RequestCode.HEART_BEAT] = block
    with caplog.at_level(logging.INFO, "pocketmq.transport"):
        await client.heartbeat()
        await clock.advance(0)
    table = await figures(client)
    assert table["loopBlockedTimes"] == "1"
    assert 450 < int(table["loopBlockedMaxMs"]) <= 500
    assert "begun last: request 34" in caplog.text


async def figures_of(client: Client, *names: str) -> dict[str, TopicFigures]:
    answer = await client.ask(TopicFiguresRequest(), TopicNames(topics=list(names)).encode())
    return TopicFiguresTable.decode(answer.body).topics


async def test_figures_of_many_topics_at_once(client: Client, clock: VirtualClock) -> None:
    await client.create_topic()
    await fill(client, [b"a"] * 6)
    table = await figures_of(client, TOPIC, "Nobody")
    assert list(table) == [TOPIC]
    before = table[TOPIC]
    assert (before.messages, before.stored, before.delivered, before.out_rate) == (6, 6, 0, 0.0)
    assert before.size > 6
    assert before.in_rate > 0
    shown = TopicStatsTable.decode((await client.ask(TopicStatsRequest(topic=TOPIC))).body)
    assert before.queues == len(shown.offset_table)
    await pop(client, max_msg_nums=4)
    await clock.advance(20)
    after = (await figures_of(client, TOPIC))[TOPIC]
    assert (after.delivered, after.messages) == (4, 6)
    assert after.out_rate > 0
    refused = await client.refusal(TopicFiguresRequest(), TopicNames(topics=["T"] * 1001).encode())
    assert "ask in parts" in refused.remark


async def test_figures_leave_out_what_tools_read(client: Client) -> None:
    await client.create_topic()
    await client.send()
    await client.pull(consumer_group="TOOLS_CONSUMER")
    assert (await figures_of(client, TOPIC))[TOPIC].delivered == 0
    await client.pull()
    assert (await figures_of(client, TOPIC))[TOPIC].delivered == 1


@pytest.mark.usefixtures("rare_rounds")
async def test_a_disk_that_fills_is_foretold_to_the_doctor(
    stage: Stage, clock: VirtualClock
) -> None:
    client = await stage.started_with_topic(
        flush_interval_commit_log=600_000,
        flush_delay_offset_interval=60_000,
        flush_consumer_offset_interval=60_000,
        clean_resource_interval=600_000,
    )
    total, others = 10_000_000, 0

    def measure(_: Path) -> DiskUse:
        used = others + client.broker.store.counters.total.size
        return DiskUse(total, used, total - used)

    measure_disk(client.broker.store, 90.0, 85.0, 1 << 40, measure)

    async def findings() -> list[Finding]:
        broker = BrokerState("c", "broker-a", 0, client.broker.address)
        broker.figures = await figures(client)
        return await check_disks(ClusterState(client.pool, clock, [], [broker]))

    assert await findings() == []
    await clock.advance(2 * 3600)  # what the real disk had is forgotten
    for _ in range(15):
        await client.send(bytes(100_000))
        await clock.advance(60)
    (finding,) = await findings()
    assert finding.severity is Severity.WARNING
    assert f"of {TOPIC} were stored; if it goes on like this" in finding.seen
    assert "more than 60 min ago" in finding.seen
    assert "(in 5 h)" in finding.seen, "7 MB of room, 1.5 MB an hour"
