"""`pocketmq explain` on real clusters: each cause on a cluster that has it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from support.brokers.member_parts import Stage
from support.commands.here import pocketmq

from pocketmq.client import (
    Admin,
    ConsumeResult,
    LocalTransactionState,
    Message,
    MessageSelector,
    ReceivedMessage,
    SendResult,
    SimpleConsumer,
    TransactionListener,
    UnknownTopicError,
)
from pocketmq.client.explanation.explaining import explain
from pocketmq.client.explanation.explanation import Explanation
from pocketmq.client.explanation.states import Cause, State
from pocketmq.protocol.errors import GroupMissingError, UsageError
from pocketmq.protocol.flags import PERM_WRITE
from pocketmq.testing import LocalCluster
from pocketmq.testing.clock import VirtualClock
from pocketmq.testing.cluster import AsyncCluster

GROUP = "billing"


async def handled(messages: object) -> ConsumeResult:
    return ConsumeResult.SUCCESS


async def refused(messages: object) -> ConsumeResult:
    return ConsumeResult.RETRY


class Gate:
    """A listener that begins and does not end before it is opened."""

    def __init__(self) -> None:
        self.begun, self.opened = asyncio.Event(), asyncio.Event()

    async def __call__(self, messages: list[ReceivedMessage]) -> ConsumeResult:
        self.begun.set()
        await self.opened.wait()
        return ConsumeResult.SUCCESS


def cluster_of(queues: int = 1, **options: object) -> LocalCluster:
    return LocalCluster(topics={"Orders": queues}, groups=[GROUP], clock="virtual", **options)


async def sent(cluster: AsyncCluster, count: int = 1, **given: object) -> SendResult:
    """Sends so many messages to one queue; the result of the last one."""
    async with cluster.producer() as producer:
        for _ in range(count):
            result = await producer.send(
                Message("Orders", b"x", **given),  # type: ignore[arg-type]
                selector=lambda queues, message, arg: queues[0],
            )
    return result


async def explained(
    cluster: AsyncCluster, message: SendResult | str, group: str = GROUP
) -> Explanation:
    msg_id = message if isinstance(message, str) else message.msg_id
    async with cluster.admin() as admin:
        clock = cluster.client_settings["clock"]
        return await explain(admin, "Orders", msg_id, group, clock=clock)


def causes(explanation: Explanation) -> list[Cause]:
    return [finding.cause for finding in explanation.findings]


# -- it is not there -----------------------------------------------------------------------------


async def test_a_message_that_never_was() -> None:
    async with cluster_of() as cluster:
        known = await sent(cluster)
        key = known.msg_id[:-4] + f"{int(known.msg_id[-4:], 16) ^ 1:04X}"
        found = await explained(cluster, key)
        assert (found.state, causes(found)) == (State.NOT_FOUND, [Cause.NO_SUCH_MESSAGE])
        assert "oldest message of Orders" in found.findings[0].seen
        assert (await explained(cluster, "no-id-at-all")).state is State.NOT_FOUND
        ahead = await explained(cluster, "0:7")
        assert (ahead.state, causes(ahead)) == (State.NOT_FOUND, [Cause.NOT_SENT_YET])
        assert ahead.facts.max_offset == 1


async def test_a_message_that_retention_removed() -> None:
    settings = {"file_reserved_time": 1}
    async with cluster_of(broker_settings=settings) as cluster:
        old = await sent(cluster)
        await cluster.clock.advance(days=3)
        await sent(cluster)
        await cluster.clock.advance(days=3)
        await sent(cluster)
        by_id, by_place = await explained(cluster, old), await explained(cluster, "broker-a:0:0")
    assert (by_id.state, causes(by_id)) == (State.REMOVED, [Cause.RETENTION])
    assert (by_place.state, causes(by_place)) == (State.REMOVED, [Cause.RETENTION])
    assert by_place.facts.min_offset
    assert "fileReservedTime" in by_place.findings[0].remedy


async def test_names_that_do_not_exist() -> None:
    async with cluster_of() as cluster, cluster.admin() as admin:
        message = (await sent(cluster)).msg_id
        await cluster.create_topic("Other", 1)
        with pytest.raises(UnknownTopicError):
            await explain(admin, "Nothing", message, GROUP)
        with pytest.raises(GroupMissingError):
            await explain(admin, "Orders", message, "nobody")
        with pytest.raises(UsageError, match="no queues on broker-z"):
            await explain(admin, "Orders", "broker-z:0:0", GROUP)
        stored = await admin.message_by_unique_key("Orders", message)
        assert stored is not None
        with pytest.raises(UsageError, match="is of topic Orders, not of Other"):
            await explain(admin, "Other", stored.offset_msg_id, GROUP)


# -- the group is past it ------------------------------------------------------------------------


async def test_a_message_that_was_consumed() -> None:
    async with cluster_of() as cluster:
        message = await sent(cluster, 2)
        async with cluster.push_consumer(GROUP, listener=handled) as consumer:
            consumer.subscribe("Orders")
            await cluster.drain(GROUP)
        found = await explained(cluster, message)
        assert (found.state, found.unknown) == (State.CONSUMED, [])
        assert found.verdict == "Group billing has consumed it: it is past it."
        assert causes(found) == [Cause.OFFSET_PASSED, Cause.OFFSET_ONLY]
        assert (found.facts.offset, found.facts.committed_offset) == (1, 2)
        assert "--to 1 --queue broker-a:0" in found.findings[0].remedy
        assert "unknown without its members" in found.findings[1].seen
        same = await explained(cluster, "broker-a:0:1")
        assert (same.state, same.facts) == (found.state, found.facts)
        assert found.facts.offset_msg_id is not None
        by_offset_id = await explained(cluster, found.facts.offset_msg_id)
        assert by_offset_id.facts == found.facts


async def test_a_message_whose_consumption_was_traced() -> None:
    async with cluster_of() as cluster:
        message = await sent(cluster)
        async with cluster.push_consumer(GROUP, listener=handled, enable_trace=True) as consumer:
            consumer.subscribe("Orders")
            await cluster.drain(GROUP)
        found = await explained(cluster, message)
    assert causes(found) == [Cause.TRACE, Cause.OFFSET_PASSED]
    assert "handled it successfully" in found.findings[0].seen


async def test_a_message_that_is_handled_and_not_committed() -> None:
    async with cluster_of() as cluster:
        settings = {"persist_interval_ms": 3_600_000, "pull_hold_ms": 3_600_000}
        gate = Gate()
        async with cluster.push_consumer(GROUP, listener=gate, **settings) as consumer:
            consumer.subscribe("Orders")
            message = await sent(cluster)
            await gate.begun.wait()
            await until_cached(cluster, 1)  # and the next pull, which commits nothing, has begun
            gate.opened.set()
            await until_passed(cluster)
            found = await explained(cluster, message)
    assert (found.state, causes(found)) == (State.CONSUMED, [Cause.COMMIT_PENDING])


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("paid || sent", "paid || sent (TAG)"),
        (MessageSelector.by_sql("amount > 10"), "amount > 10 (SQL92)"),
    ],
)
async def test_a_message_that_the_filter_leaves_out(
    expression: str | MessageSelector, words: str
) -> None:
    async with (
        cluster_of(broker_settings={"enable_property_filter": True}) as cluster,
        cluster.push_consumer(GROUP, listener=handled) as consumer,
    ):
        consumer.subscribe("Orders", expression)
        message = await sent(cluster, tags="new", properties={"amount": "7"})
        await cluster.drain(GROUP)
        found = await explained(cluster, message)
        assert (found.state, causes(found)) == (State.FILTERED, [Cause.FILTER])
        assert words in found.verdict
        assert ("amount=7" if "SQL92" in words else "'new'") in found.verdict
        taken = await sent(cluster, tags="paid", properties={"amount": "70"})
        await cluster.drain(GROUP)
        assert (await explained(cluster, taken)).state is State.CONSUMED


# -- the group has not come to it ----------------------------------------------------------------


async def test_nobody_is_there_to_consume_it() -> None:
    async with cluster_of() as cluster:
        message = await sent(cluster, 3)
        await cluster.clock.advance(minutes=5)
        found = await explained(cluster, message)
    assert (found.state, causes(found)) == (State.WAITING, [Cause.NO_MEMBER, Cause.BACKLOG])
    assert found.verdict.startswith("No member of group billing is connected: it has waited in ")
    assert "for 5 min, 2 messages before it" in found.verdict
    facts = found.facts
    assert (facts.members, facts.ahead, facts.lag) == (0, 2, 3)
    assert facts.waited_ms is not None
    assert facts.waited_ms >= 300_000


async def test_members_that_do_not_subscribe_to_the_topic() -> None:
    async with cluster_of() as cluster:
        await cluster.create_topic("Other", 1)
        message = await sent(cluster)
        async with cluster.push_consumer(GROUP, listener=handled) as consumer:
            consumer.subscribe("Other")
            await cluster.clock.advance(seconds=1)
            found = await explained(cluster, message)
    assert (found.state, causes(found)) == (State.WAITING, [Cause.NOT_SUBSCRIBED])


async def test_members_of_whom_none_has_the_queue() -> None:
    async with cluster_of(2) as cluster:
        message = await sent(cluster)

        def nothing(*_: object) -> list[object]:
            return []

        async with cluster.push_consumer(GROUP, listener=handled, allocate=nothing) as consumer:
            consumer.subscribe("Orders")
            await cluster.clock.advance(seconds=1)
            found = await explained(cluster, message)
    assert (found.state, causes(found)) == (State.WAITING, [Cause.NO_OWNER])
    assert "1 member of group billing" in found.findings[0].seen


async def test_its_owner_is_at_work_on_it() -> None:
    gate = Gate()
    async with (
        cluster_of() as cluster,
        cluster.push_consumer(GROUP, listener=gate) as consumer,
    ):
        consumer.subscribe("Orders")
        message = await sent(cluster)
        await gate.begun.wait()
        found = await explained(cluster, message)
        gate.opened.set()
    assert (found.state, causes(found)) == (State.BEING_HANDLED, [Cause.HELD])
    assert "it last handed out messages of the queue less than 1 s ago" in found.findings[0].seen
    assert (found.facts.cached_from, found.facts.cached_to, found.facts.cached_count) == (0, 0, 1)
    assert found.facts.owner_id
    assert found.facts.owner_address


async def test_its_owner_is_paused(tmp_path: Path, clock: VirtualClock) -> None:
    async with Stage(tmp_path, clock) as stage, Admin(stage.namesrv, clock=clock) as admin:
        consumer = await stage.join("m", handled)
        consumer.pause()
        await clock.advance(240)
        result = await stage.done(stage.producer.send(Message("T", b"x")))
        group = consumer.group
        found = await stage.done(explain(admin, "T", result.msg_id, group, clock=clock))
    assert (found.state, causes(found)) == (State.WAITING, [Cause.NOT_PULLING])


async def test_a_member_that_does_not_say_which_queues_it_has() -> None:
    gate = Gate()
    async with (
        cluster_of() as cluster,
        cluster.push_consumer(GROUP, listener=gate) as consumer,
    ):
        consumer.subscribe("Orders")
        message = await sent(cluster)
        await gate.begun.wait()
        with cluster.faults.answer("SYSTEM_ERROR", request="GET_CONSUMER_RUNNING_INFO"):
            found = await explained(cluster, message)
        gate.opened.set()
    assert (found.state, causes(found)) == (State.UNKNOWN, [Cause.NO_OWNER])
    assert len(found.unknown) == 1
    assert "the queues of member" in found.unknown[0]


async def test_its_owner_is_at_its_limits() -> None:
    gate = Gate()
    async with (
        cluster_of() as cluster,
        cluster.push_consumer(GROUP, listener=gate, pull_threshold_for_queue=2, pull_batch_size=2)
        as consumer,
    ):  # fmt: skip
        consumer.subscribe("Orders")
        message = await sent(cluster, 5)
        await gate.begun.wait()
        await until_cached(cluster, 2)
        found = await explained(cluster, message)
        gate.opened.set()
    assert (found.state, causes(found)) == (State.WAITING, [Cause.FLOW_CONTROL])
    assert "pullThresholdForQueue 2" in found.findings[0].seen


async def until_cached(cluster: AsyncCluster, count: int) -> None:
    """Waits until the only member of the group has pulled so many messages of a queue."""
    async with cluster.admin() as admin:
        ((address, members),) = (await admin.consumers(GROUP)).items()
        client_id = members.connection_set[0].client_id
        cached = 0
        while cached < count:
            info = await admin.running_info(GROUP, client_id, broker_addr=address)
            cached = max(queue.cached_msg_count for queue in info.mq_table.values())


async def test_the_queue_is_locked_by_another_member(tmp_path: Path, clock: VirtualClock) -> None:
    async with Stage(tmp_path, clock) as stage, Admin(stage.namesrv, clock=clock) as admin:
        first = await stage.join("a", is_held=True)
        await stage.send(1)
        await stage.until(lambda: stage.begun)
        await stage.crash(first)
        await stage.join("b")
        await clock.advance(5)
        found = await stage.done(explain(admin, "T", "0:0", first.group, clock=clock))
    assert (found.state, causes(found)) == (State.WAITING, [Cause.NOT_LOCKED])


async def test_members_that_subscribe_differently() -> None:
    async with (
        cluster_of() as cluster,
        cluster.push_consumer(GROUP, listener=handled) as first,
        cluster.push_consumer(GROUP, listener=handled) as second,
    ):
        message = await sent(cluster, tags="old")
        first.subscribe("Orders", "old")
        second.subscribe("Orders", "new")
        await cluster.clock.advance(seconds=1)
        found = await explained(cluster, message)
    differing = next(f for f in found.findings if f.cause is Cause.SUBSCRIPTIONS_DIFFER)
    assert "[new (TAG)] by" in differing.seen
    assert "[old (TAG)] by" in differing.seen


# -- it waits elsewhere --------------------------------------------------------------------------


async def test_a_message_with_a_delay_level() -> None:
    async with cluster_of() as cluster:
        message = await sent(cluster, delay_level=5)
        found = await explained(cluster, message)
        assert (found.state, causes(found)) == (State.DELAYED, [Cause.DELAY])
        assert "in 1 min." in found.verdict
        stored_ms, due_ms = found.facts.stored_ms, found.facts.due_ms
        assert stored_ms is not None
        assert due_ms == stored_ms + 60_000
        assert found.facts.offset_msg_id is not None
        by_place = await explained(cluster, found.facts.offset_msg_id)
        assert (by_place.state, by_place.facts.due_ms) == (State.DELAYED, due_ms)
        await cluster.clock.advance(seconds=61)
        assert (await explained(cluster, message)).state is State.WAITING


async def test_a_timer_message() -> None:
    async with cluster_of() as cluster:
        message = await sent(cluster, delay_ms=7_200_000)
        found = await explained(cluster, message)
        assert (found.state, causes(found)) == (State.DELAYED, [Cause.DELAY])
        assert "in 2 h." in found.verdict
        assert "pocketmq recall Orders" in found.findings[0].remedy
        await cluster.clock.advance(hours=3)
        assert (await explained(cluster, message)).state is State.WAITING


class Undecided(TransactionListener):
    """Does not say how a transaction ended."""

    def execute_local_transaction(self, message: Message, arg: object) -> LocalTransactionState:
        return LocalTransactionState.UNKNOWN

    def check_local_transaction(self, message: ReceivedMessage) -> LocalTransactionState:
        return LocalTransactionState.UNKNOWN


async def test_a_half_message() -> None:
    async with (
        cluster_of() as cluster,
        cluster.transaction_producer("payers", listener=Undecided()) as producer,
    ):
        result = await producer.send_in_transaction(Message("Orders", b"x"))
        found = await explained(cluster, result.msg_id)
    assert (found.state, causes(found)) == (State.HALF, [Cause.OPEN_TRANSACTION])
    assert "producer group payers" in found.findings[0].seen


async def test_a_message_that_failed_and_waits_for_its_next_attempt() -> None:
    async with cluster_of() as cluster:
        message = await sent(cluster)
        async with cluster.push_consumer(GROUP, listener=refused) as consumer:
            consumer.subscribe("Orders")
            await cluster.drain(GROUP)
        found = await explained(cluster, message)
        assert (found.state, causes(found)) == (
            State.RETRY_WAIT,
            [Cause.FAILED, Cause.RETRY_DELAY],
        )
        assert "attempt number 2 is due" in found.verdict
        assert "in 10 s" in found.verdict
        assert found.facts.attempt == 1
        assert found.facts.origin == "offset 0 of Orders@broker-a:0"
        await cluster.clock.advance(seconds=11)
        due = await explained(cluster, message)
        assert due.state is State.WAITING
        assert causes(due) == [Cause.FAILED, Cause.NO_MEMBER, Cause.BACKLOG]
        assert due.facts.topic == "%RETRY%billing"
        async with cluster.push_consumer(GROUP, listener=handled) as consumer:
            consumer.subscribe("Orders")
            await cluster.drain(GROUP)
        done = await explained(cluster, message)
    assert done.state is State.CONSUMED
    assert "at attempt number 2" in done.verdict


async def test_a_dead_letter() -> None:
    async with cluster_of() as cluster:
        message = await sent(cluster)
        async with cluster.push_consumer(
            GROUP, listener=refused, max_reconsume_times=0
        ) as consumer:
            consumer.subscribe("Orders")
            await cluster.drain(GROUP)
        found = await explained(cluster, message)
    assert (found.state, causes(found)) == (State.DEAD_LETTER, [Cause.GIVEN_UP])
    assert "it is in %DLQ%billing, offset 0 of queue 0" in found.verdict
    assert "pocketmq tail '%DLQ%billing'" in found.findings[0].remedy


# -- the group may not read it -------------------------------------------------------------------


async def test_a_topic_that_may_not_be_read() -> None:
    async with cluster_of() as cluster, cluster.admin() as admin:
        message = await sent(cluster)
        await admin.update_topic("Orders", perm=PERM_WRITE)
        found = await explained(cluster, message)
    assert (found.state, causes(found)) == (State.FORBIDDEN, [Cause.TOPIC_NOT_READABLE])
    assert "--perm rw" in found.findings[0].remedy


async def test_a_queue_that_the_topic_does_not_read() -> None:
    async with cluster_of(2) as cluster, cluster.admin() as admin:
        async with cluster.producer() as producer:
            message = await producer.send(
                Message("Orders", b"x"), selector=lambda queues, message, arg: queues[1]
            )
        await admin.update_topic("Orders", read_queues=1)
        found = await explained(cluster, message)
    assert (found.state, causes(found)) == (State.HIDDEN, [Cause.QUEUE_NOT_READ])
    assert "--read-queues 2" in found.findings[0].remedy


async def test_a_group_that_may_not_consume() -> None:
    async with cluster_of() as cluster, cluster.admin() as admin:
        message = await sent(cluster)
        await admin.update_group(GROUP, consume_enable=False)
        found = await explained(cluster, message)
        assert (found.state, causes(found)) == (State.FORBIDDEN, [Cause.CONSUMING_DISABLED])
        await admin.update_group(GROUP, consume_enable=True)
        (broker,) = cluster.core.brokers()
        groups = broker.groups
        cluster.thread.call(lambda: groups.set_readable(GROUP, "Orders", readable=False))
        found = await explained(cluster, message)
    assert (found.state, causes(found)) == (State.FORBIDDEN, [Cause.TOPIC_FORBIDDEN])


# -- other ways to consume -----------------------------------------------------------------------


async def test_a_group_that_broadcasts() -> None:
    gate = Gate()
    async with (
        cluster_of() as cluster,
        cluster.push_consumer(GROUP, listener=gate, message_model="BROADCASTING") as first,
        cluster.push_consumer(GROUP, listener=handled, message_model="BROADCASTING") as second,
    ):
        first.subscribe("Orders")
        second.subscribe("Orders")
        message = await sent(cluster)
        await gate.begun.wait()
        await until_passed(cluster)
        found = await explained(cluster, message)
        gate.opened.set()
    assert (found.state, causes(found)) == (State.BROADCAST, [Cause.BROADCASTING] * 2)
    assert "of 2 connected members 1 are past it, 1 are not" in found.verdict


async def until_passed(cluster: AsyncCluster) -> None:
    """Waits until a member says that it has handled a message."""
    async with cluster.admin() as admin:
        passed = False
        while not passed:
            offsets = await admin.consumer_status(GROUP, "Orders")
            passed = any(at for table in offsets.values() for at in table.values())


async def test_a_group_that_pops() -> None:
    async with cluster_of() as cluster:
        message = await sent(cluster)
        settings = cluster.client_settings
        async with SimpleConsumer(GROUP, **settings) as consumer:
            consumer.subscribe("Orders")
            popped = await consumer.receive(1, invisible_ms=60_000)
            found = await explained(cluster, message)
            assert (found.state, causes(found)) == (State.BEING_HANDLED, [Cause.POP])
            assert found.facts.due_ms == cluster.clock.now_ms() + 60_000
            assert "has popped it, and has not acknowledged it" in found.verdict
            assert found.unknown == []
            await consumer.ack(popped[0])
            found = await explained(cluster, message)
        assert found.state is State.CONSUMED


async def test_a_message_that_is_acknowledged_before_an_earlier_one() -> None:
    async with cluster_of() as cluster:
        first, second = await sent(cluster), await sent(cluster)
        async with SimpleConsumer(GROUP, **cluster.client_settings) as consumer:
            consumer.subscribe("Orders")
            popped = await consumer.receive(2, invisible_ms=60_000)
            await consumer.ack(next(one for one in popped if one.msg_id == second.msg_id))
            assert (await explained(cluster, first)).state is State.BEING_HANDLED
            found = await explained(cluster, second)
            assert (found.state, causes(found)) == (State.CONSUMED, [Cause.POP])
            third = await sent(cluster)
            found = await explained(cluster, third)
    assert (found.state, found.unknown) == (State.WAITING, [])
    assert "has not popped it" in found.verdict


async def test_whether_a_message_is_popped_may_be_unknown() -> None:
    async with cluster_of() as cluster:
        message = await sent(cluster)
        async with SimpleConsumer(GROUP, **cluster.client_settings) as consumer:
            consumer.subscribe("Orders")
            await consumer.receive(1, invisible_ms=60_000)
            with cluster.faults.answer("REQUEST_CODE_NOT_SUPPORTED", request="IN_FLIGHT"):
                found = await explained(cluster, message)
    assert found.state is State.WAITING
    assert "RocketMQ's brokers tell that of no single message" in found.unknown[0]


async def test_a_popped_message_that_was_not_acknowledged_in_time() -> None:
    async with cluster_of() as cluster:
        message = await sent(cluster)
        async with SimpleConsumer(GROUP, **cluster.client_settings) as consumer:
            consumer.subscribe("Orders")
            await consumer.receive(1, invisible_ms=10_000)
            await cluster.clock.advance(seconds=30)
            found = await explained(cluster, message)
    assert (found.state, causes(found)) == (State.WAITING, [Cause.FAILED, Cause.POP])
    assert found.facts.topic.startswith("%RETRY%billing")
    assert (found.facts.attempt, found.facts.origin) == (1, "offset 0 of Orders@broker-a:0")


async def test_what_may_not_be_asked_is_unknown() -> None:
    async with cluster_of() as cluster:
        message = await sent(cluster)
        with cluster.faults.answer("NO_PERMISSION", request="GET_ALL_SUBSCRIPTIONGROUP_CONFIG"):
            found = await explained(cluster, message)
    assert found.state is State.WAITING
    assert causes(found) == [Cause.NO_MEMBER, Cause.BACKLOG]
    assert any("the settings of group billing" in text for text in found.unknown)


# -- the command ---------------------------------------------------------------------------------


def test_the_command() -> None:
    with cluster_of() as cluster:
        with cluster.producer() as producer:
            message = producer.send(Message("Orders", b"x")).msg_id
        words = ("explain", "Orders", message, GROUP, "-n", cluster.namesrv)
        table, document = pocketmq(*words), pocketmq(*words, "-o", "json")
        missing = pocketmq("explain", "Orders", "0:9", GROUP, "-n", cluster.namesrv)
        strange = pocketmq("explain", "Orders", message, "nobody", "-n", cluster.namesrv)
    assert table.returncode == document.returncode == 0, table.stderr
    lines = table.stdout.splitlines()
    assert lines[0].startswith("No member of group billing is connected")
    assert "what would change it:" in lines
    assert any(line.split() == ["state", "waiting"] for line in lines)
    found = json.loads(document.stdout)
    assert (found["state"], found["findings"][0]["cause"]) == ("waiting", "no member")
    assert (found["facts"]["queueId"], found["facts"]["offset"]) == (0, 0)
    assert (missing.returncode, strange.returncode) == (1, 1)
    assert "nothing has been stored at offset 9" in missing.stdout.lower()
    assert "there is no group nobody" in strange.stderr
