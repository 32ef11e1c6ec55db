"""Groups put elsewhere from outside: reset (222, 220) and clone (314)."""

from __future__ import annotations

from typing import Any

import pytest
import pytest_asyncio
from support.brokers.broker_parts import GROUP, TOPIC, Client, Stage
from support.peers.transport import until

from pocketmq.protocol.bodies.clients import GroupConfig, Subscription
from pocketmq.protocol.bodies.groups import ResetOffsets
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.requests.groups import CloneOffsetsRequest, ResetOffsetRequest
from pocketmq.protocol.requests.offsets import (
    OffsetResponse,
    QueryConsumerOffsetRequest,
    UpdateConsumerOffsetRequest,
)
from pocketmq.protocol.requests.pulling import PULL_COMMIT_OFFSET, PULL_SUBSCRIPTION
from pocketmq.protocol.requests.topics import DeleteGroupRequest, UpdateGroupRequest
from pocketmq.protocol.wire.command import Command
from pocketmq.testing.clock import START_MS, VirtualClock


@pytest_asyncio.fixture
async def client(stage: Stage, clock: VirtualClock) -> Client:
    """Queue 0 holds a message of each of ten seconds, queue 1 two of them; queues 2 and 3 none."""
    client = await stage.started_with_topic()
    await client.ask(UpdateGroupRequest(), GroupConfig(group_name=GROUP).encode())
    for i in range(10):
        await client.send(b"%d" % i)
        await clock.advance(1)
    for _ in range(2):
        await client.send(queue_id=1)
    return client


def reset_request(**fields: Any) -> ResetOffsetRequest:
    given: dict[str, Any] = {"group": GROUP, "topic": TOPIC}
    return ResetOffsetRequest(**(given | fields))


async def reset(client: Client, **fields: Any) -> dict[int, int]:
    """Resets, which must succeed; the offset of each queue."""
    table = ResetOffsets.decode((await client.ask(reset_request(**fields))).body).offset_table
    assert {(key.broker_name, key.topic) for key in table} == {("broker-a", TOPIC)}
    return {key.queue_id: offset for key, offset in table.items()}


async def commit(client: Client, offset: int, queue_id: int = 0, group: str = GROUP) -> str | None:
    request = UpdateConsumerOffsetRequest(
        consumer_group=group, topic=TOPIC, queue_id=queue_id, commit_offset=offset
    )
    return (await client.ask(request)).remark


async def stored(client: Client, queue_id: int = 0, group: str = GROUP) -> int:
    request = QueryConsumerOffsetRequest(consumer_group=group, topic=TOPIC, queue_id=queue_id)
    return (await client.ask(request)).read(OffsetResponse).offset


# -- to where -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("timestamp", "offsets"),
    [
        (-1, {0: 10, 1: 2, 2: 0, 3: 0}),
        (0, {0: 0, 1: 0, 2: 0, 3: 0}),
        (START_MS + 4500, {0: 5, 1: 0, 2: 0, 3: 0}),
        (START_MS + 1_000_000, {0: 10, 1: 2, 2: 0, 3: 0}),
    ],
)
async def test_all_queues_by_time(client: Client, timestamp: int, offsets: dict[int, int]) -> None:
    assert await reset(client, timestamp=timestamp) == offsets
    assert {q: await stored(client, q) for q in range(4)} == offsets


async def test_one_queue_by_offset_or_time(client: Client) -> None:
    await commit(client, 1, 1)
    assert await reset(client, queue_id=0, offset=7, timestamp=0) == {0: 7}
    assert await reset(client, queue_id=0, timestamp=START_MS + 3000) == {0: 3}
    assert await reset(client, queue_id=0, offset=-1, timestamp=-1) == {0: 10}
    assert await stored(client, 1) == 1, "the other queues stay as they are"


@pytest.mark.parametrize("offset", [0, 10, 11])
async def test_the_ends_of_a_queue_are_inside(client: Client, offset: int) -> None:
    assert await reset(client, queue_id=0, offset=offset) == {0: offset}


@pytest.mark.parametrize("offset", [-2, 12, 1 << 62])
async def test_an_offset_outside_of_the_queue_is_refused(client: Client, offset: int) -> None:
    await commit(client, 4)
    code, remark = await client.refusal(reset_request(queue_id=0, offset=offset))
    assert code == 1
    assert remark.startswith(f"Target offset {offset} not in consume queue range [0-10]")
    assert "offsets 0 to 9" in remark
    assert await stored(client) == 4
    assert (await client.pull(4)).code == 0, "and nobody is told anything"


async def test_what_does_not_exist_is_told_so(client: Client) -> None:
    assert (await client.refusal(reset_request(topic="Unknown"))).code == 17
    code, remark = await client.refusal(reset_request(group="unknown"))
    assert (code, "unknown" in remark) == (26, True)
    assert client.broker.groups.get("unknown") is None, "a typing error makes no group"
    code, remark = await client.refusal(reset_request(queue_id=4, offset=0))
    assert (code, "queueId[4] is illegal" in remark) == (29, True)
    code, remark = await client.refusal(reset_request(queue_id=4, offset=7))
    assert (code, "not in consume queue range [0-0]" in remark) == (1, True)
    assert f"queue 4 of {TOPIC} holds nothing" in remark


# -- and what consumers notice ------------------------------------------------------------------


