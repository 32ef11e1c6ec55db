"""Says which member has the queue of a record, and what that member does with it."""

from __future__ import annotations

from pocketmq.client.explanation.case import Case, Place, Verdict
from pocketmq.client.explanation.members import Member, Members, is_retry
from pocketmq.client.explanation.states import Cause, State
from pocketmq.client.explanation.text import date, span
from pocketmq.protocol.bodies.groups import PROP_CONSUME_ORDERLY, ProcessQueueInfo
from pocketmq.runtime.text import counted

NOT_PULLING_MS = 120_000
"""A queue not pulled for so long is not pulled at all (`ProcessQueue.PULL_MAX_IDLE_TIME`)."""

MEBIBYTE = 1024 * 1024

LOCK_REMEDY = (
    "wait: another client may still hold the lock, which the broker lends for 60 s, such as a "
    "member that was killed, or one that is at work on a batch. Afterwards it is taken within 20 s"
)


def explain_ownership(case: Case, place: Place, members: Members) -> Verdict:
    """Decides about a record that the group may read and is not past."""
    waits = _waits(case, place)
    if members.known and not members.all:
        case.found(
            Cause.NO_MEMBER,
            f"no consumer of group {case.group} is connected",
            f"start its consumers, and see that they use this name and this cluster: pocketmq "
            f"group show {case.group}",
        )
        _note_backlog(case, place)
        return Verdict(State.WAITING, f"no member of group {case.group} is connected: {waits}.")
    owners = [(m, q) for m in members.all if (q := m.queue(place)) is not None]
    if not owners:
        return _unowned(case, place, members, waits)
    owner, queue = next(((m, q) for m, q in owners if not q.droped), owners[0])
    _note_owner(case, owner, queue)
    if len(owners) > 1:
        case.found(
            Cause.NO_OWNER,
            f"several members say that they have {place.queue}: "
            f"{', '.join(str(member) for member, _ in owners)}",
            "while members come or go that passes within a minute; otherwise they allocate queues "
            "by different strategies, or see different members",
        )
    return _owned(case, place, owner, queue, waits)


def _waits(case: Case, place: Place) -> str:
    waited = span(case.facts.waited_ms or 0)
    ahead = case.facts.ahead or 0
    before = f", {counted(ahead, 'message')} before it" if ahead else ""
    return f"it has waited in {place.queue} for {waited}{before}"


def _note_backlog(case: Case, place: Place) -> None:
    facts = case.facts
    committed = facts.committed_offset
    where = (
        "it has never committed an offset there" if committed is None else f"it is at {committed}"
    )
    case.found(
        Cause.BACKLOG,
        f"the group is {counted(facts.lag or 0, 'message')} behind in {place.queue}: {where}, the "
        f"message is at {place.offset}, and {facts.max_offset} comes next",
    )


def _note_owner(case: Case, owner: Member, queue: ProcessQueueInfo) -> None:
    facts = case.facts
    facts.owner_id, facts.owner_address = owner.client_id, owner.address
    facts.cached_count = queue.cached_msg_count
    if queue.cached_msg_count:
        facts.cached_from = queue.cached_msg_min_offset
        facts.cached_to = queue.cached_msg_max_offset
    facts.owner_pulled_ms = queue.last_pull_timestamp or None
    facts.owner_handled_ms = queue.last_consume_timestamp or None


def _unowned(case: Case, place: Place, members: Members, waits: str) -> Verdict:
    group, topic = case.group, case.topic
    if not members.known:
        return Verdict(State.UNKNOWN, f"{waits}; who consumes it is unknown.")
    if not members.subscriptions and not is_retry(place.queue.topic):
        case.found(
            Cause.NOT_SUBSCRIBED,
            f"{counted(len(members.all), 'member')} of group {group} are connected, and none "
            f"subscribes to {topic}",
            f"subscribe to {topic} in the consumer, or start one that does: pocketmq group show "
            f"{group}",
        )
        return Verdict(State.WAITING, f"no member of group {group} subscribes to {topic}: {waits}.")
    if silent := members.silent:
        case.found(
            Cause.NO_OWNER,
            f"no member that answers has {place.queue}; "
            f"{', '.join(str(member) for member in silent)} did not answer",
            "clients that know no such question (307) cannot be asked: see their logs",
        )
        return Verdict(
            State.UNKNOWN,
            f"{waits}; which member has its queue is unknown, as not all of them answer.",
        )
    if any(_is_ordered(member) for member in members.all):
        case.found(
            Cause.NOT_LOCKED,
            f"members of group {group} consume in order, and none of the "
            f"{len(members.all)} that are connected has locked {place.queue} at its broker",
            LOCK_REMEDY,
        )
        return Verdict(State.WAITING, f"no member of group {group} has locked its queue: {waits}.")
    case.found(
        Cause.NO_OWNER,
        f"{counted(len(members.all), 'member')} of group {group} are connected, and none has "
        f"{place.queue}",
        "after a member came or went queues are shared out within 20 s: ask again. Otherwise "
        "members subscribe to different topics, or allocate by strategies that leave queues out "
        "(a machine room, a configuration): the log of each member tells its queues",
    )
    return Verdict(State.WAITING, f"no member of group {group} has its queue: {waits}.")


