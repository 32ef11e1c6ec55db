"""Plans, progress and results of all brokers together, as the API tells them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from pocketmq.console.api.redrives.order_bodies import (
    BrokerProgress,
    Plan,
    PlannedLetter,
    RedriveProgress,
    Result,
)
from pocketmq.protocol.bodies.redrives import (
    LetterResult,
    LetterSample,
    Redrive,
    RedrivePlan,
    RedriveState,
)

SAMPLES_MAX = 10
"""Dead letters that a plan shows, of all brokers."""

_BY_NEED = (
    RedriveState.FAILED, RedriveState.PAUSED, RedriveState.RUNNING, RedriveState.CANCELLED,
    RedriveState.DONE,
)  # fmt: skip
"""The states, those that need attention first."""


def plan_of_all(plans: Sequence[RedrivePlan], *, shows_bodies: bool) -> Plan:
    """Adds up what brokers have planned; the plan's word is left out."""
    targets, refused = Counter[str](), Counter[str]()
    warnings: dict[str, None] = {}
    for plan in plans:
        targets.update(plan.targets)
        refused.update(plan.refused)
        warnings |= dict.fromkeys(_named(warning, plan, plans) for warning in plan.warnings)
    samples = [_sample(s, p.broker_name, shows_bodies) for p in plans for s in p.samples]
    return Plan(
        count=sum(plan.count for plan in plans),
        scanned=sum(plan.scanned for plan in plans),
        bytes=sum(plan.bytes for plan in plans),
        oldest_ms=min((plan.oldest_ms for plan in plans if plan.count), default=None),
        newest_ms=max((plan.newest_ms for plan in plans if plan.count), default=None),
        targets=dict(targets),
        refused=dict(refused.most_common()),
        samples=samples[:SAMPLES_MAX],
        warnings=list(warnings),
        estimate_s=max((plan.estimate_s for plan in plans), default=0.0),
        brokers={plan.broker_name: plan.count for plan in plans},
    )


def _named(warning: str, plan: RedrivePlan, plans: Sequence[RedrivePlan]) -> str:
    """A warning with its broker, unless all brokers or the only one warn alike."""
    if all(warning in each.warnings for each in plans):
        return warning
    return f"{plan.broker_name}: {warning}"


def _sample(sample: LetterSample, broker: str, shows_bodies: bool) -> PlannedLetter:
    return PlannedLetter(
        broker=broker,
        queue=sample.queue_id,
        offset=sample.offset,
        msg_id=sample.message_id,
        topic=sample.topic,
        before=sample.before if shows_bodies else None,
        after=sample.after if shows_bodies else None,
        properties_before=sample.properties_before,
        properties_after=sample.properties_after,
        refused=sample.refused,
    )


def progress_of(redrives: Sequence[Redrive]) -> RedriveProgress:
    """How far the brokers of one redrive are, together."""
    first = redrives[0]
    order = first.order
    is_active = any(each.state.is_active for each in redrives)
    states = {each.state for each in redrives}
    return RedriveProgress(
        redrive=first.redrive_id,
        group=order.group,
        state=next(state for state in _BY_NEED if state in states),
        is_active=is_active,
        action=order.action,
        to=order.to,
        rate=order.rate,
        reason=order.reason,
        is_edited=not order.edit.is_empty,
        planned=sum(each.planned for each in redrives),
        done=sum(each.done for each in redrives),
        sent=sum(each.sent for each in redrives),
        discarded=sum(each.discarded for each in redrives),
        reopened=sum(each.reopened for each in redrives),
        refused=sum(each.refused for each in redrives),
        created_ms=min(each.created_ms for each in redrives),
        ended_ms=None if is_active else max(each.ended_ms for each in redrives),
        brokers=[_of_broker(each) for each in sorted(redrives, key=lambda r: r.broker_name)],
    )


def _of_broker(redrive: Redrive) -> BrokerProgress:
    return BrokerProgress(
        broker=redrive.broker_name,
        state=redrive.state,
        why=redrive.why,
        planned=redrive.planned,
        sent=redrive.sent,
        discarded=redrive.discarded,
        reopened=redrive.reopened,
        refused=redrive.refused,
        created_ms=redrive.created_ms,
        ended_ms=redrive.ended_ms or None,
    )


def by_id(redrives: Iterable[Redrive]) -> list[RedriveProgress]:
    """Puts together what brokers tell of the same redrives, the newest first."""
    found: dict[str, list[Redrive]] = {}
    for redrive in redrives:
        found.setdefault(redrive.redrive_id, []).append(redrive)
    return sorted(map(progress_of, found.values()), key=lambda one: -one.created_ms)


def result_of(result: LetterResult, broker: str) -> Result:
    """What became of a dead letter, with the broker's name."""
    return Result(
        broker=broker,
        queue=result.queue_id,
        offset=result.offset,
        msg_id=result.message_id,
        outcome=result.outcome,
        topic=result.topic,
        to_queue=None if result.to_queue_id < 0 else result.to_queue_id,
        to_offset=None if result.to_offset < 0 else result.to_offset,
        reason=result.reason,
        time_ms=result.time_ms,
    )
