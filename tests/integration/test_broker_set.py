"""A broker set on real sockets whose servers and clients sign: it replicates and switches."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from support.brokers.broker_members import Members
from support.brokers.broker_parts import TIMEOUT_MS, advance_until
from support.brokers.secured import ADMIN, BARE, SETTINGS
from support.store.stores import messages
from support.threads import PatientClock

from pocketmq.broker import Broker, BrokerConfig
from pocketmq.client import Message, Producer
from pocketmq.protocol.bodies.replication import MemberReport
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import OperatingError
from pocketmq.protocol.requests.extensions.replication import (
    DescribeMemberRequest,
    ElectMemberRequest,
    FollowRequest,
    JoinBrokerSetRequest,
    SwitchLeaderRequest,
    SwitchLeaderResponse,
)
from pocketmq.protocol.requests.offsets import MaxOffsetRequest
from pocketmq.testing.clock import VirtualClock, settle
from pocketmq.transport.pool import ConnectionPool


@pytest.fixture
def clock() -> VirtualClock:
    return PatientClock()


@pytest_asyncio.fixture
async def pair(tmp_path: Path, clock: VirtualClock) -> AsyncIterator[Members]:
    pair = Members(tmp_path, clock, common=SETTINGS)
    await pair.start()
    yield pair
    await pair.close()


async def test_messages_outlive_a_switch_that_somebody_asks_for(
    pair: Members, clock: VirtualClock
) -> None:
    first = pair.leader
    async with Producer(
        "producers", pair.server.address, clock=clock, credentials=ADMIN
    ) as producer:
        for number in range(5):
            await producer.send(Message("Orders", b"%d" % number))
        answer = await pair.pool(ADMIN).ask_for(
            first.address, SwitchLeaderRequest(), SwitchLeaderResponse, TIMEOUT_MS
        )
        assert answer.epoch == 2
        await pair.until_led_by_another(first)
        await pair.until_in_sync()
        logs = [pair.leader.store.find_log("Orders", queue_id) for queue_id in range(4)]
        bodies = sorted(message.body for log in logs for message in messages(log))
        assert bodies == [b"%d" % number for number in range(5)]


async def test_only_the_servers_user_may_join(pair: Members) -> None:
    leader = pair.leader
    join = JoinBrokerSetRequest(
        cluster_name="DefaultCluster", broker_name="a", member_id=9, set_id="", directory_id="d",
        epoch=0, format=1, address="127.0.0.1:1",
    )  # fmt: skip
    for request in (join, FollowRequest(member_id=9, epoch=1)):
        answer = await pair.pool(BARE).call(leader.address, request, TIMEOUT_MS)
        assert answer.code == ResponseCode.NO_PERMISSION
    assert pair.in_sync == (1, 2)


async def test_a_member_with_another_secret_is_refused(pair: Members, clock: VirtualClock) -> None:
    wrong = {"accessKey": "inner", "secretKey": "another secret"}
    await pair.start_member(3, inner_client_authentication_credentials=wrong)
    third = pair.brokers[3]
    assert third.broker_set is not None
    member = third.broker_set.member
    await advance_until(clock, lambda: member.told, 0.2)
    assert "refuses this member" in member.told
    assert "its innerClientAuthenticationCredentials must be those of the name server" in (
        member.told
    )
    assert pair.in_sync == (1, 2)


async def test_only_administrators_elect(pair: Members) -> None:
    for broker in pair.brokers.values():
        for request in (DescribeMemberRequest(), ElectMemberRequest(version=1, unclean=True)):
            for pool in (pair.pool(BARE), ConnectionPool(pair.clock)):
                pair.pools.append(pool)
                answer = await pool.call(broker.address, request, TIMEOUT_MS)
                assert answer.code == ResponseCode.NO_PERMISSION
        answer = await pair.pool(ADMIN).call(broker.address, DescribeMemberRequest(), TIMEOUT_MS)
        report = MemberReport.decode(answer.body)
        role = "leader" if broker is pair.leader else "follower"
        assert (report.role, report.epoch, report.told) == (role, 1, "")


async def test_a_member_is_elected_only_of_the_state_that_was_seen(pair: Members) -> None:
    admin = pair.pool(ADMIN)
    for broker in pair.brokers.values():
        request = ElectMemberRequest(version=99, unclean=True)
        answer = await admin.call(broker.address, request, TIMEOUT_MS)
        assert "not 99: look again" in (answer.remark or "")
        seen = MemberReport.decode(
            (await admin.call(broker.address, DescribeMemberRequest(), TIMEOUT_MS)).body
        )
        request = ElectMemberRequest(version=seen.version, unclean=True)
        answer = await admin.call(broker.address, request, TIMEOUT_MS)
        assert answer.code == ResponseCode.CONTROLLER_ELECT_MASTER_FAILED
        told = "it leads already" if broker is pair.leader else "it follows a leader that lives"
        assert told in (answer.remark or "")
    assert pair.in_sync == (1, 2)


async def test_a_follower_refuses_clients_and_names_the_leader(pair: Members) -> None:
    answer = await pair.pool(ADMIN).call(pair.follower.address, SwitchLeaderRequest(), TIMEOUT_MS)
    assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert pair.leader.address in (answer.remark or "")


async def test_a_broker_of_no_set_says_so(clock: VirtualClock, tmp_path: Path) -> None:
    config = BrokerConfig(listen_port=0, store_path_root_dir=str(tmp_path / "alone"))
    pool = ConnectionPool(clock)
    async with Broker(config, clock) as broker:
        answer = await pool.call(broker.address, SwitchLeaderRequest(), TIMEOUT_MS)
        assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        assert "enableControllerMode" in (answer.remark or "")
    await pool.close()


async def test_no_request_is_unknown_while_the_roles_change(pair: Members) -> None:
    """RocketMQ's clients send again after 14, and give up after 3."""
    codes = set[int]()
    is_over = False

    async def ask_on(address: str) -> None:
        pool = pair.pool(ADMIN)
        while not is_over:
            try:
                request = MaxOffsetRequest(topic="Orders", queue_id=0)
                answers = [pool.call(address, request, TIMEOUT_MS) for _ in range(20)]
                codes.update(answer.code for answer in await asyncio.gather(*answers))
            except OperatingError:
                await settle(1)

    asking = [asyncio.ensure_future(ask_on(b.address)) for b in pair.brokers.values()]
    for _ in range(4):
        await pair.switch(ADMIN)
    is_over = True
    await asyncio.gather(*asking)
    assert codes <= {ResponseCode.SUCCESS, ResponseCode.SERVICE_NOT_AVAILABLE}
