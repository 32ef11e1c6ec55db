"""Timer and half messages that wait are counted by topic, whichever run of the broker took them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from support.brokers.broker_parts import TOPIC, Client, Stage, send_request
from support.brokers.delay_parts import QUIET
from support.brokers.transaction_parts import COMMIT, PRODUCERS, ROLLBACK, Half
from support.peers.transport import until
from support.scrapes import PROM, scraped
from support.store.stores import copy_of
from support.threads import PatientClock

from pocketmq.broker.metrics import waiting_topics
from pocketmq.protocol import flags
from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.messages.ids import parse_offset_msg_id
from pocketmq.protocol.requests.sending import RecallMessageRequest, SendMessageResponse
from pocketmq.protocol.requests.topics import DeleteTopicRequest
from pocketmq.testing.clock import START_MS, VirtualClock

OTHER = "Other"
SCRAPED = {**QUIET, **PROM}


@pytest.fixture
def clock() -> VirtualClock:
    return PatientClock()


async def started(stage: Stage) -> Client:
    client = await stage.started_with_topic(**SCRAPED)
    await client.create_topic(OTHER)
    return client


async def waiting(client: Client, family: str) -> dict[str, float]:
    """What a metric says of each topic."""
    port = client.broker.metrics_port
    assert port is not None
    samples = await asyncio.to_thread(scraped, port)
    return {s.labels["topic"]: s.value for s in samples if s.name == family}


# -- timers ---------------------------------------------------------------------------------------


async def timing(client: Client) -> dict[str, float]:
    return await waiting(client, "rocketmq_timing_messages")


async def send_timer(client: Client, topic: str, due_s: int) -> str:
    """Sends a message for a time; returns its recall handle."""
    properties = {props.TIMER_DELIVER_MS: str(START_MS + due_s * 1000)}
    request = send_request(topic=topic, properties=props.encode(properties))
    answer = (await client.ask(request, b"x")).read(SendMessageResponse)
    assert answer.recall_handle is not None
    return answer.recall_handle


async def recall(client: Client, topic: str, handle: str) -> None:
    await client.ask(RecallMessageRequest(topic=topic, recall_handle=handle))


async def left(client: Client, count: int) -> None:
    """Waits until so many timer messages and recalls wait."""
    delivery = client.broker.parts.schedule.timers.delivery
    await until(lambda: not delivery.behind_count and len(delivery.index) == count)


async def test_a_timer_waits_until_it_is_delivered_recalled_or_of_a_deleted_topic(
    stage: Stage, clock: VirtualClock
) -> None:
    client = await started(stage)
    for topic, due_s in ((TOPIC, 10), (TOPIC, 20), (OTHER, 30), (OTHER, 40)):
        await send_timer(client, topic, due_s)
    handle = await send_timer(client, TOPIC, 25)
    assert await timing(client) == {TOPIC: 3, OTHER: 2}
    await recall(client, TOPIC, handle)
    assert await timing(client) == {TOPIC: 2, OTHER: 2}
    await clock.advance(11)
    await left(client, 5)
    assert await timing(client) == {TOPIC: 1, OTHER: 2}
    await clock.advance(17)
    await left(client, 2)
    assert await timing(client) == {TOPIC: 0, OTHER: 2}
    await client.ask(DeleteTopicRequest(topic=OTHER))
    await clock.advance(60)
    await left(client, 0)
    await client.create_topic(OTHER)
    await send_timer(client, OTHER, 3600)
    assert await timing(client) == {TOPIC: 0, OTHER: 1}


async def test_timers_of_earlier_runs_are_found_those_that_are_done_before_do_not_count(
    stage: Stage, clock: VirtualClock, tmp_path: Path
) -> None:
    client = await started(stage)
    for due_s in (5, 10, 3600, 3601):
        await send_timer(client, TOPIC, due_s)
        await send_timer(client, OTHER, due_s + 20)
    gone = await send_timer(client, OTHER, 15)
    late = await send_timer(client, OTHER, 7200)
    await recall(client, OTHER, gone)
    await recall(client, OTHER, late)
    await clock.advance(6)
    await left(client, 11)
    killed = copy_of(tmp_path / "store", "killed")
    await client.broker.close()
    for directory, others in ((tmp_path / "store", 4), (killed, 2)):
        client = await stage.start(store_path_root_dir=str(directory), **SCRAPED)
        await clock.advance(12)  # until 18 s, and until 30 s
        await left(client, others + 4)  # a recall and its message among them
        await send_timer(client, TOPIC, 4000)
        assert await timing(client) == {TOPIC: 3, OTHER: others}
        assert await timing(client) == {TOPIC: 3, OTHER: others}
        await client.broker.close()


async def test_a_scrape_reads_a_bounded_number_of_timers_of_earlier_runs(
    stage: Stage, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = await started(stage)
    for due_s in range(100, 112):
        await send_timer(client, TOPIC, due_s)
    await client.broker.close()
    monkeypatch.setattr(waiting_topics, "READ_PER_SCRAPE_MAX", 4)
    monkeypatch.setattr(waiting_topics, "READ_PER_SLICE_MAX", 2)
    client = await stage.start(**SCRAPED)
    assert await timing(client) == {TOPIC: 4}
    await clock.advance(105.5)  # four that are counted, and two that are not
    await left(client, 6)
    assert await timing(client) == {TOPIC: 2}
    assert await timing(client) == {TOPIC: 6}
    await clock.advance(100)
    await left(client, 0)
    assert await timing(client) == {TOPIC: 0}


# -- half messages --------------------------------------------------------------------------------


async def halves(client: Client) -> dict[str, float]:
    return await waiting(client, "rocketmq_half_messages")


async def send_half(client: Client, clock: VirtualClock, topic: str) -> Half:
    given = {props.TRANSACTION_PREPARED: "true", props.PRODUCER_GROUP: PRODUCERS}
    request = send_request(
        topic=topic, sys_flag=flags.TRANSACTION_PREPARED, born_timestamp=clock.now_ms(),
        properties=props.encode(given),
    )  # fmt: skip
    stored = (await client.ask(request, b"x")).read(SendMessageResponse)
    place = parse_offset_msg_id(stored.msg_id).physical_offset
    return Half(stored.queue_offset, place, stored.transaction_id or "")


async def test_a_half_message_waits_until_it_is_ended(stage: Stage, clock: VirtualClock) -> None:
    client = await started(stage)
    assert await halves(client) == {}
    first = await send_half(client, clock, TOPIC)
    second = await send_half(client, clock, OTHER)
    await send_half(client, clock, OTHER)
    assert await halves(client) == {TOPIC: 1, OTHER: 2}
    await client.ask(first.end(COMMIT))
    await client.ask(second.end(ROLLBACK, topic=OTHER))
    assert await halves(client) == {TOPIC: 0, OTHER: 1}
    await client.broker.close()
    client = await stage.start(**SCRAPED)
    assert await halves(client) == {OTHER: 1}
    await client.heartbeat(producer=PRODUCERS)
    await clock.advance(100)  # a check moves it
    states = client.broker.parts.transactions.half_states
    await until(lambda: states.end > 3)
    assert await halves(client) == {OTHER: 1}


async def test_of_many_half_messages_some_stand_for_all(
    stage: Stage, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting_topics, "LOOKS_MAX", 6)
    monkeypatch.setattr(waiting_topics, "HALVES_PER_SLICE", 2)
    client = await started(stage)
    sent = [await send_half(client, clock, TOPIC if n % 3 else OTHER) for n in range(24)]
    assert await halves(client) == {TOPIC: 16, OTHER: 8}
    for half in sent[1::2]:
        await client.ask(half.end(COMMIT))
    assert await halves(client) == {TOPIC: 8, OTHER: 4}