def _owned(case: Case, place: Place, owner: Member, queue: ProcessQueueInfo, waits: str) -> Verdict:
    if queue.cached_msg_count and queue.cached_msg_max_offset >= place.offset:
        if queue.cached_msg_min_offset <= place.offset:
            return _held(case, owner, queue, place)
        return _not_committed(case, owner, queue.cached_msg_min_offset)
    if not queue.cached_msg_count and queue.commit_offset > place.offset:
        return _not_committed(case, owner, queue.commit_offset)
    if queue.droped:
        case.found(
            Cause.QUEUE_DROPPED,
            f"{owner} has given the queue up, and no other member has it yet",
            "wait for the next sharing-out, at most 20 s; then ask again",
        )
        return Verdict(State.WAITING, f"its queue changes owners: {waits}.")
    if _is_unlocked(owner, queue):
        case.found(
            Cause.NOT_LOCKED,
            f"{owner} consumes in order, and has not locked {place.queue} at its broker: it hands "
            f"out nothing of it",
            LOCK_REMEDY,
        )
        return Verdict(State.WAITING, f"its queue is not locked by its owner: {waits}.")
    if limit := _limit(owner, queue):
        case.found(
            Cause.FLOW_CONTROL,
            f"{owner} pulls no more of the queue: {limit}",
            "it goes on when its listener has finished some: see what that does (jstack, or "
            "`Admin.running_info` with stacks), make it faster, or raise the limit",
        )
        return Verdict(State.WAITING, f"its owner is at its limits and pulls no more: {waits}.")
    idle_ms = case.clock.now_ms() - queue.last_pull_timestamp
    if idle_ms > NOT_PULLING_MS:
        last = f"since {date(queue.last_pull_timestamp)}" if queue.last_pull_timestamp else "so far"
        case.found(
            Cause.NOT_PULLING,
            f"{owner} has the queue, and has not pulled it {last}",
            "it is paused, or hangs: resume it, or see its log; restarted, it goes on where the "
            "group stands",
        )
        return Verdict(State.WAITING, f"its owner does not pull: {waits}.")
    _note_backlog(case, place)
    return Verdict(
        State.WAITING,
        f"group {case.group} has not come to it: {waits}.",
    )


def _held(case: Case, owner: Member, queue: ProcessQueueInfo, place: Place) -> Verdict:
    count = counted(queue.cached_msg_count, "message")
    ends = f"{queue.cached_msg_min_offset} to {queue.cached_msg_max_offset}"
    since = ""
    if queue.last_consume_timestamp:
        handled_ms = case.clock.now_ms() - queue.last_consume_timestamp
        since = f"; it last handed out messages of the queue {span(handled_ms)} ago"
    failed = owner.info.status_table.get(place.queue.topic) if owner.info is not None else None
    failing = (
        f"; its listener failed {counted(failed.consume_failed_msgs, 'time')} in the last hour"
        if failed is not None and failed.consume_failed_msgs
        else ""
    )
    case.found(
        Cause.HELD,
        f"{owner} has pulled it, and {count} of the queue ({ends}) are not all finished{since}"
        f"{failing}",
        "see what the listener does: its log, or its stacks (`Admin.running_info` with stacks). "
        "Messages behind an unfinished one may be handled already: the offset waits for the "
        "first one",
    )
    if _is_unlocked(owner, queue):
        case.found(
            Cause.NOT_LOCKED,
            f"{owner} consumes in order, and has no lock of {place.queue} at its broker: it hands "
            f"out nothing of it",
            LOCK_REMEDY,
        )
    if limit := _limit(owner, queue):
        case.found(Cause.FLOW_CONTROL, f"it pulls no more of the queue: {limit}")
    return Verdict(State.BEING_HANDLED, f"{owner} has it, and has not finished it.")


def _not_committed(case: Case, owner: Member, offset: int) -> Verdict:
    case.found(
        Cause.COMMIT_PENDING,
        f"{owner} has finished everything before offset {offset} of the queue; brokers hear of it "
        f"with the next commit, within seconds",
    )
    return Verdict(State.CONSUMED, f"{owner} has handled it, and commits that soon.")


def _is_unlocked(owner: Member, queue: ProcessQueueInfo) -> bool:
    return _is_ordered(owner) and not queue.locked


def _is_ordered(member: Member) -> bool:
    properties = {} if member.info is None else member.info.properties
    return str(properties.get(PROP_CONSUME_ORDERLY)).lower() == "true"


def _limit(owner: Member, queue: ProcessQueueInfo) -> str:
    """Words the limit that the owner has reached; empty if none (`DefaultMQPushConsumerImpl`)."""
    count_max = _setting(owner, "pullThresholdForQueue")
    if count_max is not None and queue.cached_msg_count >= count_max:
        return (
            f"it holds {queue.cached_msg_count} messages of it (pullThresholdForQueue {count_max})"
        )
    size_max = _setting(owner, "pullThresholdSizeForQueue")
    if size_max is not None:
        # Java's clients count in MiB, PocketMQ's in bytes.
        size_max_mib = size_max // MEBIBYTE if size_max >= MEBIBYTE else size_max
        if queue.cached_msg_size_in_mib >= size_max_mib > 0:
            return (
                f"it holds {queue.cached_msg_size_in_mib} MiB of it (pullThresholdSizeForQueue "
                f"{size_max})"
            )
    span_max = _setting(owner, "consumeConcurrentlyMaxSpan")
    reach = queue.cached_msg_max_offset - queue.cached_msg_min_offset
    if span_max is not None and reach > span_max and not _is_ordered(owner):
        return (
            f"its first and last unfinished message are {reach} apart (consumeConcurrentlyMaxSpan "
            f"{span_max})"
        )
    return ""


def _setting(owner: Member, name: str) -> int | None:
    text = "" if owner.info is None else str(owner.info.properties.get(name, ""))
    return int(text) if text.isdecimal() else None
