"""Says whether the group is past a message, and whether its filter takes the message at all."""

from __future__ import annotations

from pocketmq.client.errors import UnknownTopicError
from pocketmq.client.explanation.case import Case, Place, Verdict
from pocketmq.client.explanation.members import Members, expressions_of, words_of
from pocketmq.client.explanation.states import Cause, State
from pocketmq.client.explanation.text import date
from pocketmq.protocol.bodies.clients import CONSUME_FROM_FIRST_OFFSET, Subscription
from pocketmq.protocol.errors import UsageError
from pocketmq.protocol.filters import Expression, compile_filter
from pocketmq.protocol.messages.message import ReceivedMessage
from pocketmq.protocol.messages.message_json import NOT_SENT_AGAIN
from pocketmq.protocol.messages.properties import WAIT, java_hash
from pocketmq.protocol.messages.trace import SubAfterTrace, TraceRecord


async def note_offsets(case: Case, place: Place) -> None:
    """Notes where the queue begins and ends, and where the group continues."""
    facts, queue = case.facts, place.queue
    entries = await case.ask(
        f"where {queue} begins and ends", case.admin.queue_entries(queue, place.offset)
    )
    if entries is not None:
        facts.min_offset, facts.max_offset = entries.min_queue_index, entries.max_queue_index
    committed = await case.ask(
        f"where the group continues in {queue}", case.admin.committed_offset(case.group, queue)
    )
    facts.committed_offset = committed
    begin = max(committed or 0, facts.min_offset or 0)
    facts.ahead = max(place.offset - begin, 0)
    if facts.max_offset is not None:
        facts.lag = max(facts.max_offset - begin, 0)


def is_passed(case: Case, place: Place) -> bool:
    """Whether the committed offset of the group is past a record."""
    committed = case.facts.committed_offset
    return committed is not None and committed > place.offset


def subscription_at(place: Place, members: Members) -> Subscription | None:
    """Returns the group's subscription at the broker of a message, or else at another one."""
    known = members.subscriptions
    return known.get(place.address) or next(iter(known.values()), None)


def takes(subscription: Subscription, message: ReceivedMessage) -> bool | None:
    """Whether a subscription takes a message; None if its expression cannot be read."""
    try:
        chosen = compile_filter(subscription.expression_type, subscription.sub_string, strict=False)
    except UsageError:
        return None
    if chosen is None:
        return True
    if isinstance(chosen, Expression):
        return chosen.matches(message.properties)
    # As consumers do: brokers compare the hashes only, and members then the tags.
    wanted = {tag.strip() for tag in subscription.sub_string.split("||")}
    return java_hash(message.tags or "") in chosen and (message.tags or "") in wanted


def explain_filter(case: Case, place: Place, members: Members) -> Verdict | None:
    """Decides about a message that the group's filter does not take."""
    subscription = subscription_at(place, members)
    if subscription is None:
        return None
    case.facts.subscription = words_of(subscription)
    if takes(subscription, place.message) is not False:
        return None
    message = place.message
    tag = f"the tag {message.tags!r}" if message.tags else "no tag"
    if subscription.expression_type == "SQL92":
        tag = "the properties " + (
            ", ".join(f"{name}={value}" for name, value in sorted(_own_properties(message).items()))
            or "(none of its own)"
        )
    case.found(
        Cause.FILTER,
        f"the group subscribes to {case.topic} with {words_of(subscription)}, and the message has "
        f"{tag}",
        f"consume it with another group; or have all members of {case.group} subscribe to it, and "
        f"reset the group if it is past it: {reset_command(case, place)}",
    )
    return Verdict(
        State.FILTERED,
        f"the subscription of group {case.group} does not take it: {words_of(subscription)}, and "
        f"the message has {tag}.",
    )


def _own_properties(message: ReceivedMessage) -> dict[str, str]:
    return {k: v for k, v in message.properties.items() if k not in NOT_SENT_AGAIN | {WAIT}}


def reset_command(case: Case, place: Place) -> str:
    """Returns the command that puts the group to a record."""
    queue = place.queue
    return (
        f"pocketmq group reset {case.group} --topic '{queue.topic}' --to {place.offset} "
        f"--queue {queue.broker_name}:{queue.queue_id}"
    )


def note_differing(case: Case, members: Members) -> None:
    """Notes that members subscribe differently; the last heartbeat wins at the broker."""
    sides = expressions_of(case, members)
    if len(sides) < 2:
        return
    texts = [
        f"[{text or 'not subscribed'}] by {', '.join(str(member) for member in those)}"
        for text, those in sorted(sides.items())
    ]
    case.found(
        Cause.SUBSCRIPTIONS_DIFFER,
        f"members subscribe to {case.topic} differently: {'; '.join(texts)}. The broker goes by "
        f"the last one that it heard of, and queues are shared out as if all were alike",
        "give all members of the group the same topics and filters, or each kind a group of its "
        "own",
    )


async def explain_passed(case: Case, place: Place, members: Members) -> Verdict:
    """Decides about a message that the group is past, and that no copy or filter explains."""
    committed, attempt = case.facts.committed_offset, case.facts.attempt
    handled = [r for r in await _traces(case) if isinstance(r, SubAfterTrace)]
    for record in handled:
        when = f" {date(record.time_ms)}" if record.time_ms else ""
        how = "successfully" if record.is_success else "without success"
        case.found(Cause.TRACE, f"a member traced that it handled it {how}{when}")
    case.found(
        Cause.OFFSET_PASSED,
        f"the group's committed offset in {place.queue} is {committed}, the message is at "
        f"{place.offset}",
        f"if the group is to have it again, and all behind it: {reset_command(case, place)}",
    )
    if not any(record.is_success for record in handled):
        case.found(Cause.OFFSET_ONLY, _doubt(members), _trace_remedy(case))
    times = f" at attempt number {attempt + 1}" if attempt else ""
    return Verdict(State.CONSUMED, f"group {case.group} has consumed it{times}: it is past it.")


def _doubt(members: Members) -> str:
    begin = members.consume_from_where
    start = (
        f", or when it first started, as its members say {begin}"
        if begin not in (None, CONSUME_FROM_FIRST_OFFSET)
        else ""
    )
    filters = (
        "" if members.all else "; or its filter left it out, which is unknown without its members"
    )
    return (
        f"brokers keep the offset only: the group may also have been put behind the message by a "
        f"reset{start}{filters}"
    )


def _trace_remedy(case: Case) -> str:
    return (
        f"consumers with traces tell what they handled: pocketmq message trace "
        f"{case.facts.msg_id or case.asked}"
    )


async def _traces(case: Case) -> list[TraceRecord]:
    if case.facts.msg_id is None:
        return []

    async def query(msg_id: str) -> list[TraceRecord]:
        try:
            return await case.admin.message_trace(msg_id)
        except UnknownTopicError:
            return []

    found = await case.ask("what members traced", query(case.facts.msg_id)) or []
    return [record for record in found if getattr(record, "group", None) == case.group]
