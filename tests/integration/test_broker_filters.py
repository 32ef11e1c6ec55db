"""SQL92 filters in the broker: pulls by content, and errors where they are made."""

from __future__ import annotations

from support.brokers.broker_parts import TOPIC, Client, pull_request

from pocketmq.protocol.bodies.clients import SQL92, CheckClientConfigBody, Subscription
from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.requests.clients import CheckClientConfigRequest
from pocketmq.protocol.requests.pulling import PULL_SUBSCRIPTION, PULL_SUSPEND

SYNTAX_ERROR = 23
RETRY_IMMEDIATELY = 20


async def send_priced(client: Client, *prices: int) -> None:
    for price in prices:
        await client.send(str(price).encode(), properties=props.encode({"price": str(price)}))


async def test_messages_are_chosen_by_their_properties(client: Client) -> None:
    await send_priced(client, 5, 50, 7, 70)
    pull = await client.pull(subscription="price > 10", expression_type=SQL92)
    assert pull.bodies == [b"50", b"70"]
    none = await client.pull(subscription="price > 100", expression_type=SQL92)
    assert none.found == (RETRY_IMMEDIATELY, 4)
    every = await client.pull(subscription="price BETWEEN 5 AND 70", expression_type=SQL92)
    assert every.bodies == [b"5", b"50", b"7", b"70"]


async def test_tags_are_a_property(client: Client) -> None:
    await client.send(b"a", properties=props.encode({"TAGS": "A", "n": "1"}))
    await client.send(b"b", properties=props.encode({"TAGS": "B", "n": "1"}))
    pull = await client.pull(subscription="TAGS = 'B' AND n = 1", expression_type=SQL92)
    assert pull.bodies == [b"b"]


async def test_a_pull_waits_for_a_message_that_matches(client: Client) -> None:
    held = await client.hold(
        subscription="price > 10",
        expression_type=SQL92,
        sys_flag=PULL_SUBSCRIPTION | PULL_SUSPEND,
    )
    await send_priced(client, 1, 2)
    assert not held.done()
    await send_priced(client, 30)
    assert (await held).bodies == [b"30"]


async def test_a_syntax_error_is_told_at_once(client: Client) -> None:
    code, remark = await client.refusal(pull_request(subscription="price >", expression_type=SQL92))
    assert code == SYNTAX_ERROR
    assert "character 8" in remark
    wrong = Subscription(topic=TOPIC, sub_string="price LIKE 'a'", expression_type=SQL92)
    asked = CheckClientConfigBody(subscription_data=wrong).encode()
    assert (await client.refusal(CheckClientConfigRequest(), asked)).code == SYNTAX_ERROR
    right = Subscription(topic=TOPIC, sub_string="price > 1", expression_type=SQL92)
    await client.ask(
        CheckClientConfigRequest(), CheckClientConfigBody(subscription_data=right).encode()
    )


async def test_the_group_s_expression_counts_without_one_in_the_pull(client: Client) -> None:
    await send_priced(client, 5, 50)
    await client.heartbeat(
        Subscription(topic=TOPIC, sub_string="price > 10", expression_type=SQL92, sub_version=1)
    )
    assert (await client.pull(sys_flag=0)).bodies == [b"50"]


async def test_an_unknown_type_is_refused(client: Client) -> None:
    code, remark = await client.refusal(pull_request(subscription="x", expression_type="XPATH"))
    assert code == 1
    assert "XPATH" in remark
