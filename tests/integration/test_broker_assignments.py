"""Which member consumes which queues, and whether by pulls or by pops."""

from __future__ import annotations

from support.brokers.broker_parts import GROUP, TOPIC, Client, Stage

from pocketmq.protocol.bodies.clients import BROADCASTING, CLUSTERING, Subscription
from pocketmq.protocol.bodies.popping import (
    POP,
    PULL,
    AssignedQueues,
    Assignment,
    RequestMode,
    RequestModes,
)
from pocketmq.protocol.names.names import retry_topic
from pocketmq.protocol.requests.popping import (
    AllRequestModesRequest,
    QueryAssignmentRequest,
    SetRequestModeRequest,
)


async def member(stage: Stage, first: Client, client_id: str) -> None:
    await stage.client(first.broker).heartbeat(
        Subscription(topic=TOPIC, sub_string="*"), client_id=client_id
    )


async def assigned(
    client: Client,
    client_id: str,
    topic: str = TOPIC,
    strategy: str = "AVG",
    message_model: str = CLUSTERING,
) -> tuple[set[str], list[int]]:
    """The modes and the queue ids of a member's assignment."""
    body = Assignment(
        topic=topic,
        consumer_group=GROUP,
        client_id=client_id,
        strategy_name=strategy,
        message_model=message_model,
    )
    answer = await client.ask(QueryAssignmentRequest(), body.encode())
    found = AssignedQueues.decode(answer.body).message_queue_assignments
    return {one.mode for one in found}, [one.message_queue.queue_id for one in found]


async def set_mode(client: Client, mode: str, share: int = 0, topic: str = TOPIC) -> None:
    body = RequestMode(topic=topic, consumer_group=GROUP, mode=mode, pop_share_queue_num=share)
    await client.ask(SetRequestModeRequest(), body.encode())


async def test_members_share_the_queues_that_they_pull(client: Client, stage: Stage) -> None:
    for client_id in ("a", "b"):
        await member(stage, client, client_id)
    assert await assigned(client, "a") == ({PULL}, [0, 1])
    assert await assigned(client, "b") == ({PULL}, [2, 3])
    assert await assigned(client, "b", strategy="AVG_BY_CIRCLE") == ({PULL}, [1, 3])
    assert await assigned(client, "a", message_model=BROADCASTING) == ({PULL}, [0, 1, 2, 3])
    nothing = (set[str](), list[int]())
    assert await assigned(client, "a", strategy="OTHER") == nothing
    assert await assigned(client, "stranger") == nothing
    assert await assigned(client, "a", topic="nowhere") == nothing


async def test_members_that_pop_share_all_queues_or_those_of_neighbours(
    client: Client, stage: Stage
) -> None:
    for client_id in ("a", "b", "c", "d"):
        await member(stage, client, client_id)
    await set_mode(client, POP)
    assert await assigned(client, "a") == ({POP}, [-1])
    await set_mode(client, POP, share=1)
    assert await assigned(client, "a") == ({POP}, [0, 1])
    assert await assigned(client, "d") == ({POP}, [3, 0])
    await member(stage, client, "e")
    assert await assigned(client, "e") == ({POP}, [0]), "more members than queues"
    assert await assigned(client, "a", topic=retry_topic(GROUP)) == ({PULL}, [0])


async def test_modes_outlive_a_restart(stage: Stage) -> None:
    client = await stage.started_with_topic()
    client.make_group()
    await set_mode(client, POP, share=2)
    await client.broker.close()
    client = await stage.start()
    answer = await client.ask(AllRequestModesRequest())
    (mode,) = RequestModes.decode(answer.body).message_request_mode_map[TOPIC].values()
    assert (mode.mode, mode.pop_share_queue_num) == (POP, 2)


async def test_modes_that_make_no_sense(client: Client) -> None:
    client.make_group()

    async def code(topic: str = TOPIC, group: str = GROUP, mode: str = POP) -> int:
        body = RequestMode(topic=topic, consumer_group=group, mode=mode)
        return (await client.refusal(SetRequestModeRequest(), body.encode())).code

    assert await code(topic=retry_topic(GROUP)) == 16
    assert await code(topic="nowhere") == 17
    assert await code(group="nobody") == 26
    assert await code(mode="PUSH") == 29
