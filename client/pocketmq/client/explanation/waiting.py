"""Says of a message that is not in its topic yet what it waits for: a time, or a transaction."""

from __future__ import annotations

from pocketmq.client.explanation.case import Case, Verdict
from pocketmq.client.explanation.states import Cause, State
from pocketmq.client.explanation.text import date, span
from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.messages.message import MessageQueue, ReceivedMessage
from pocketmq.protocol.names.names import HALF_TOPIC, SCHEDULE_TOPIC


async def explain_waiting(case: Case, record: ReceivedMessage) -> Verdict:
    """Decides about a message that waits for a time, or for the end of its transaction."""
    note_place(case, record)
    if record.topic == HALF_TOPIC:
        return _half(case, record)
    due_ms = case.facts.due_ms = await due_ms_of(case, record)
    level = record.properties.get(props.DELAY)
    how = f"with delay level {level}" if record.topic == SCHEDULE_TOPIC else "with a time"
    if due_ms is None:
        case.found(Cause.DELAY, f"it was sent {how}, and is not in {case.topic}")
        return Verdict(State.DELAYED, f"it is a delayed message that is not in {case.topic} yet.")
    left_ms = due_ms - case.clock.now_ms()
    seen = f"it was sent {how}, and is to be in {case.topic} at {date(due_ms)}"
    if left_ms <= 0:
        case.found(
            Cause.DELAY,
            f"{seen}, {span(-left_ms)} ago",
            "the broker delivers late, or the message was recalled: pocketmq doctor",
        )
        return Verdict(
            State.DELAYED,
            f"it is delayed and was due {span(-left_ms)} ago, but is not in {case.topic}.",
        )
    case.found(Cause.DELAY, seen, _recall_remedy(record))
    return Verdict(
        State.DELAYED,
        f"it is delayed: no consumer sees it before {date(due_ms)}, in {span(left_ms)}.",
    )


def _recall_remedy(record: ReceivedMessage) -> str:
    if record.topic == SCHEDULE_TOPIC:
        return "wait: what was sent with a delay level cannot be called back"
    return (
        f"wait; or call it back, with the handle that its send got: pocketmq recall "
        f"{record.properties.get(props.REAL_TOPIC)} HANDLE"
    )


def note_place(case: Case, record: ReceivedMessage) -> None:
    """Notes in the facts where a record is."""
    facts = case.facts
    facts.topic, facts.broker, facts.queue_id = record.topic, record.broker_name, record.queue_id
    facts.offset, facts.offset_msg_id = record.queue_offset, record.offset_msg_id
    facts.msg_id, facts.tags = record.unique_key, record.tags
    facts.stored_ms = record.store_timestamp
    facts.waited_ms = max(case.clock.now_ms() - record.store_timestamp, 0)


async def due_ms_of(case: Case, record: ReceivedMessage) -> int | None:
    """Returns when a delayed record is due; None if its broker does not say.

    PocketMQ's brokers write the time into the record. Timers have it in a property, too, and
    Apache's delay levels keep it as the tags code of the index entry (`computeDeliverTimestamp`).
    """
    if record.prepared_transaction_offset > 0:
        return record.prepared_transaction_offset
    if (text := record.properties.get(props.TIMER_OUT_MS, "")).isdecimal():
        return int(text)
    queue = MessageQueue(record.topic, record.broker_name, record.queue_id)
    entries = await case.ask("when it is due", case.admin.queue_entries(queue, record.queue_offset))
    if entries is None or not entries.queue_data:
        return None
    return entries.queue_data[0].tags_code


def _half(case: Case, record: ReceivedMessage) -> Verdict:
    times = record.properties.get(props.TRANSACTION_CHECK_TIMES, "0")
    group = record.properties.get(props.PRODUCER_GROUP)
    case.found(
        Cause.OPEN_TRANSACTION,
        f"it is a half message of producer group {group}, stored {date(record.store_timestamp)}; "
        f"checks of the transaction by the broker so far: {times}. If it was rolled back, the half "
        f"message stays until retention takes it, and is never delivered",
        f"commit the transaction, or have a producer of group {group} connected that knows how it "
        f"ended: the broker asks it, and gives up after the last check (transactionCheckMax)",
    )
    return Verdict(
        State.HALF,
        "it is a half message of a transaction that was not committed: no consumer sees it.",
    )
