"""Answers why a message is not consumed by a group."""

from __future__ import annotations

from pocketmq.client.admin import Admin
from pocketmq.client.explanation.absence import explain_absence
from pocketmq.client.explanation.barriers import explain_barriers
from pocketmq.client.explanation.broadcast import explain_broadcast
from pocketmq.client.explanation.case import Case, Place, Verdict
from pocketmq.client.explanation.explanation import Explanation
from pocketmq.client.explanation.members import Members, is_retry, members_of
from pocketmq.client.explanation.ownership import explain_ownership
from pocketmq.client.explanation.passing import (
    explain_filter,
    explain_passed,
    is_passed,
    note_differing,
    note_offsets,
)
from pocketmq.client.explanation.popping import explain_popping
from pocketmq.client.explanation.retries import follow_retries
from pocketmq.client.explanation.searching import find
from pocketmq.client.explanation.waiting import explain_waiting, note_place
from pocketmq.protocol.errors import GroupMissingError, OperatingError
from pocketmq.runtime.clock import Clock, SystemClock


async def explain(
    admin: Admin, topic: str, message: str, group: str, *, clock: Clock | None = None
) -> Explanation:
    """Says why a message is not consumed by a group, or that it is::

        async with Admin("127.0.0.1:9876") as admin:
            explanation = await explain(admin, "Orders", result.msg_id, "billing")
            print(explanation.verdict)

    Nothing is changed, and no message is consumed. What a server does not answer, such as a client
    that does not know the question for its queues, is listed as unknown.

    Args:
        admin: asks the servers; it has been started.
        topic: the topic to which the message was sent.
        message: the id that its sender got (`SendResult.msg_id`), an offset message id, or the
            place as ``BROKER:QUEUE:OFFSET``; with one broker ``QUEUE:OFFSET``.
        group: the consumer group.
        clock: the caller's time, by which waiting times are told.

    Raises:
        UnknownTopicError: no broker has the topic.
        GroupMissingError: no broker has the group.
        UsageError: the message is of another topic, or the place names no broker of the topic.
        OperatingError: a broker that may have the message does not answer.
    """
    # Apache's controller modes aside, the master of each broker name answers for its queues.
    route = await admin.topic_route(topic)
    addresses = {b.broker_name: b.master_address for b in route.broker_datas if b.master_address}
    case = Case(admin, clock or SystemClock(), topic, group, message, addresses)
    await _check_group(case)
    state, sentence = await _verdict(case)
    return Explanation(
        message=message,
        group=group,
        state=state,
        verdict=sentence[:1].upper() + sentence[1:],
        findings=case.findings,
        facts=case.facts,
        unknown=case.unknown,
    )


async def _check_group(case: Case) -> None:
    """Refuses a group that no broker of the topic has."""
    missing: GroupMissingError | None = None
    for address in case.addresses.values():
        try:
            await case.admin.group_configs(case.group, broker_addr=address)
        except GroupMissingError as e:
            missing = e
        except OperatingError as e:
            case.unknown.append(f"whether {address} has group {case.group}: {e}")
            return
        else:
            return
    if missing is not None:
        raise missing


async def _verdict(case: Case) -> Verdict:
    found = await find(case)
    if found.waiting is not None:
        return await explain_waiting(case, found.waiting)
    if found.place is None:
        return await explain_absence(case, found)
    note_place(case, found.place.message)
    members = await members_of(case)
    if members.broadcasts:
        return await explain_broadcast(case, found.place, members)
    place = await follow_retries(case, found.place)
    if isinstance(place, Verdict):
        return place
    return await _at(case, place, members)


async def _at(case: Case, place: Place, members: Members) -> Verdict:
    """Decides about a record that is in a queue of the group's, not in one of waiting messages."""
    note_place(case, place.message)
    await note_offsets(case, place)
    if not is_retry(place.queue.topic):
        note_differing(case, members)
        if verdict := explain_filter(case, place, members):
            return verdict
    if is_passed(case, place):
        return await explain_passed(case, place, members)
    if verdict := await explain_barriers(case, place):
        return verdict
    if members.pops:
        return await explain_popping(case, place, members)
    return explain_ownership(case, place, members)
