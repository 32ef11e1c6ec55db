"""Says of a message of a group that pops what brokers tell: where its group stands."""

from __future__ import annotations

from pocketmq.client.explanation.case import Case, Place, Verdict
from pocketmq.client.explanation.members import Members
from pocketmq.client.explanation.states import Cause, State
from pocketmq.client.explanation.text import span
from pocketmq.runtime.text import counted


def explain_popping(case: Case, place: Place, members: Members) -> Verdict:
    """Decides about a record that a group that pops is not past.

    Any member may pop of any queue, and the committed offset is that of the first message that is
    popped and not acknowledged. No request of RocketMQ tells of one message whether it is popped.
    """
    waited = span(case.facts.waited_ms or 0)
    ahead = counted(case.facts.ahead or 0, "message")
    case.found(
        Cause.POP,
        f"the group pops, with {counted(len(members.all), 'member')}; {ahead} before it in "
        f"{place.queue} are not acknowledged, or not popped",
        "see that members pop and acknowledge: their logs. What is not acknowledged in its "
        "invisible time comes again from the retry topic",
    )
    case.unknown.append(
        "whether it is popped now, and until when it is invisible: brokers tell that of no single "
        "message"
    )
    return Verdict(
        State.WAITING,
        f"group {case.group} has not acknowledged it: it has been in {place.queue} for {waited}, "
        f"waiting to be popped, or popped and invisible.",
    )
