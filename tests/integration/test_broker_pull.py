"""Pulls: what they find, how much of it, who may pull, and how long they wait."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from support.brokers.broker_parts import (
    GROUP,
    SEGMENT_SIZE,
    TOPIC,
    Client,
    Stage,
    bulk_record,
    bulk_request,
    pull_request,
    pulled,
    send_request,
    tagged,
)
from support.peers.transport import until

from pocketmq.broker.reading.catch_up_share import BEHIND_MIN, SENT_MIN, WINDOW_S
from pocketmq.protocol.bodies.clients import (
    BROADCASTING,
    SQL92,
    CheckClientConfigBody,
    GroupConfig,
    Subscription,
)
from pocketmq.protocol.messages.batch import BatchEntry, encode_batch
from pocketmq.protocol.requests.clients import CheckClientConfigRequest
from pocketmq.protocol.requests.offsets import QueryConsumerOffsetRequest
from pocketmq.protocol.requests.pulling import (
    PULL_COMMIT_OFFSET,
    PULL_SUBSCRIPTION,
    PULL_SUSPEND,
    BulkPullRequest,
    BulkPullResponse,
    LitePullMessageRequest,
)
from pocketmq.protocol.requests.topics import UpdateGroupRequest
from pocketmq.testing.clock import VirtualClock, settle

FOUND, NOT_FOUND, RETRY_IMMEDIATELY, OFFSET_MOVED = 0, 19, 20, 21


async def filled(client: Client, count: int, **fields: Any) -> None:
    """Sends messages whose bodies are their offsets."""
    for i in range(count):
        await client.send(b"%d" % i, **fields)


async def test_a_group_far_behind_waits_while_many_are_sent(
    client: Client, clock: VirtualClock
) -> None:
    """The others do not wait, nor does it when the senders have stopped."""
    batch = encode_batch([BatchEntry(0, b"x", b"")] * (BEHIND_MIN + 1))
    await client.ask(send_request(batch=True), batch)
    assert (await client.pull(0)).found == (FOUND, 32), "few are sent"
    await filled(client, SENT_MIN)
    await clock.advance(2 * WINDOW_S)
    client.broker.parts.catch_up.took(1.0, 0)
    behind = asyncio.ensure_future(client.pull(0))
    end = BEHIND_MIN + 1 + SENT_MIN
    assert (await client.pull(end - 5)).found == (FOUND, end)
    assert (await client.pull(0, queue_id=1)).code == NOT_FOUND
    await settle()
    assert not behind.done()
    await clock.advance(60)
    assert (await behind).found == (FOUND, 32)


# -- what is found ------------------------------------------------------------------------------


async def test_messages_from_an_offset_on(client: Client) -> None:
    await filled(client, 5)
    pull = await client.pull(2)
    assert pull.found == (FOUND, 5)
    assert pull.status == "FOUND"
    assert pull.bodies == [b"2", b"3", b"4"]
    header = pull.header
    assert (header.min_offset, header.max_offset, header.suggest_which_broker_id) == (0, 5, 0)
    assert (header.topic_sys_flag, header.group_sys_flag) == (0, 0)


@pytest.mark.parametrize(
    ("offset", "code", "next_offset", "status"),
    [
        (3, NOT_FOUND, 3, "OFFSET_OVERFLOW_ONE"),
        (4, OFFSET_MOVED, 3, "OFFSET_OVERFLOW_BADLY"),
        (1 << 62, OFFSET_MOVED, 3, "OFFSET_OVERFLOW_BADLY"),
        (-1, OFFSET_MOVED, 0, "OFFSET_TOO_SMALL"),
    ],
)
async def test_offsets_that_hold_nothing(
    client: Client, offset: int, code: int, next_offset: int, status: str
) -> None:
    await filled(client, 3)
    pull = await client.pull(offset)
    assert pull.found == (code, next_offset)
    assert (pull.status, pull.messages) == (status, [])
    assert (pull.header.min_offset, pull.header.max_offset) == (0, 3)


@pytest.mark.parametrize(
    ("offset", "code"), [(0, NOT_FOUND), (1, OFFSET_MOVED), (-1, OFFSET_MOVED)]
)
async def test_an_empty_queue_begins_at_0(client: Client, offset: int, code: int) -> None:
    pull = await client.pull(offset)
    assert pull.found == (code, 0)
    assert pull.status == "NO_MESSAGE_IN_QUEUE"


async def test_below_the_oldest_message_the_pull_is_sent_to_it(
    stage: Stage, clock: VirtualClock
) -> None:
    client = await stage.started_with_topic(segment_size=SEGMENT_SIZE)
    for _ in range(8):
        await client.send(bytes(20_000))
    await expire(client, clock)
    await client.send(b"young")
    low = client.broker.store.find_log(TOPIC, 0).min_offset  # type: ignore[union-attr]
    assert low == 8
    for offset in (0, low - 1, -1):
        pull = await client.pull(offset)
        assert pull.found == (OFFSET_MOVED, low)
        assert pull.status == "OFFSET_TOO_SMALL"
    assert (await client.pull(low)).bodies == [b"young"]
    assert (await client.pull(low)).header.min_offset == low


async def expire(client: Client, clock: VirtualClock) -> None:
    """Has retention remove everything that there is."""
    store = client.broker.store
    retention = client.broker.parts.retention
    retention.reserved_ms.replace(0)
    await clock.advance(1)
    for _ in range(4):  # a last segment goes once its successor is on the disk
        await retention.run()
        await store.checkpoint()


async def test_a_queue_that_lost_all_its_messages_goes_on_where_it_was(
    stage: Stage, clock: VirtualClock
) -> None:
    client = await stage.started_with_topic()
    await filled(client, 3)
    await expire(client, clock)
    assert (await client.pull(3)).found == (NOT_FOUND, 3)
    assert (await client.pull(0)).found == (OFFSET_MOVED, 3)
    assert (await client.send()).queue_offset == 3


# -- filters ------------------------------------------------------------------------------------


async def test_tags_choose_messages(client: Client) -> None:
    for i, tag in enumerate(["A", "B", "", "A", "C"]):
        await client.send(b"%d" % i, properties=tagged(tag) if tag else "")
    for expression, bodies, next_offset in (
        ("A", [b"0", b"3"], 5),
        ("A || C", [b"0", b"3", b"4"], 5),
        (" B ||  ", [b"1"], 5),
        ("*", [b"0", b"1", b"2", b"3", b"4"], 5),
        ("", [b"0", b"1", b"2", b"3", b"4"], 5),
    ):
        pull = await client.pull(subscription=expression)
        assert (pull.found, pull.bodies) == ((FOUND, next_offset), bodies), expression
    assert (await client.pull(subscription="A", max_msg_nums=1)).header.next_begin_offset < 4


async def test_no_match_tells_where_to_go_on(client: Client) -> None:
    for _ in range(3):
        await client.send(properties=tagged("A"))
    pull = await client.pull(subscription="B")
    assert pull.found == (RETRY_IMMEDIATELY, 3)
    assert pull.status == "NO_MATCHED_MESSAGE"
    suspended = await client.pull(subscription="B", sys_flag=PULL_SUBSCRIPTION | PULL_SUSPEND)
    assert suspended.found == (RETRY_IMMEDIATELY, 3), "what was scanned is not waited for"


async def test_without_its_own_subscription_the_group_s_counts(client: Client) -> None:
    for tag in "AB":
        await client.send(tag.encode(), properties=tagged(tag))
    await client.heartbeat(Subscription.of_tags(TOPIC, "B", 1))
    assert (await client.pull(sys_flag=0, subscription="A")).bodies == [b"B"]
    await client.heartbeat(Subscription.of_tags(TOPIC, "*", 2))
    assert (await client.pull(sys_flag=0)).bodies == [b"A", b"B"]


async def test_sql_is_refused_clearly_where_it_is_off(stage: Stage) -> None:
    client = await stage.started_with_topic(enable_property_filter=False)
    request = pull_request(subscription="a > 1", expression_type=SQL92)
    code, remark = await client.refusal(request)
    assert code == 1
    assert "does not support consumer to filter message by SQL92" in remark
    of_group = Subscription(topic=TOPIC, sub_string="a > 1", expression_type=SQL92)
    await client.heartbeat(of_group)
    assert await client.refusal(pull_request(sys_flag=0)) == (code, remark)
    check = CheckClientConfigRequest()
    asked = CheckClientConfigBody(subscription_data=of_group)
    assert (await client.refusal(check, asked.encode())).code == 1
    by_tag = CheckClientConfigBody(subscription_data=Subscription.of_tags(TOPIC, "A", 1))
    await client.ask(check, by_tag.encode())


# -- who may pull -------------------------------------------------------------------------------


async def test_subscriptions_are_checked_unless_the_pull_brings_its_own(client: Client) -> None:
    await client.send(b"x")
    request = pull_request(sys_flag=0, sub_version=5)
    code, remark = await client.refusal(request)
    assert code == 24
    assert remark.startswith("the consumer's group info not exist")
    await client.heartbeat(Subscription.of_tags("Other", "*", 5))
    code, remark = await client.refusal(request)
    assert code == 24
    assert remark.startswith("the consumer's subscription not exist")
    await client.heartbeat(Subscription.of_tags(TOPIC, "*", 4))
    assert await client.refusal(request) == (25, "the consumer's subscription not latest")
    await client.heartbeat(Subscription.of_tags(TOPIC, "*", 5))
    assert (await client.pull(sys_flag=0, sub_version=5)).code == FOUND
    assert (await client.pull(sys_flag=0, sub_version=4)).code == FOUND


async def change_group(client: Client, **fields: Any) -> None:
    await client.ask(UpdateGroupRequest(), GroupConfig(group_name=GROUP, **fields).encode())


async def test_groups_may_be_forbidden_to_consume(client: Client) -> None:
    await change_group(client, consume_enable=False)
    code, remark = await client.refusal(pull_request())
    assert code == 16
    assert "consumeEnable is off" in remark
    await change_group(client, consume_broadcast_enable=False)
    await client.heartbeat(Subscription.of_tags(TOPIC, "*", 1), message_model=BROADCASTING)
    code, remark = await client.refusal(pull_request(sys_flag=0))
    assert code == 16
    assert "can not consume by broadcast way" in remark


async def test_unknown_groups_are_made_on_first_use_if_that_is_on(stage: Stage) -> None:
    client = await stage.started_with_topic()
    assert (await client.pull(consumer_group="new")).code == NOT_FOUND
    assert client.broker.groups.get("new") is not None
    code, remark = await client.refusal(pull_request(consumer_group="bad name"))
    assert code == 26
    assert "illegal characters" in remark


async def test_unknown_groups_are_refused_if_that_is_off(stage: Stage) -> None:
    client = await stage.started_with_topic(auto_create_subscription_group=False)
    code, remark = await client.refusal(pull_request())
    assert code == 26
    assert remark.startswith(f"subscription group [{GROUP}] does not exist, ")
    assert "autoCreateSubscriptionGroup is off" in remark
    assert (await client.pull(consumer_group="TOOLS_CONSUMER")).code == NOT_FOUND
    await change_group(client)
    assert (await client.pull()).code == NOT_FOUND


async def test_topics_and_queues_are_checked(client: Client) -> None:
    code, remark = await client.refusal(pull_request(topic="Unknown"))
    assert code == 17
    assert remark.startswith("topic[Unknown] not exist, apply first please!")
    for queue_id in (4, -1):
        code, remark = await client.refusal(pull_request(queue_id=queue_id))
        assert code == 29
        assert f"queueId[{queue_id}] is illegal, topic:[{TOPIC}]" in remark
        assert "topicConfig.readQueueNums:[4]" in remark
    await client.create_topic(read=2, write=8)
    await client.send(queue_id=7)
    assert (await client.refusal(pull_request(queue_id=7))).code == 29, "read queues count"
    await client.create_topic(perm=2)
    code, remark = await client.refusal(pull_request())
    assert code == 16
    assert remark == f"the topic[{TOPIC}] pulling message is forbidden"


async def test_a_broker_without_read_permission_gives_nothing(stage: Stage) -> None:
    client = await stage.started_with_topic(broker_permission=2)
    await client.send()
    code, remark = await client.refusal(pull_request())
    assert code == 16
    assert "brokerPermission is 2" in remark


# -- how much -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "count"), [(1, 1), (5, 5), (32, 32), (33, 32), (10_000, 32), (0, 1), (-7, 1)]
)
async def test_the_number_of_messages_has_two_limits(
    client: Client, wanted: int, count: int
) -> None:
    record = bulk_record()
    await client.ask(bulk_request(40), record * 40)
    for expression in ("*", "none"):
        pull = await client.pull(max_msg_nums=wanted, subscription=expression)
        if expression == "*":
            assert pull.found == (FOUND, count)
            assert len(pull.messages) == count
        else:
            assert pull.found == (RETRY_IMMEDIATELY, 40), "a filter looks further"


async def test_the_size_has_a_limit_but_one_message_always_fits(stage: Stage) -> None:
    client = await stage.started_with_topic(max_transfer_bytes_on_message_in_memory=1200)
    for size in (300, 300, 300, 2000, 10):
        await client.send(bytes(size), properties=tagged("A"))
    for expression in ("*", "A"):
        offset, counts = 0, []
        while offset < 5:
            pull = await client.pull(offset, subscription=expression)
            assert pull.code == FOUND
            counts.append(len(pull.messages))
            offset = pull.header.next_begin_offset
        assert counts == [2, 1, 1, 1]


async def test_the_default_size_is_256_kib(client: Client) -> None:
    for _ in range(3):
        await client.send(bytes(100_000))
    assert len((await client.pull()).messages) == 2


async def test_lite_and_bulk_pulls(client: Client) -> None:
    record = bulk_record(bytes(1000))
    await client.ask(bulk_request(1000), record * 1000)
    fields = {name: getattr(pull_request(), name) for name in pull_request().__struct_fields__}
    lite = pulled(await client.call(LitePullMessageRequest(**fields)))
    assert len(lite.messages) == 32
    fields["max_msg_nums"] = 100_000
    bulk = pulled(await client.call(BulkPullRequest(**fields)))
    assert bulk.found == (FOUND, 1000)
    assert [m.queue_offset for m in bulk.messages] == list(range(1000))
    fields["max_msg_bytes"] = len(record) * 10 + 5
    assert len(pulled(await client.call(BulkPullRequest(**fields))).messages) == 10
    fields["max_msg_nums"] = 3
    assert len(pulled(await client.call(BulkPullRequest(**fields))).messages) == 3


async def test_a_bulk_pull_tells_the_sizes_of_what_it_brings(client: Client) -> None:
    records = [bulk_record(bytes(size)) for size in (5, 700, 1, 30, 2000)]
    await client.ask(bulk_request(5), b"".join(records))
    fields = {name: getattr(pull_request(), name) for name in pull_request().__struct_fields__}
    fields["max_msg_bytes"] = sum(map(len, records[:3]))
    answer = await client.call(BulkPullRequest(**fields, with_sizes=True))
    header = answer.read(BulkPullResponse)
    assert (header.size_count, header.next_begin_offset, header.max_offset) == (3, 3, 5)
    assert client.broker.store.counters.bulk_read_count == 1, (
        "by this the key index makes room for readers"
    )
    sizes = b"".join(len(record).to_bytes(4, "big") for record in records[:3])
    assert answer.body.endswith(sizes)
    assert len(answer.body) == fields["max_msg_bytes"] + len(sizes)
    fields["subscription"] = "none"
    answer = await client.call(BulkPullRequest(**fields, with_sizes=True))
    assert answer.read(BulkPullResponse).size_count == 0


# -- offsets committed by the way ---------------------------------------------------------------


async def test_a_pull_can_commit(client: Client) -> None:
    await filled(client, 3)
    query = QueryConsumerOffsetRequest(
        consumer_group=GROUP, topic=TOPIC, queue_id=0, set_zero_if_not_found=False
    )
    await client.pull(commit_offset=2)
    assert (await client.refusal(query)).code == 22, "without the flag nothing is committed"
    await client.pull(commit_offset=-1, sys_flag=PULL_SUBSCRIPTION | PULL_COMMIT_OFFSET)
    assert (await client.refusal(query)).code == 22, "-1 means that the client has none"
    await client.pull(commit_offset=2, sys_flag=PULL_SUBSCRIPTION | PULL_COMMIT_OFFSET)
    assert client.broker.offsets.get(GROUP, TOPIC, 0) == 2
    held = await client.hold(3, commit_offset=3, sys_flag=PULL_SUBSCRIPTION | PULL_COMMIT_OFFSET)
    assert client.broker.offsets.get(GROUP, TOPIC, 0) == 3
    client.broker.offsets.commit(GROUP, TOPIC, 0, 1)
    await client.send(b"new")
    assert (await held).bodies == [b"new"]
    assert client.broker.offsets.get(GROUP, TOPIC, 0) == 1, "not again when the pull is woken"


# -- long polling -------------------------------------------------------------------------------


async def test_a_held_pull_is_answered_by_the_next_message(client: Client) -> None:
    empty, other = await client.hold(), await client.hold(queue_id=1)
    await client.send(b"0")
    assert (await empty).bodies == [b"0"]
    at_end = await client.hold(1)
    await client.send(b"1")
    assert (await at_end).found == (FOUND, 2)
    assert not other.done(), "a message of another queue wakes nobody"
    assert len(client.broker.parts.polling) == 1


async def test_every_way_of_storing_wakes(client: Client) -> None:
    held = await client.hold()
    await client.ask(bulk_request(2), bulk_record(b"bulk") * 2)
    assert (await held).bodies == [b"bulk", b"bulk"]
    held = await client.hold(2)
    batch = bytes.fromhex("00000017 00000000 00000000 00000000 00000001 62 0000")
    await client.ask(send_request(batch=True), batch)
    assert (await held).bodies == [b"b"]


async def test_only_a_matching_message_wakes(client: Client) -> None:
    held = await client.hold(subscription="B")
    for i in range(3):
        await client.send(b"A%d" % i, properties=tagged("A"))
    await settle()
    assert not held.done()
    await client.send(b"B", properties=tagged("B"))
    assert (await held).bodies == [b"B"]
    assert (await held).found == (FOUND, 4)


async def test_a_held_pull_ends_with_its_time(client: Client, clock: VirtualClock) -> None:
    await client.send(properties=tagged("A"))
    held = await client.hold(1, suspend_timeout_millis=15_000, subscription="B")
    await client.send(properties=tagged("A"))
    await clock.advance(14.9)
    assert not held.done()
    await clock.advance(0.2)
    pull = await held
    assert pull.found == (NOT_FOUND, 2), "it goes on behind what did not match"
    assert (pull.header.min_offset, pull.header.max_offset) == (0, 2)
    assert len(client.broker.parts.polling) == 0


async def test_short_polling_has_the_broker_s_own_time(stage: Stage, clock: VirtualClock) -> None:
    client = await stage.started_with_topic(long_polling_enable=False)
    held = await client.hold()
    await clock.advance(0.9)
    assert not held.done()
    await clock.advance(0.2)
    assert (await held).found == (NOT_FOUND, 0)


async def test_pulls_beyond_the_limit_are_answered_at_once(stage: Stage) -> None:
    client = await stage.started_with_topic(max_held_pulls=2)
    held = [await client.hold(queue_id=i) for i in range(2)]
    pull = await client.pull(sys_flag=PULL_SUBSCRIPTION | PULL_SUSPEND)
    assert pull.found == (NOT_FOUND, 0)
    await client.send(b"x")
    assert (await held[0]).bodies == [b"x"]
    await client.hold(1)
    held[1].cancel()


async def test_pulls_of_one_client_beyond_its_limit_are_answered_at_once(stage: Stage) -> None:
    client = await stage.started_with_topic(max_held_pulls_of_connection=1)
    held = await client.hold()
    pull = await client.pull(queue_id=1, sys_flag=PULL_SUBSCRIPTION | PULL_SUSPEND)
    assert pull.found == (NOT_FOUND, 0)
    others = await stage.client(client.broker).hold(queue_id=1)
    await client.send(b"x")
    assert (await held).bodies == [b"x"]
    await client.hold(1)
    others.cancel()


async def test_a_client_that_goes_frees_its_pulls(stage: Stage, client: Client) -> None:
    leaving = stage.client(client.broker)
    lost = [await leaving.hold(), await leaving.hold(queue_id=1)]
    kept = await client.hold()
    assert len(client.broker.parts.polling) == 3
    await leaving.close()
    await until(lambda: len(client.broker.parts.polling) == 1)
    assert all(isinstance(e, Exception)
               for e in await asyncio.gather(*lost, return_exceptions=True))  # fmt: skip
    await client.send(b"x")
    assert (await kept).bodies == [b"x"]


async def test_a_stop_answers_every_held_pull(client: Client) -> None:
    held = [await client.hold(queue_id=i) for i in range(3)]
    await client.broker.close()
    assert [(await task).found for task in held] == [(NOT_FOUND, 0)] * 3


async def test_many_pulls_of_one_queue_are_all_woken(stage: Stage, client: Client) -> None:
    others = [stage.client(client.broker) for _ in range(20)]
    held = [await other.hold(consumer_group=f"g{i}") for i, other in enumerate(others)]
    await client.send(b"all")
    assert [(await task).bodies for task in held] == [[b"all"]] * 20
