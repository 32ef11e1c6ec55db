"""Says of a message of a group that pops what brokers tell: popped until when, or not yet."""

from __future__ import annotations

from pocketmq.client.explanation.case import Case, Place, Verdict
from pocketmq.client.explanation.members import Members
from pocketmq.client.explanation.states import Cause, State
from pocketmq.client.explanation.text import date, span
from pocketmq.protocol.bodies.popping import PoppedQueue
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import ResponseError
from pocketmq.runtime.text import counted


async def explain_popping(case: Case, place: Place, members: Members) -> Verdict:
    """Decides about a record that a group that pops is not past.

    Any member may pop of any queue, and the committed offset is that of the first message that is
    popped and not acknowledged. PocketMQ's brokers tell which messages are popped (31060); no
    request of RocketMQ does.
    """
    queue, is_told = await _popped_queue(case, place)
    offset = place.message.queue_offset
    if queue is not None and offset in queue.offsets:
        return _in_flight(case, queue, offset)
    if queue is not None and offset < queue.next_offset and not queue.is_ordered:
        case.found(
            Cause.POP,
            f"the group has popped it and is done with it, while {counted(queue.count, 'message')} "
            f"of {place.queue} are in flight, at least one of them before it",
        )
        return Verdict(
            State.CONSUMED, f"group {case.group} has acknowledged it, before earlier messages."
        )
    waited = span(case.facts.waited_ms or 0)
    ahead = counted(case.facts.ahead or 0, "message")
    case.found(
        Cause.POP,
        f"the group pops, with {counted(len(members.all), 'member')}; {ahead} before it in "
        f"{place.queue} are not acknowledged, or not popped",
        "see that members pop and acknowledge: their logs. What is not acknowledged in its "
        "invisible time comes again from the retry topic",
    )
    if is_told:
        return Verdict(
            State.WAITING,
            f"group {case.group} has not popped it: it has been in {place.queue} for {waited}.",
        )
    case.unknown.append(
        "whether it is popped now, and until when it is invisible: RocketMQ's brokers tell that of "
        "no single message"
    )
    return Verdict(
        State.WAITING,
        f"group {case.group} has not acknowledged it: it has been in {place.queue} for {waited}, "
        f"waiting to be popped, or popped and invisible.",
    )


async def _popped_queue(case: Case, place: Place) -> tuple[PoppedQueue | None, bool]:
    """Asks for the message's queue; tells, too, whether the broker answers such questions."""

    async def query() -> list[PoppedQueue] | None:
        try:
            return await case.admin.in_flight(
                case.group,
                place.queue.topic,
                place.address,
                queue_id=place.queue.queue_id,
                offset=place.message.queue_offset,
                count_max=1,
            )
        except ResponseError as e:
            if e.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                return None
            raise

    queues = await case.ask("whether it is popped now, and until when it is invisible", query())
    return (queues[0] if queues else None), queues is not None


def _in_flight(case: Case, queue: PoppedQueue, offset: int) -> Verdict:
    at = queue.offsets.index(offset)
    due_ms, popped_ms = queue.due_ms[at], queue.pop_ms[at]
    case.facts.due_ms = due_ms
    left_ms = due_ms - case.clock.now_ms()
    order = ", and its queue is blocked until then: the group pops in order" * queue.is_ordered
    case.found(
        Cause.POP,
        f"a member has popped it, or set its invisible time, at {date(popped_ms)}; it is invisible "
        f"to the others until {date(due_ms)}{order}",
        "wait; if the member does not acknowledge it by then, it comes again, as another attempt",
    )
    until = f"for {span(left_ms)} more" if left_ms > 0 else "no more"
    return Verdict(
        State.BEING_HANDLED,
        f"a member of group {case.group} has popped it, and has not acknowledged it: it is "
        f"invisible to the others until {date(due_ms)}, {until}.",
    )
