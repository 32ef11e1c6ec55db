"""Follows a message that a group sent back: to its next attempt, or to the dead letters."""

from __future__ import annotations

from pocketmq.client.explanation.case import Case, Place, Verdict
from pocketmq.client.explanation.searching import records_of
from pocketmq.client.explanation.states import Cause, State
from pocketmq.client.explanation.text import date, span
from pocketmq.client.explanation.waiting import due_ms_of, note_place
from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.messages.message import ReceivedMessage
from pocketmq.protocol.names.names import (
    SCHEDULE_TOPIC,
    TIMER_TOPIC,
    dlq_topic,
    pop_retry_topic,
    pop_retry_topic_v2,
    retry_topic,
)
from pocketmq.runtime.text import counted


def retry_topics(case: Case) -> list[str]:
    """Returns the topics in which the group's next attempts at the message can be."""
    return [
        retry_topic(case.group),
        pop_retry_topic(case.group, case.topic),
        pop_retry_topic_v2(case.group, case.topic),
    ]


async def follow_retries(case: Case, place: Place) -> Place | Verdict:
    """Looks for copies of a message that the group sent back.

    Returns:
        The verdict, if the last copy waits for its time or is a dead letter; otherwise the record
        that the group has to handle now: the copy of the last attempt, or the message itself.
    """
    key = place.message.unique_key
    if key is None:
        case.unknown.append(
            "whether the group sent it back: it has no id of its sender's client to find copies by"
        )
        return place
    last = await _last_copy(case, key)
    if last is None:
        return place
    case.facts.origin = str(place)
    case.facts.attempt = last.reconsume_times
    if last.topic == dlq_topic(case.group):
        return _dead_letter(case, last)
    if last.topic in (SCHEDULE_TOPIC, TIMER_TOPIC):
        return await _waits(case, last)
    case.found(
        Cause.FAILED,
        f"the group sent it back: its attempt number {last.reconsume_times + 1} is in {last.topic} "
        f"since {date(last.store_timestamp)}",
    )
    return Place(last, place.address)


async def _last_copy(case: Case, key: str) -> ReceivedMessage | None:
    topics = retry_topics(case)
    copies = [copy for topic in topics for copy in await records_of(case, topic, key)]
    for topic in (SCHEDULE_TOPIC, TIMER_TOPIC):
        copies += [
            record
            for record in await records_of(case, topic, key)
            if record.properties.get(props.REAL_TOPIC) in topics
        ]
    copies += await records_of(case, dlq_topic(case.group), key)
    # Of one attempt the record that waits is older than the one that was delivered.
    return max(copies, key=lambda c: (c.reconsume_times, c.store_timestamp), default=None)


def _dead_letter(case: Case, copy: ReceivedMessage) -> Verdict:
    note_place(case, copy)
    topic = copy.topic
    case.found(
        Cause.GIVEN_UP,
        f"the group sent it back {counted(copy.reconsume_times, 'time')}, and gave it up "
        f"{date(copy.store_timestamp)}",
        f"look at it: pocketmq message get {copy.offset_msg_id}; mend what fails; send all of "
        f"them again: pocketmq tail '{topic}' -O beginning -e -f json | pocketmq produce "
        f"{case.topic} -f json",
    )
    return Verdict(
        State.DEAD_LETTER,
        f"group {case.group} has given it up: it is in {topic}, offset {copy.queue_offset} of "
        f"queue {copy.queue_id}.",
    )


async def _waits(case: Case, copy: ReceivedMessage) -> Verdict:
    note_place(case, copy)
    due_ms = case.facts.due_ms = await due_ms_of(case, copy)
    times = copy.reconsume_times
    case.found(
        Cause.FAILED,
        f"the group sent it back {counted(times, 'time')}, last {date(copy.store_timestamp)}",
        f"see why its handling fails: the log of its consumer, or pocketmq message trace "
        f"{case.facts.msg_id}",
    )
    seen, when = f"attempt number {times + 1} waits for its time", "a time that is unknown"
    if due_ms is not None:
        left_ms = due_ms - case.clock.now_ms()
        when = f"{date(due_ms)}, in {span(left_ms)}"
        if left_ms <= 0:
            when = f"{date(due_ms)}, {span(-left_ms)} ago; its broker delivers late"
    level = copy.properties.get(props.DELAY)
    case.found(
        Cause.RETRY_DELAY,
        f"{seen}, by delay level {level}",
        "wait; each further attempt waits a level longer, unless the consumer names the level",
    )
    return Verdict(
        State.RETRY_WAIT,
        f"its handling failed: attempt number {times + 1} is due {when}.",
    )
