"""Dead letters and redrives, as clients make and ask for them."""

from __future__ import annotations

from typing import Any

from support.brokers.broker_parts import GROUP, TOPIC, Client, Refusal

from pocketmq.protocol.bodies.redrives import (
    LetterCounts,
    LetterResult,
    LetterSelection,
    LetterTable,
    Redrive,
    RedriveList,
    RedriveOrder,
    RedrivePlan,
    RedriveStart,
    ResultPage,
)
from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.messages.message import ReceivedMessage
from pocketmq.protocol.names.names import dlq_topic, retry_topic
from pocketmq.protocol.requests.consuming import ConsumerSendMsgBackRequest
from pocketmq.protocol.requests.extensions.redrives import (
    ChangeRedriveRequest,
    DeadLetterStatesRequest,
    ListRedrivesRequest,
    PlanRedriveRequest,
    RedriveResultsRequest,
    StartRedriveRequest,
)

RETRY, DEAD = retry_topic(GROUP), dlq_topic(GROUP)


def ordered(**fields: Any) -> RedriveOrder:
    """An order for all open dead letters, without a rate, but for the fields given."""
    selection = fields.pop("selection", {})
    given: dict[str, Any] = {
        "group": GROUP, "rate": 0.0, "selection": LetterSelection(**selection),
    }  # fmt: skip
    return RedriveOrder(**(given | fields))


async def die(client: Client, body: bytes = b"body", **properties: str) -> ReceivedMessage:
    """Sends a message and gives it up; returns the dead letter."""
    text = props.encode({"UNIQ_KEY": f"U-{body.decode()}", **properties})
    sent = await client.send(body, properties=text)
    (message,) = (await client.pull(sent.queue_offset)).messages[:1]
    await client.ask(
        ConsumerSendMsgBackRequest(
            offset=message.physical_offset, group=GROUP, delay_level=-1, origin_topic=TOPIC,
            max_reconsume_times=16,
        )
    )  # fmt: skip
    return (await client.everything(topic=DEAD))[-1]


async def planned(client: Client, order: RedriveOrder) -> RedrivePlan:
    """The plan of an order."""
    request = PlanRedriveRequest(group=order.group, topic=order.to or None)
    return RedrivePlan.decode((await client.ask(request, order.encode(quote_keys=True))).body)


async def refused_plan(client: Client, order: RedriveOrder) -> Refusal:
    """The refusal of an order."""
    request = PlanRedriveRequest(group=order.group, topic=order.to or None)
    return await client.refusal(request, order.encode(quote_keys=True))


def start_of(plan: RedrivePlan, redrive_id: str = "r1") -> tuple[StartRedriveRequest, bytes]:
    """What starts a plan."""
    order = plan.order
    start = RedriveStart(redrive_id=redrive_id, order=order, plan_id=plan.plan_id, ends=plan.ends)
    request = StartRedriveRequest(group=order.group, topic=order.to or None)
    return request, start.encode(quote_keys=True)


async def started(client: Client, order: RedriveOrder, redrive_id: str = "r1") -> Redrive:
    """A redrive that is planned and begun."""
    plan = await planned(client, order)
    return Redrive.decode((await client.ask(*start_of(plan, redrive_id))).body)


async def redrives_of(client: Client, group: str = GROUP) -> list[Redrive]:
    """The redrives of a group, the newest first."""
    answer = await client.ask(ListRedrivesRequest(group=group))
    return RedriveList.decode(answer.body).redrives


async def ended(client: Client, redrive_id: str = "r1") -> Redrive:
    """A redrive when it has stopped."""
    for _ in range(10_000):
        redrive = next(r for r in await redrives_of(client) if r.redrive_id == redrive_id)
        if redrive.state != "running":
            return redrive
    raise AssertionError(f"it does not end: {redrive}")


async def redriven(client: Client, order: RedriveOrder, redrive_id: str = "r1") -> Redrive:
    """A redrive from its plan to its end."""
    await started(client, order, redrive_id)
    return await ended(client, redrive_id)


async def changed(client: Client, change: str, redrive_id: str = "r1") -> Redrive:
    """A redrive after a change."""
    request = ChangeRedriveRequest(group=GROUP, redrive_id=redrive_id, change=change)
    return Redrive.decode((await client.ask(request)).body)


async def results_of(client: Client, redrive_id: str = "r1") -> list[LetterResult]:
    """All results of a redrive."""
    out: list[LetterResult] = []
    begin = -1
    while True:
        request = RedriveResultsRequest(group=GROUP, redrive_id=redrive_id, begin=begin)
        page = ResultPage.decode((await client.ask(request)).body)
        out += page.results
        if page.next < 0:
            return out
        begin = page.next


async def counts_of(client: Client, **fields: Any) -> LetterCounts:
    """The dead letters of the group."""
    answer = await client.ask(DeadLetterStatesRequest(group=GROUP, **fields))
    (counts,) = LetterTable.decode(answer.body).groups
    return counts
