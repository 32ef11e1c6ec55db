"""What an election loses: the logs of a member, compared with those of the others. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from pocketmq.broker.replication.set_state import SetState, decode_state
from pocketmq.broker.store.metadata.log_epochs import EpochStart, common_end
from pocketmq.protocol.bodies.replication import LogEnd, MemberReport


class Loss(NamedTuple):
    """What a member lacks of one log.

    Attributes:
        topic, queue_id: of the log.
        member_id: has most of it.
        messages: that are lost; None if both copies have records of their own behind a position.
        size: bytes that are lost.
    """

    topic: str
    queue_id: int
    member_id: int
    messages: int | None
    size: int


def losses_of(chosen: MemberReport, others: Sequence[MemberReport]) -> list[Loss]:
    """What other members have and one lacks, log by log.

    Args:
        chosen: the member that is to lead.
        others: the others that answer; those of another set do not count.
    """
    own = {log.number: log for log in chosen.logs}
    found: dict[int, Loss] = {}
    for report in others:
        if report.set_id != chosen.set_id or report.member_id == chosen.member_id:
            continue
        for theirs in report.logs:
            loss = _loss(own.get(theirs.number), theirs, report.member_id)
            if loss is not None and loss.size > getattr(found.get(theirs.number), "size", 0):
                found[theirs.number] = loss
    return sorted(found.values())


def _loss(ours: LogEnd | None, theirs: LogEnd, member_id: int) -> Loss | None:
    place = (theirs.topic, theirs.queue_id)
    if ours is None or (ours.topic, ours.queue_id) != place:
        if not theirs.position:
            return None
        return Loss(*place, member_id, theirs.offset, theirs.position)
    end = common_end(_history(ours), ours.position, _history(theirs), theirs.position)
    if end >= theirs.position:
        return None
    is_beginning = end == ours.position  # of theirs
    messages = theirs.offset - ours.offset if is_beginning else None
    return Loss(*place, member_id, messages, theirs.position - end)


def _history(log: LogEnd) -> list[EpochStart]:
    return [EpochStart(*row) for row in log.history]


def state_of(reports: Sequence[MemberReport]) -> SetState | None:
    """The set's state, as the first member tells it that reaches the arbiter.

    Raises:
        ContentError: it cannot be read.
    """
    known = [report.state for report in reports if report.state]
    return decode_state(known[0]) if known else None


def member_row(report: MemberReport, others: Sequence[MemberReport]) -> dict[str, Any]:
    """A member as a row of a table."""
    state = state_of([report])
    in_sync = report.version if state is None else report.member_id in state.in_sync
    losses = losses_of(report, others)
    return {
        "member": report.member_id,
        "address": report.address,
        "role": report.role,
        "epoch": report.epoch,
        "inSync": in_sync if isinstance(in_sync, bool) else None,
        "logs": len(report.logs),
        "messages": sum(log.offset for log in report.logs),
        "lacks": sum(loss.messages or 0 for loss in losses),
        "lacksBytes": sum(loss.size for loss in losses),
        "told": report.told,
    }
