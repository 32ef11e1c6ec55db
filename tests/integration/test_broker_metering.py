"""What a broker counts only while Prometheus scrapes it, and what it tells in each role."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from cryptography.x509 import load_pem_x509_certificate
from prometheus_client.samples import Sample
from support.brokers.broker_members import Members
from support.brokers.broker_parts import GROUP, TIMEOUT_MS, TOPIC, Client, Stage, pull_request
from support.brokers.pop_parts import ack, fill, pop
from support.brokers.redrive_parts import die, ordered, redriven
from support.brokers.secured import BARE, SETTINGS
from support.peers.certificates import CertificateFiles
from support.peers.transport import until
from support.scrapes import PROM, scraped, value
from support.threads import PatientClock

from pocketmq.broker import Broker
from pocketmq.client import (
    LocalTransactionState,
    Message,
    ReceivedMessage,
    TransactionListener,
)
from pocketmq.protocol.bodies.clients import Subscription
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.requests.extensions.replication import FollowRequest
from pocketmq.protocol.requests.offsets import MaxOffsetRequest
from pocketmq.protocol.requests.topics import DeleteTopicRequest
from pocketmq.protocol.wire.command import Command
from pocketmq.testing import LocalCluster
from pocketmq.testing.clock import VirtualClock
from pocketmq.transport.errors import ConnectionClosedError

LATENCY = "rocketmq_rpc_latency_milliseconds_count"
TIMING, HALF = "rocketmq_timing_messages", "rocketmq_half_messages"


@pytest.fixture
def clock() -> VirtualClock:
    return PatientClock()


async def samples_of(broker: Broker) -> list[Sample]:
    assert broker.metrics_port is not None
    return await asyncio.to_thread(scraped, broker.metrics_port)


async def scraped_broker(stage: Stage) -> Client:
    return await stage.started_with_topic(**PROM)


# -- latencies and sizes --------------------------------------------------------------------------


async def test_answers_are_counted_by_request_and_response(stage: Stage) -> None:
    client = await scraped_broker(stage)
    await client.send()
    await client.send()
    refused = await client.call(pull_request(topic="Unknown"))
    assert refused.code == ResponseCode.TOPIC_NOT_EXIST
    samples = await samples_of(client.broker)
    sent = {"request_code": "send_message_v2", "response_code": "success", "result": "success"}
    assert value(samples, LATENCY, is_long_polling="false", protocol_type="remoting", **sent) == 2
    asked = {"request_code": "pull_message", "response_code": "topic_not_exist"}
    assert value(samples, LATENCY, **asked) == 1
    creation = "rocketmq_topic_create_execution_time_milliseconds_count"
    assert value(samples, creation, invocation_status="success", is_system="false") >= 1


async def test_a_pull_that_was_held_says_so(stage: Stage) -> None:
    client = await scraped_broker(stage)
    held = await client.hold()
    await client.send()
    await held
    pulls = {"request_code": "pull_message", "response_code": "success"}
    samples = await samples_of(client.broker)
    assert value(samples, LATENCY, is_long_polling="true", **pulls) == 1


async def test_a_code_that_nobody_knows_makes_no_series_of_its_own(stage: Stage) -> None:
    client = await scraped_broker(stage)
    connection = await client.pool.get(client.broker.address)
    for code in (7000, 7001, 7002):
        await connection.call(Command(code), TIMEOUT_MS)
    samples = await samples_of(client.broker)
    assert value(samples, LATENCY, request_code="unknown") == 3


async def test_a_one_way_request_is_counted_as_such(stage: Stage) -> None:
    client = await scraped_broker(stage)
    await client.pool.oneway(client.broker.address, MaxOffsetRequest(topic=TOPIC, queue_id=0))
    await until(lambda: client.broker.meter is not None)
    samples = await samples_of(client.broker)
    assert value(samples, LATENCY, request_code="get_max_offset", result="oneway") == 1


async def test_sizes_are_those_of_the_records(stage: Stage) -> None:
    client = await scraped_broker(stage)
    await fill(client, [b"x", b"x" * 3000, b"x" * 100_000])
    records = (await client.pull()).messages
    samples = await samples_of(client.broker)
    size = "rocketmq_message_size"
    assert value(samples, f"{size}_sum", topic=TOPIC) == sum(r.store_size for r in records)
    counts = [value(samples, f"{size}_bucket", topic=TOPIC, le=le)
              for le in ("1024.0", "4096.0", "524288.0", "+Inf")]  # fmt: skip
    assert counts == [1, 2, 3, 3]


# -- timers and transactions ----------------------------------------------------------------------


def test_timers_are_counted_from_their_send_to_their_delivery() -> None:
    with (
        LocalCluster(topics={"Orders": 1}, broker_settings=PROM, clock="virtual") as cluster,
        cluster.producer() as producer,
    ):
        [broker] = cluster.thread.call(cluster.core.brokers)
        port = broker.metrics_port
        assert port is not None
        for delay_ms in (30_000, 1_800_000, 1_900_000, 172_800_000):
            producer.send(Message("Orders", b"later", delay_ms=delay_ms))
        samples = scraped(port)
        assert value(samples, "rocketmq_timer_enqueue_total", topic="Orders") == 4
        spans = {"60": 1, "900": 0, "3600": 2, "86400": 0}
        for bound, count in spans.items():
            found = value(samples, "rocketmq_timer_message_snapshot", timer_bound_s=bound)
            assert found == count, bound
        delay = "rocketmq_delay_message_latency_seconds_bucket"
        assert value(samples, delay, topic="Orders", le="3600.0") == 3
        assert value(samples, "rocketmq_timer_dequeue_lag") == 4
        assert value(samples, TIMING, topic="Orders") == 4
        cluster.clock.advance(hours=1)
        samples = scraped(port)
        assert value(samples, "rocketmq_timer_dequeue_total", topic="Orders") == 3
        assert value(samples, "rocketmq_timer_dequeue_lag") == 1
        assert value(samples, TIMING, topic="Orders") == 1


class ByBody(TransactionListener):
    """Ends transactions as their bodies say."""

    def execute_local_transaction(self, message: Message, arg: object) -> LocalTransactionState:
        return LocalTransactionState[bytes(message.body).decode()]

    def check_local_transaction(self, message: ReceivedMessage) -> LocalTransactionState:
        return LocalTransactionState.UNKNOWN


def test_ends_of_transactions_are_counted() -> None:
    with (
        LocalCluster(topics={"Orders": 1}, broker_settings=PROM, clock="virtual") as cluster,
        cluster.transaction_producer("payers", listener=ByBody()) as producer,
    ):
        for body in (b"COMMIT", b"COMMIT", b"ROLLBACK", b"UNKNOWN"):
            producer.send_in_transaction(Message("Orders", body))
        [broker] = cluster.thread.call(cluster.core.brokers)
        cluster.clock.advance(1)
        assert broker.metrics_port is not None
        samples = scraped(broker.metrics_port)
    assert value(samples, "rocketmq_commit_messages_total", topic="Orders") == 2
    assert value(samples, "rocketmq_rollback_messages_total", topic="Orders") == 1
    assert value(samples, "rocketmq_finish_message_latency_milliseconds_count", topic="Orders") == 2
    assert value(samples, HALF, topic="Orders") == 1


# -- pops, redrives, subscriptions ----------------------------------------------------------------


async def test_pops_are_counted_by_what_became_of_them(stage: Stage, clock: VirtualClock) -> None:
    client = await scraped_broker(stage)
    await fill(client, [b"1", b"2", b"3"])
    popped = await pop(client, max_msg_nums=3, invisible_time=10_000)
    await ack(client, *popped.messages[:2])
    before = await samples_of(client.broker)
    assert value(before, "pocketmq_pop_inflight_messages") == 1
    acked = "pocketmq_pop_acknowledged_messages_total"
    assert value(before, acked, topic=TOPIC, consumer_group=GROUP) == 2
    await clock.advance(11)
    await until(lambda: client.broker.parts.popping.revival.count)
    assert value(await samples_of(client.broker), "pocketmq_pop_revived_messages_total") == 1


async def test_redrives_are_counted_by_outcome(stage: Stage) -> None:
    client = await scraped_broker(stage)
    for body in (b"1", b"2", b"3"):
        await die(client, body)
    await redriven(client, ordered(selection={"to_offset": 2}))
    samples = await samples_of(client.broker)
    redrives = "pocketmq_redrive_messages_total"
    assert value(samples, redrives, consumer_group=GROUP, outcome="sent") == 2
    assert value(samples, redrives, consumer_group=GROUP, outcome="refused") == 0


async def test_members_that_subscribe_differently_are_told(stage: Stage) -> None:
    client = await scraped_broker(stage)
    other = stage.client(client.broker)
    conflicts = "pocketmq_subscription_conflicts"
    await client.heartbeat(Subscription.of_tags(TOPIC, "a", 1))
    assert not [s for s in await samples_of(client.broker) if s.name == conflicts]
    await other.heartbeat(Subscription.of_tags(TOPIC, "b", 1), client_id="other")
    assert value(await samples_of(client.broker), conflicts, consumer_group=GROUP) == 2


# -- lags from scrape to scrape -------------------------------------------------------------------


async def lag_of(client: Client) -> tuple[float, float]:
    """The lag of the group, and the age of its oldest message."""
    samples = await samples_of(client.broker)
    of = {"topic": TOPIC, "consumer_group": GROUP}
    return (
        value(samples, "rocketmq_consumer_lag_messages", **of),
        value(samples, "rocketmq_consumer_lag_latency_milliseconds", **of),
    )


async def test_a_lag_follows_what_is_sent_and_committed(stage: Stage, clock: VirtualClock) -> None:
    client = await scraped_broker(stage)
    offsets = client.broker.offsets
    offsets.commit(GROUP, TOPIC, 0, 0)
    assert await lag_of(client) == (0, 0)
    await client.send()
    await clock.advance(5)
    assert await lag_of(client) == (1, 5000)
    await client.send()
    await clock.advance(5)
    assert await lag_of(client) == (2, 10_000)
    offsets.commit(GROUP, TOPIC, 0, 1)
    assert await lag_of(client) == (1, 5000)
    offsets.commit(GROUP, TOPIC, 0, 2)
    assert await lag_of(client) == (0, 0)


async def test_a_topic_that_is_made_again_begins_anew(stage: Stage) -> None:
    client = await scraped_broker(stage)
    await client.send()
    client.broker.offsets.commit(GROUP, TOPIC, 0, 0)
    assert (await lag_of(client))[0] == 1
    await client.ask(DeleteTopicRequest(topic=TOPIC))
    await client.create_topic()
    client.broker.offsets.commit(GROUP, TOPIC, 0, 0)
    assert (await lag_of(client))[0] == 0
    await client.send()
    assert (await lag_of(client))[0] == 1


# -- broker sets, refusals, certificates ----------------------------------------------------------


@pytest_asyncio.fixture
async def pair(tmp_path: Path, clock: VirtualClock) -> AsyncIterator[Members]:
    pair = Members(tmp_path, clock, common={**SETTINGS, **PROM})
    await pair.start()
    yield pair
    await pair.close()


async def test_leader_and_follower_tell_of_their_replication(pair: Members) -> None:
    await pair.until_in_sync()
    leader = await samples_of(pair.leader)
    assert value(leader, "pocketmq_leads") == value(leader, "pocketmq_serving") == 1
    assert value(leader, "pocketmq_in_sync_members") == 2
    assert value(leader, "pocketmq_replication_epoch") == 1
    [follower_id] = {1, 2} - {pair.leading.state.leader_id}
    assert value(leader, "pocketmq_replica_in_step", member_id=str(follower_id)) == 1
    assert value(leader, "pocketmq_replica_behind_bytes", member_id=str(follower_id)) == 0
    follower = await samples_of(pair.follower)
    assert value(follower, "pocketmq_leads") == value(follower, "pocketmq_serving") == 0
    assert value(follower, "pocketmq_replication_caught_up") == 1


async def test_a_request_that_is_refused_for_who_asked_is_counted(pair: Members) -> None:
    request = FollowRequest(member_id=9, epoch=1)
    answer = await pair.pool(BARE).call(pair.leader.address, request, TIMEOUT_MS)
    assert answer.code == ResponseCode.NO_PERMISSION
    assert value(await samples_of(pair.leader), "pocketmq_access_refusals_total") == 1


def expiry_of(path: str) -> float:
    certificate = load_pem_x509_certificate(Path(path).read_bytes())
    return certificate.not_valid_after_utc.timestamp()


async def test_the_certificate_says_when_it_expires(stage: Stage, tmp_path: Path) -> None:
    files = CertificateFiles(tmp_path / "tls")
    broker = await stage.broker(**files.config("enforcing"), **PROM)
    expiry_s = value(await samples_of(broker), "pocketmq_certificate_expiry_timestamp_seconds")
    assert expiry_s == pytest.approx(expiry_of(files.cert_path), abs=1)


async def test_connections_beyond_the_limit_are_counted(stage: Stage) -> None:
    client = await stage.started_with_topic(connections_max=1, **PROM)
    other = stage.client(client.broker)
    with pytest.raises(ConnectionClosedError):
        await other.call(MaxOffsetRequest(topic=TOPIC, queue_id=0))
    assert value(await samples_of(client.broker), "pocketmq_refused_connections_total") >= 1
