"""Says of a message of a group that broadcasts which members are past it."""

from __future__ import annotations

from pocketmq.client.explanation.case import Case, Place, Verdict
from pocketmq.client.explanation.members import Members
from pocketmq.client.explanation.passing import explain_filter
from pocketmq.client.explanation.states import Cause, State
from pocketmq.protocol.bodies.topics import QueueKey


async def explain_broadcast(case: Case, place: Place, members: Members) -> Verdict:
    """Decides about a message of which each member of the group gets a copy of its own.

    Such members keep their offsets in files of their own, and retry nothing.
    """
    if verdict := explain_filter(case, place, members):
        return verdict
    offsets = await case.ask(
        "where the members are", case.admin.consumer_status(case.group, case.topic)
    )
    queue = place.queue
    key = QueueKey(queue.broker_name, queue.queue_id, queue.topic)
    past = behind = 0
    for member in members.all:
        at = (offsets or {}).get(member.client_id, {}).get(key)
        if at is None:
            case.found(Cause.BROADCASTING, f"{member} does not say where it is in {queue}")
        elif at > place.offset:
            past += 1
            case.found(Cause.BROADCASTING, f"{member} is past it, at offset {at} of {queue}")
        else:
            behind += 1
            case.found(
                Cause.BROADCASTING,
                f"{member} is at offset {at} of {queue}, the message is at {place.offset}",
                "see what its listener does: its log",
            )
    return Verdict(
        State.BROADCAST,
        f"group {case.group} broadcasts: of {len(members.all)} connected members {past} are past "
        f"it, {behind} are not; offsets are kept by the members.",
    )
