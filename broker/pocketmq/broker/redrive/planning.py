"""Says what an order would do, before anything is done."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import aclosing
from typing import NamedTuple

from pocketmq.broker.appending.stored_message import StoredMessage
from pocketmq.broker.redrive.copies import Copies, LetterRefusedError
from pocketmq.broker.redrive.letters import DeadLetter, Letters, text_of
from pocketmq.broker.redrive.targets import Targets
from pocketmq.protocol.bodies.redrives import (
    TO_GROUP,
    TO_ORIGIN,
    LetterSample,
    RedriveAction,
    RedriveOrder,
    RedrivePlan,
)
from pocketmq.protocol.errors import UsageError
from pocketmq.protocol.messages import properties as props

SAMPLES_DEFAULT, SAMPLES_MAX = 3, 100
SAMPLE_SIZE_MAX = 4096
"""Bytes of a body that a sample shows."""

REASONS_MAX = 20
"""Reasons of refusals, and errors, that a plan tells apart."""

OTHERS = "others"

RATE_MAX = 1_000_000.0

CopiesFor = Callable[[RedriveOrder], Copies]


class Selected(NamedTuple):
    """The dead letters of an order, as they are now.

    Attributes:
        plan_id: stands for them: their places in order, and the order itself.
        letters: how many.
    """

    plan_id: str
    letters: int


class Planner:
    """Makes plans.

    Args:
        letters: the dead letters.
        targets: where they may go.
        copies: makes copies for an order.
        broker_name: of the broker.
    """

    def __init__(
        self, letters: Letters, targets: Targets, copies: CopiesFor, broker_name: str
    ) -> None:
        self._letters, self._targets = letters, targets
        self._copies, self._broker_name = copies, broker_name

    def check(self, order: RedriveOrder) -> None:
        """Checks an order.

        Raises:
            UsageError: it cannot be carried out.
        """
        if not 0 <= order.rate <= RATE_MAX:
            raise UsageError(f"the rate is {order.rate}: it must be from 0 to {RATE_MAX:.0f}")
        if order.failures_max < 0 or order.redrives_max < 0:
            raise UsageError("failuresMax and redrivesMax must not be negative; 0 is for no limit")
        if order.action is RedriveAction.REDRIVE:
            self._targets.check(order)
        elif order.to != TO_GROUP or not order.edit.is_empty:
            raise UsageError(
                f"an order to {order.action} dead letters sends none: it takes no target and no "
                f"edit"
            )
        self._copies(order)  # refuses what cannot be understood

    async def plan(self, order: RedriveOrder, samples: int = SAMPLES_DEFAULT) -> RedrivePlan:
        """Makes the plan of an order; it shows so many of the dead letters.

        Raises:
            UsageError: the order cannot be carried out.
            OSError, StoreError: the disk cannot be read now.
        """
        self.check(order)
        ends = {str(queue_id): queue_log.max_offset
                for queue_id, queue_log in self._letters.logs(order.group).items()}  # fmt: skip
        plan = RedrivePlan(
            broker_name=self._broker_name,
            order=order,
            plan_id="",
            ends=ends,
            count=0,
            scanned=0,
            bytes=0,
        )
        selected = await self.select(
            order, ends, _Summary(self, order, plan, min(samples, SAMPLES_MAX))
        )
        plan.plan_id, plan.count = selected
        sent = plan.count - sum(plan.refused.values())
        if order.action is RedriveAction.REDRIVE and order.rate:
            plan.estimate_s = round(sent / order.rate, 3)
        plan.warnings = _warnings(plan, order)
        return plan

    async def select(
        self, order: RedriveOrder, ends: Mapping[str, int], summary: _Summary | None = None
    ) -> Selected:
        """Looks for the dead letters of an order.

        Raises:
            UsageError: there are too many to look at, or the selection cannot be understood.
            OSError, StoreError: the disk cannot be read now.
        """
        digest, count, scanned = hashlib.sha256(order.encode()), 0, list[int]()
        letters = self._letters.selected(order.group, order.selection, ends, scanned=scanned)
        async with aclosing(letters):
            async for letter in letters:
                digest.update(b"%d:%d;" % (letter.number, letter.offset))
                count += 1
                if summary is not None:
                    summary.add(letter)
        if summary is not None:
            summary.plan.scanned = sum(scanned)
        return Selected(digest.hexdigest()[:32], count)

    def copy_of(self, letter: DeadLetter, order: RedriveOrder, copies: Copies) -> _Preview:
        """The copy of a dead letter and its topic.

        Raises:
            LetterRefusedError: it cannot be sent.
        """
        return _Preview(self._targets.topic_of(letter, order), copies.copy(letter, "plan"))

    def copies(self, order: RedriveOrder) -> Copies:
        """What makes the copies of an order."""
        return self._copies(order)


class _Preview(NamedTuple):
    topic: str
    message: StoredMessage


class _Summary:
    """Adds up what a plan says of its dead letters."""

    def __init__(
        self, planner: Planner, order: RedriveOrder, plan: RedrivePlan, samples: int
    ) -> None:
        self._planner, self._order, self.plan = planner, order, plan
        self._samples = samples
        self._copies = planner.copies(order)
        self._targets: Counter[str] = Counter()

    def add(self, letter: DeadLetter) -> None:
        """Counts a dead letter."""
        plan, stored_ms = self.plan, letter.message.store_timestamp
        plan.bytes += len(letter.message.body)
        plan.oldest_ms = min(plan.oldest_ms, stored_ms) or stored_ms
        plan.newest_ms = max(plan.newest_ms, stored_ms)
        preview, refused = None, ""
        if self._order.action is RedriveAction.REDRIVE:
            try:
                preview = self._planner.copy_of(letter, self._order, self._copies)
                self._targets[preview.topic] += 1
                plan.targets = dict(self._targets)
            except LetterRefusedError as e:
                refused = str(e)
                _count(plan.refused, refused)
        if error := letter.properties.get(props.LAST_ERROR):
            _count(plan.errors, error)
        if len(plan.samples) < self._samples:
            plan.samples.append(_sample(letter, preview, refused))


def _count(counts: dict[str, int], reason: str) -> None:
    if reason not in counts and len(counts) >= REASONS_MAX:
        reason = OTHERS
    counts[reason] = counts.get(reason, 0) + 1


def _sample(letter: DeadLetter, preview: _Preview | None, refused: str) -> LetterSample:
    sample = LetterSample(
        queue_id=letter.queue_id,
        offset=letter.offset,
        message_id=letter.message_id,
        stored_ms=letter.message.store_timestamp,
        state=letter.state,
        attempts=letter.message.reconsume_times,
        origin=letter.origin or "",
        error=letter.properties.get(props.LAST_ERROR, ""),
        before=text_of(letter, SAMPLE_SIZE_MAX),
        properties_before=letter.properties,
        refused=refused,
    )
    if preview is not None:
        copied = DeadLetter(
            letter.group, letter.queue_id, letter.number, preview.message, letter.state
        )
        sample.topic = preview.topic
        sample.after = text_of(copied, SAMPLE_SIZE_MAX)
        sample.properties_after = {
            name: value for name, value in copied.properties.items() if name != props.REDRIVE_ID
        }
    return sample


def _warnings(plan: RedrivePlan, order: RedriveOrder) -> list[str]:
    warnings = []
    if order.action is RedriveAction.REDRIVE and order.to != TO_GROUP:
        where = "their first topics" if order.to == TO_ORIGIN else order.to
        warnings.append(f"all groups that consume {where} get these messages, not {order.group} "
                        f"alone")  # fmt: skip
    if refused := sum(plan.refused.values()):
        warnings.append(f"{refused} of {plan.count} would be refused")
    return warnings
