"""What a follower of a broker set serves: reads of what it shows, never more, and no changes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from support.brokers.broker_members import Members
from support.brokers.broker_parts import (
    GROUP,
    TOPIC,
    advance_until,
    bulk_request,
    pull_request,
    send_request,
)
from support.peers.transport import until
from support.threads import PatientClock

from pocketmq.broker import BrokerConfig
from pocketmq.client import Admin, PushConsumer
from pocketmq.protocol.bodies.clients import CONSUME_FROM_FIRST_OFFSET, GroupConfig, Subscription
from pocketmq.protocol.bodies.groups import ConsumerOffsetTable
from pocketmq.protocol.bodies.topics import TopicConfigTable
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import ConfigError
from pocketmq.protocol.messages.ids import parse_offset_msg_id
from pocketmq.protocol.requests.consuming import LockBatchRequest
from pocketmq.protocol.requests.groups import AllConsumerOffsetsRequest
from pocketmq.protocol.requests.offsets import (
    MaxOffsetRequest,
    OffsetResponse,
    QueryConsumerOffsetRequest,
    UpdateConsumerOffsetRequest,
    ViewMessageRequest,
)
from pocketmq.protocol.requests.pulling import PULL_COMMIT_OFFSET, PULL_SUBSCRIPTION, PULL_SUSPEND
from pocketmq.protocol.requests.sending import SendMessageResponse
from pocketmq.protocol.requests.topics import AllTopicConfigRequest, CreateTopicRequest
from pocketmq.protocol.requests.transactions import EndTransactionRequest
from pocketmq.testing.clock import VirtualClock, settle

FAR = {"slave_read_enable": True, "access_message_in_memory_max_ratio": 0}
"""Whoever is not at the end is far behind."""

BODIES = [b"%d" % number for number in range(5)]

Starter = Callable[..., Awaitable[Members]]


@pytest.fixture
def clock() -> VirtualClock:
    return PatientClock()


@pytest_asyncio.fixture
async def start(tmp_path: Path, clock: VirtualClock) -> AsyncIterator[Starter]:
    made: list[Members] = []

    async def start_members(count: int = 2, **settings: Any) -> Members:
        made.append(Members(tmp_path, clock, count, **settings))
        await made[-1].start()
        return made[-1]

    yield start_members
    for members in made:
        await members.close()


class Callers:
    """A client of each member, without the cleverness that finds leaders."""

    def __init__(self, members: Members) -> None:
        self._members = members
        self.leader = members.client(members.leader)
        self.follower = members.client(members.followers[0])

    async def send(self, *bodies: bytes) -> list[SendMessageResponse]:
        """Sends to the leader, and waits until the followers show it."""
        sent = [await self.leader.send(body) for body in bodies]
        await self.shown(sent[-1].queue_offset + 1)
        return sent

    async def shown(self, count: int) -> None:
        def is_shown() -> bool:
            logs = [f.store.find_log(TOPIC, 0) for f in self._members.followers]
            return all(log is not None and log.end_offset >= count for log in logs)

        await advance_until(self._members.clock, is_shown, 0.2)


# -- pulls ------------------------------------------------------------------------------------


async def test_the_leader_sends_groups_far_behind_to_a_follower(start: Starter) -> None:
    pair = await start(**FAR)
    callers = Callers(pair)
    await callers.send(*BODIES)
    part = await callers.leader.pull(max_msg_nums=2)
    assert (part.bodies, part.header.suggest_which_broker_id) == (BODIES[:2], 2)
    part = await callers.follower.pull(2, max_msg_nums=2)
    assert (part.bodies, part.header.suggest_which_broker_id) == (BODIES[2:4], 2)
    rest = await callers.follower.pull(4)
    assert (rest.bodies, rest.header.suggest_which_broker_id) == (BODIES[4:], 0)
    end = await callers.follower.pull(5, sys_flag=PULL_SUBSCRIPTION | PULL_SUSPEND)
    assert (end.found, end.header.suggest_which_broker_id) == ((20, 5), 0)  # the leader holds it


async def test_a_group_near_the_end_of_a_queue_stays_with_the_leader(start: Starter) -> None:
    callers = Callers(await start(slave_read_enable=True))
    await callers.send(*BODIES)
    for client in (callers.leader, callers.follower):
        part = await client.pull(max_msg_nums=2)
        assert (part.bodies, part.header.suggest_which_broker_id) == (BODIES[:2], 0)


async def test_a_group_may_ask_for_a_follower_of_its_own(
    start: Starter, clock: VirtualClock
) -> None:
    three = await start(3, **FAR)
    callers = Callers(three)
    await callers.send(*BODIES)
    async with Admin(three.server.address, clock=clock) as admin:
        for wanted, suggested in ((3, 3), (1, 2), (9, 2), (0, 0)):
            group = GroupConfig(group_name=GROUP, which_broker_when_consume_slowly=wanted)
            await admin.create_group(group)
            part = await callers.leader.pull(max_msg_nums=1)
            assert part.header.suggest_which_broker_id == suggested


async def test_nobody_is_sent_to_a_follower_that_is_not_in_sync(start: Starter) -> None:
    pair = await start(**FAR)
    callers = Callers(pair)
    await callers.send(*BODIES)
    await pair.stop(2)
    await pair.until_in_sync(1)
    assert (await callers.leader.pull(max_msg_nums=2)).header.suggest_which_broker_id == 0


async def test_without_slave_read_enable_pulls_are_the_leaders(start: Starter) -> None:
    callers = Callers(await start())
    await callers.send(*BODIES)
    assert (await callers.leader.pull(max_msg_nums=1)).header.suggest_which_broker_id == 0
    refusal = await callers.follower.refusal(pull_request())
    assert refusal.code == ResponseCode.SYSTEM_BUSY
    assert refusal.remark.startswith("[REJECTREQUEST]")
    assert "slaveReadEnable is off" in refusal.remark


async def test_slave_read_enable_changes_at_run_time(start: Starter, clock: VirtualClock) -> None:
    pair = await start(access_message_in_memory_max_ratio=0)
    callers = Callers(pair)
    await callers.send(*BODIES)
    async with Admin(pair.server.address, clock=clock) as admin:
        await admin.update_broker_config(pair.leader.address, {"slaveReadEnable": True})
        assert (await callers.leader.pull(max_msg_nums=1)).header.suggest_which_broker_id == 2
        assert (await callers.follower.pull()).bodies == BODIES
        shown = await admin.broker_config(pair.follower.address)
        assert (shown["slaveReadEnable"], shown["brokerId"]) == ("true", "2")


async def test_a_consumer_beyond_a_followers_end_is_not_sent_back(start: Starter) -> None:
    callers = Callers(await start(**FAR))
    await callers.send(*BODIES)
    for offset, queue_id in ((7, 0), (3, 3)):
        beyond = await callers.follower.pull(offset, queue_id=queue_id)
        assert (beyond.found, beyond.header.suggest_which_broker_id) == ((20, offset), 0)


async def test_with_offset_check_in_slave_it_is(start: Starter) -> None:
    callers = Callers(await start(**FAR, offset_check_in_slave=True))
    await callers.send(*BODIES)
    assert (await callers.follower.pull(7)).found == (21, 5)


class Nowhere:
    """A link on which nothing arrives."""

    def replicate(self, *_: object) -> None:
        pass

    def close(self, reason: str) -> None:
        pass


async def test_a_follower_shows_what_all_in_sync_members_have(
    start: Starter, clock: VirtualClock
) -> None:
    three = await start(3, **FAR)
    callers = Callers(three)
    await callers.send(BODIES[0])
    leader, peer = three.leading.leader, three.leading.leader.peers[3]
    peer._link = Nowhere()
    sending = asyncio.ensure_future(callers.leader.send(BODIES[1]))
    log = three.brokers[2].store.find_log(TOPIC, 0)
    assert log is not None
    await until(lambda: log.written_offset == 2)
    assert (await callers.follower.pull()).bodies == BODIES[:1]
    assert (await callers.follower.pull(1)).found == (20, 1)
    peer.close("it is deaf")
    leader.lost_peer(peer, "it is deaf")
    await sending
    await advance_until(clock, lambda: log.end_offset == 2, 0.2)


async def test_without_a_leader_a_follower_goes_on_and_holds_pulls(start: Starter) -> None:
    three = await start(3, **FAR)
    callers = Callers(three)
    await callers.send(*BODIES)
    await three.server.close()  # its arbiter, too: nobody can be elected
    await three.stop(1)
    follower = callers.follower
    await until(lambda: not follower.broker.broker_set.has_leader)  # type: ignore[union-attr]
    assert (await follower.pull(2)).bodies == BODIES[2:]
    held = asyncio.ensure_future(follower.pull(5, sys_flag=PULL_SUBSCRIPTION | PULL_SUSPEND))
    await settle()
    assert not held.done()
    held.cancel()


# -- what else it serves --------------------------------------------------------------------------


async def test_consumers_find_their_offsets_and_messages(start: Starter) -> None:
    pair = await start(**FAR)
    callers = Callers(pair)
    sent = await callers.send(*BODIES)
    await callers.leader.heartbeat()
    await callers.leader.ask(
        UpdateConsumerOffsetRequest(consumer_group=GROUP, topic=TOPIC, queue_id=0, commit_offset=3)
    )
    follower = callers.follower

    async def committed() -> int:
        request = QueryConsumerOffsetRequest(consumer_group=GROUP, topic=TOPIC, queue_id=0)
        return (await follower.ask(request)).read(OffsetResponse).offset

    assert await committed() == 3
    end = await follower.ask(MaxOffsetRequest(topic=TOPIC, queue_id=0))
    assert end.read(OffsetResponse).offset == 5
    offset = parse_offset_msg_id(sent[2].msg_id).physical_offset
    assert BODIES[2] in (await follower.ask(ViewMessageRequest(offset=offset))).body
    topics = TopicConfigTable.decode((await follower.ask(AllTopicConfigRequest())).body)
    assert TOPIC in topics.topic_config_table
    offsets = ConsumerOffsetTable.decode((await follower.ask(AllConsumerOffsetsRequest())).body)
    assert offsets.offset_table[f"{TOPIC}@{GROUP}"] == {0: 3}


async def test_what_is_deleted_at_the_leader_is_gone_at_the_follower(
    start: Starter, clock: VirtualClock
) -> None:
    pair = await start(**FAR)
    callers = Callers(pair)
    await callers.send(*BODIES)
    assert (await callers.follower.pull()).bodies == BODIES
    async with Admin(pair.server.address, clock=clock) as admin:
        await admin.delete_topic(TOPIC)
    assert (await callers.follower.call(pull_request())).code == ResponseCode.TOPIC_NOT_EXIST


async def test_changes_are_the_leaders(start: Starter) -> None:
    pair = await start(**FAR)
    callers = Callers(pair)
    await callers.send(*BODIES)
    commit = UpdateConsumerOffsetRequest(
        consumer_group=GROUP, topic=TOPIC, queue_id=0, commit_offset=3
    )
    create = CreateTopicRequest(
        topic="New", default_topic="TBW102", read_queue_nums=1, write_queue_nums=1, perm=6,
        topic_filter_type="SINGLE_TAG",
    )  # fmt: skip
    lock = LockBatchRequest()
    end = EndTransactionRequest(
        producer_group="p", tran_state_table_offset=0, commit_log_offset=0, commit_or_rollback=8,
        from_transaction_check=False, msg_id="", transaction_id="",
    )  # fmt: skip
    for request, code in (
        (send_request(), ResponseCode.SYSTEM_BUSY),
        (bulk_request(0), ResponseCode.SYSTEM_BUSY),
        (commit, ResponseCode.SERVICE_NOT_AVAILABLE),
        (create, ResponseCode.SERVICE_NOT_AVAILABLE),
        (lock, ResponseCode.SERVICE_NOT_AVAILABLE),
        (end, ResponseCode.SLAVE_NOT_AVAILABLE),
    ):
        refusal = await callers.follower.refusal(request)
        assert refusal.code == code
        assert f"member 1 at {pair.leader.address}" in refusal.remark


async def test_heartbeats_and_commits_at_a_follower_change_nothing(start: Starter) -> None:
    pair = await start(**FAR)
    callers = Callers(pair)
    await callers.send(*BODIES)
    before = pair.follower.store.metadata
    topics, groups = before.topics(), before.groups()
    subscription = Subscription(topic=TOPIC, sub_string="*")
    await callers.follower.heartbeat(subscription, group="new-group")
    flags = PULL_SUBSCRIPTION | PULL_COMMIT_OFFSET
    await callers.follower.pull(sys_flag=flags, commit_offset=4)
    assert (before.topics(), before.groups()) == (topics, groups)
    assert not before.consumer_offsets()
    assert (await callers.follower.pull(sys_flag=0, consumer_group="new-group")).bodies == BODIES


async def test_our_consumer_reads_from_the_follower_and_commits_at_the_leader(
    start: Starter, clock: VirtualClock
) -> None:
    pair = await start(**FAR)
    callers = Callers(pair)
    await callers.send(*(b"%d" % number for number in range(300)))
    got: list[bytes] = []
    async with PushConsumer(
        GROUP,
        pair.server.address,
        clock=clock,
        consume_from_where=CONSUME_FROM_FIRST_OFFSET,
        listener=lambda messages: got.extend(m.body for m in messages),
    ) as consumer:
        consumer.subscribe(TOPIC)
        await advance_until(clock, lambda: len(got) == 300, 0.2)
        await callers.leader.send(b"last")
        await advance_until(clock, lambda: len(got) == 301, 0.2)
        await advance_until(clock, lambda: pair.leader.offsets.get(GROUP, TOPIC, 0) == 301, 1.0)
    service = pair.follower.broker_set._service  # type: ignore[union-attr]
    assert service is not None
    assert service.parts.progress.total.messages > 200


# -- the configuration ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"broker_role": "SLAVE"}, "which member leads is elected"),
        ({"broker_role": "MASTER"}, "must be ASYNC_MASTER or SYNC_MASTER"),
        ({"broker_id": 1}, "set enableControllerMode"),
        ({"enable_controller_mode": True, "broker_id": 1}, "needs controllerAddr"),
    ],
)
def test_roles_and_ids_that_mean_nothing_here_are_refused(
    settings: dict[str, Any], reason: str
) -> None:
    with pytest.raises(ConfigError, match=reason):
        BrokerConfig(**settings)
