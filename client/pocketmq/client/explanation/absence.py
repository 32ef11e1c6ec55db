"""Says why no message is found: it never was, or retention removed it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from pocketmq.client.explanation.case import Case, Verdict
from pocketmq.client.explanation.searching import Found, stored_at
from pocketmq.client.explanation.states import Cause, State
from pocketmq.client.explanation.text import date
from pocketmq.protocol.messages.ids import unique_key_month_ms
from pocketmq.protocol.messages.message import MessageQueue

RETENTION_REMEDY = (
    "nothing brings it back, unless it was archived (pocketmq archive). For later ones: a longer "
    "retention, pocketmq broker config set fileReservedTime=HOURS, or consumers that keep up"
)

ID_ERROR_MS = 86_400_000
"""Ids hold the time within the month of their sender's time zone."""


async def explain_absence(case: Case, found: Found) -> Verdict:
    """Decides about a message that is nowhere."""
    if found.asked_at is not None:
        return await _absent_at(case, *found.asked_at)
    made_ms = _made_ms(case)
    if made_ms is not None and (oldest_ms := await _oldest_ms(case)) is not None:
        seen = (
            f"its id was made about {date(made_ms)}, and the oldest message of {case.topic} is of "
            f"{date(oldest_ms)}"
        )
        if made_ms + ID_ERROR_MS < oldest_ms:
            case.found(Cause.RETENTION, seen, RETENTION_REMEDY)
            return Verdict(
                State.REMOVED,
                f"the message is not in {case.topic} any more: retention has removed what is as "
                f"old as its id.",
            )
        case.found(Cause.NO_SUCH_MESSAGE, seen, _search_remedy(case))
    else:
        case.found(
            Cause.NO_SUCH_MESSAGE,
            f"no broker of {case.topic} has a message with this id, delayed ones and open "
            f"transactions included",
            _search_remedy(case),
        )
    return Verdict(
        State.NOT_FOUND, f"there is no message {case.asked} in {case.topic}: nobody can consume it."
    )


def _search_remedy(case: Case) -> str:
    return (
        f"see whether its send succeeded, and whether topic and id are right; by a business key: "
        f"pocketmq message find {case.topic} --key KEY"
    )


async def _absent_at(case: Case, queue: MessageQueue, offset: int) -> Verdict:
    facts = case.facts
    facts.broker, facts.queue_id, facts.offset = queue.broker_name, queue.queue_id, offset
    entries = await case.admin.queue_entries(queue, offset)
    low, high = entries.min_queue_index, entries.max_queue_index
    facts.min_offset, facts.max_offset = low, high
    if offset < low:
        case.found(
            Cause.RETENTION, f"the oldest message of {queue} is at offset {low}", RETENTION_REMEDY
        )
        return Verdict(
            State.REMOVED, f"offset {offset} is not in {queue} any more: retention has removed it."
        )
    case.found(
        Cause.NOT_SENT_YET,
        f"the next message of {queue} gets offset {high}",
        f"see what is there: pocketmq topic stats {case.topic}",
    )
    return Verdict(
        State.NOT_FOUND, f"nothing has been stored at offset {offset} of {queue} so far."
    )


def _made_ms(case: Case) -> int | None:
    """When the id was made, to a day; None if it is not of the form of RocketMQ's clients."""
    month_ms = unique_key_month_ms(case.asked)
    if month_ms is None or stored_at(case) is not None:
        return None
    now = datetime.fromtimestamp(case.clock.now_ms() / 1000, UTC)
    month = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    made = month + timedelta(milliseconds=month_ms)
    if made > now + timedelta(milliseconds=ID_ERROR_MS):
        made = (month - timedelta(days=1)).replace(day=1) + timedelta(milliseconds=month_ms)
    return int(made.timestamp() * 1000)


async def _oldest_ms(case: Case) -> int | None:
    """When the oldest message of the topic was stored; None if that is unknown, or none is left."""
    rows = await case.ask("how old its oldest message is", case.admin.topic_stats(case.topic))
    oldest: list[int] = []
    for row in rows or ():
        if row.count:
            first = await case.ask(
                f"the oldest message of {row.queue}",
                case.admin.message_at(row.queue, row.min_offset),
            )
            oldest += [first.store_timestamp] if first is not None else []
    return min(oldest) if oldest else None