async def test_the_next_pull_is_told_and_commits_before_do_not_count(client: Client) -> None:
    await commit(client, 8)
    await reset(client, queue_id=0, offset=3)
    assert await commit(client, 9) == "Offset has been previously reset"
    assert await stored(client) == 3
    flags = PULL_SUBSCRIPTION | PULL_COMMIT_OFFSET
    told = await client.pull(9, sys_flag=flags, commit_offset=9)
    assert (told.found, told.status) == ((21, 3), "OFFSET_RESET")
    assert (told.header.min_offset, told.header.max_offset) == (0, 10)
    assert await stored(client) == 3
    assert (await client.pull(3, max_msg_nums=1)).bodies == [b"3"], "told once"
    assert await commit(client, 4) is None
    assert await stored(client) == 4


async def test_a_held_pull_is_told_at_once(client: Client) -> None:
    held = await client.hold(10)
    other = await client.hold(10, consumer_group="other")
    await reset(client, timestamp=0)
    assert (await held).found == (21, 0)
    assert not other.done()
    await client.send(b"new")
    assert (await other).bodies == [b"new"]


async def test_a_pull_that_was_beyond_goes_on_at_the_end(client: Client) -> None:
    await reset(client, queue_id=0, offset=11)
    assert (await client.pull(4)).found == (21, 11)
    assert (await client.pull(11)).found == (21, 10)


async def test_a_reset_outlives_a_restart(stage: Stage, client: Client) -> None:
    await commit(client, 8)
    await reset(client, queue_id=0, offset=3)
    assert (GROUP, TOPIC, 0, 3) in client.broker.store.metadata.consumer_offsets()
    await client.broker.close()
    assert await stored(await stage.start()) == 3


async def test_a_deleted_group_is_told_nothing(client: Client) -> None:
    await reset(client, queue_id=0, offset=3)
    await client.ask(DeleteGroupRequest(group_name=GROUP, clean_offset=True))
    assert (await client.pull(9)).code == 0
    assert await commit(client, 10) is None


# -- as old brokers do it -----------------------------------------------------------------------


class Reached:
    """A consumer that keeps what the broker tells it to reset."""

    def __init__(self, client: Client) -> None:
        self.client, self.tables = client, list[dict[int, int]]()
        client.handlers[RequestCode.RESET_CONSUMER_CLIENT_OFFSET] = self._reset

    def _reset(self, command: Command, _: object) -> None:
        table = ResetOffsets.decode(command.body).offset_table
        self.tables.append({key.queue_id: offset for key, offset in table.items()})


async def test_without_resets_here_the_consumers_are_told(
    stage: Stage, clock: VirtualClock
) -> None:
    client = await stage.started_with_topic(queues=2, use_server_side_reset_offset=False)
    for _ in range(3):
        await client.send()
        await clock.advance(1)
    await client.ask(UpdateGroupRequest(), GroupConfig(group_name=GROUP).encode())
    code, remark = await client.refusal(reset_request(timestamp=0))
    assert (code, "no offset in queue 0" in remark) == (1, True)
    await commit(client, 2)
    await commit(client, 0, 1)
    code, remark = await client.refusal(reset_request(timestamp=0))
    assert (code, "Consumer not online" in remark) == (206, True)
    members = [Reached(stage.client(client.broker)) for _ in range(2)]
    for i, member in enumerate(members):
        subscription = Subscription.of_tags(TOPIC, "*", 1)
        await member.client.heartbeat(subscription, client_id=f"client-{i}")
    assert await reset(client, timestamp=0) == {0: 0, 1: 0}
    assert await reset(client, timestamp=-1, is_force=False) == {0: 2, 1: 0}
    await until(lambda: all(len(m.tables) == 2 for m in members))
    assert members[0].tables == members[1].tables == [{0: 0, 1: 0}, {0: 2, 1: 0}]
    assert await stored(client) == 2, "the consumers commit it"


# -- clone --------------------------------------------------------------------------------------


async def test_a_group_is_put_where_another_one_stands(client: Client) -> None:
    await client.create_topic("Other")
    await commit(client, 5)
    await commit(client, 2, 1)
    request = UpdateConsumerOffsetRequest(
        consumer_group=GROUP, topic="Other", queue_id=0, commit_offset=7
    )
    await client.ask(request)
    await client.ask(CloneOffsetsRequest(src_group=GROUP, dest_group="one", topic=TOPIC))
    offsets = client.broker.offsets
    assert (offsets.get("one", TOPIC, 0), offsets.get("one", TOPIC, 1)) == (5, 2)
    assert offsets.get("one", "Other", 0) is None
    await client.ask(CloneOffsetsRequest(src_group=GROUP, dest_group="all"))
    assert (offsets.get("all", TOPIC, 0), offsets.get("all", "Other", 0)) == (5, 7)
    rows = client.broker.store.metadata.consumer_offsets()
    assert ("all", "Other", 0, 7) in rows, "saved at once"


async def test_an_unknown_group_is_not_cloned(client: Client) -> None:
    request = CloneOffsetsRequest(src_group="unknown", dest_group=GROUP)
    assert (await client.refusal(request)).code == 26
    request = CloneOffsetsRequest(src_group=GROUP, dest_group="bad name")
    assert (await client.refusal(request)).code == 26
