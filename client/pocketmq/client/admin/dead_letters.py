"""Administration of dead letters: counts, plans, redrives and their results."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence

from pocketmq.client.admin.calls import AdminCalls
from pocketmq.protocol.bodies.redrives import (
    TO_GROUP,
    LetterCounts,
    LetterState,
    LetterTable,
    Redrive,
    RedriveChange,
    RedriveList,
    RedriveOrder,
    RedrivePlan,
    RedriveStart,
    ResultPage,
)
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import NotFoundError, UsageError
from pocketmq.protocol.names.names import check_group, dlq_topic
from pocketmq.protocol.requests.extensions.redrives import (
    ChangeRedriveRequest,
    DeadLetterStatesRequest,
    ListRedrivesRequest,
    PlanRedriveRequest,
    RedriveResultsRequest,
    StartRedriveRequest,
)

SAMPLES_DEFAULT = 3
"""Dead letters that a plan shows."""

PLAN_TIMEOUT_MS = 120_000
"""A broker looks at up to two million dead letters for a plan."""


class DeadLetterAdmin(AdminCalls):
    """The methods of `Admin` for dead letters; they ask for a broker of PocketMQ."""

    async def dead_letter_counts(self, *, cluster: str | None = None) -> list[LetterCounts]:
        """Counts the dead letters of all groups of a cluster, sorted by group."""
        addresses = await self._brokers(cluster, None)
        tables = await asyncio.gather(
            *(self._letter_table(address, DeadLetterStatesRequest()) for address in addresses)
        )
        found: dict[str, LetterCounts] = {}
        for counts in (counts for table in tables for counts in table.groups):
            known = found.get(counts.group)
            found[counts.group] = counts if known is None else _added(known, counts)
        return [found[group] for group in sorted(found)]

    async def dead_letter_states(
        self, group: str, broker_name: str, queue_id: int, offset: int, count: int
    ) -> list[LetterState]:
        """Returns what became of the dead letters of one queue from an offset on, in order.

        Args:
            group: whose.
            broker_name, queue_id: of the queue.
            offset: of the first; it must be there still.
            count: how many; a broker tells a thousand at the most.

        Raises:
            UnknownTopicError: the group has no dead letters.
            NotFoundError: the broker has none of them.
        """
        address = await self._letter_broker(group, broker_name)
        request = DeadLetterStatesRequest(
            group=group, queue_id=queue_id, offset=offset, count=count
        )
        found = (await self._letter_table(address, request)).groups[0]
        return found.states if found.first == offset else []

    async def plan_redrive(
        self, order: RedriveOrder, *, samples: int = SAMPLES_DEFAULT
    ) -> list[RedrivePlan]:
        """Asks what an order would do, on each broker that has dead letters of its group.

        Args:
            order: what is to be done.
            samples: so many of the dead letters each plan shows, a hundred at the most.

        Raises:
            UnknownTopicError: the group has no dead letters.
            ResponseError: 29, the order cannot be carried out.
        """
        check_group(order.group)
        brokers = await self._letter_brokers(order.group)
        return list(
            await asyncio.gather(*(self._plan(a, order, samples) for a in brokers.values()))
        )

    async def _plan(self, address: str, order: RedriveOrder, samples: int) -> RedrivePlan:
        request = PlanRedriveRequest(group=order.group, topic=_topic_of(order), samples=samples)
        answer = await self._pool.ask(address, request, PLAN_TIMEOUT_MS, _body(order))
        return RedrivePlan.decode(answer.body)

    async def start_redrive(
        self, plans: Sequence[RedrivePlan], redrive_id: str | None = None
    ) -> list[Redrive]:
        """Starts what was planned, on each broker with selected dead letters.

        Args:
            plans: as `plan_redrive` gave them.
            redrive_id: names the redrive; the same start again is no second one. By default a new
                name.

        Returns:
            The redrive on each of its brokers.

        Raises:
            UsageError: no dead letter is selected.
            ResponseError: 29, the dead letters have changed since the plan, or another redrive of
                the group is under way.
        """
        chosen = [plan for plan in plans if plan.count]
        if not chosen:
            raise UsageError("no dead letter is selected: there is nothing to do")
        brokers = await self._letter_brokers(chosen[0].order.group)
        redrive_id = redrive_id or new_redrive_id()
        redrives = []
        for plan in chosen:
            address = brokers.get(plan.broker_name)
            if address is None:
                raise UsageError(f"the broker {plan.broker_name} of the plan is gone: plan again")
            order = plan.order
            start = RedriveStart(
                redrive_id=redrive_id, order=order, plan_id=plan.plan_id, ends=plan.ends
            )
            request = StartRedriveRequest(group=order.group, topic=_topic_of(order))
            answer = await self._pool.ask(
                address, request, PLAN_TIMEOUT_MS, start.encode(quote_keys=True)
            )
            redrives.append(Redrive.decode(answer.body))
        return redrives

    async def redrives(self, group: str) -> list[Redrive]:
        """Returns the redrives of a group, the newest first; one for each broker that has it.

        Raises:
            UnknownTopicError: the group has no dead letters.
        """
        request = ListRedrivesRequest(group=group)
        addresses = (await self._letter_brokers(group)).values()
        answers = await asyncio.gather(*(self._ask(address, request) for address in addresses))
        found = [r for answer in answers for r in RedriveList.decode(answer.body).redrives]
        return sorted(found, key=lambda redrive: redrive.created_ms, reverse=True)

    async def change_redrive(
        self, group: str, redrive_id: str, change: RedriveChange, *, reason: str = ""
    ) -> list[Redrive]:
        """Pauses, resumes or cancels a redrive on all brokers where it is under way.

        Args:
            group, redrive_id: which.
            change: what to do.
            reason: why, for the audit.

        Raises:
            UnknownTopicError: the group has no dead letters.
            UsageError: there is no such redrive, or it has ended.
        """
        known = [r for r in await self.redrives(group) if r.redrive_id == redrive_id]
        if not known:
            raise UsageError(f"there is no redrive {redrive_id!r} of {group}")
        active = [redrive for redrive in known if redrive.state.is_active]
        if not active:
            raise UsageError(f"the redrive {redrive_id} of {group} is {known[0].state} already")
        brokers = await self._letter_brokers(group)
        request = ChangeRedriveRequest(
            group=group, redrive_id=redrive_id, change=change, reason=reason or None
        )
        answers = [await self._ask(brokers[redrive.broker_name], request) for redrive in active]
        return [Redrive.decode(answer.body) for answer in answers]

    async def redrive_results(
        self, group: str, redrive_id: str, broker_name: str, begin: int = -1
    ) -> ResultPage:
        """Returns a page of results of a redrive; the last result of a dead letter counts.

        Args:
            group, redrive_id: which.
            broker_name: of the broker that has carried it out.
            begin: where the page begins, as `ResultPage.next` says; -1 for the first.

        Raises:
            UnknownTopicError: the group has no dead letters.
            NotFoundError: the broker has none of them.
            ResponseError: 29, there is no such redrive.
        """
        address = await self._letter_broker(group, broker_name)
        request = RedriveResultsRequest(group=group, redrive_id=redrive_id, begin=begin)
        answer = await self._pool.ask(address, request, PLAN_TIMEOUT_MS)
        return ResultPage.decode(answer.body)

    async def _letter_broker(self, group: str, broker_name: str) -> str:
        address = (await self._letter_brokers(group)).get(broker_name)
        if address is None:
            raise NotFoundError(
                ResponseCode.QUERY_NOT_FOUND, f"{broker_name} has no dead letters of {group}"
            )
        return address

    async def _letter_brokers(self, group: str) -> dict[str, str]:
        return await self._named_topic_masters(dlq_topic(group))

    async def _letter_table(self, address: str, request: DeadLetterStatesRequest) -> LetterTable:
        return LetterTable.decode((await self._ask(address, request)).body)


def new_redrive_id() -> str:
    """Makes a name for a redrive."""
    return secrets.token_hex(6)


def _topic_of(order: RedriveOrder) -> str | None:
    return None if order.to == TO_GROUP else order.to


def _body(order: RedriveOrder) -> bytes:
    return order.encode(quote_keys=True)


def _added(one: LetterCounts, other: LetterCounts) -> LetterCounts:
    times = [ms for ms in (one.oldest_ms, other.oldest_ms) if ms]
    return LetterCounts(
        group=one.group,
        open=one.open + other.open,
        redriven=one.redriven + other.redriven,
        discarded=one.discarded + other.discarded,
        oldest_ms=min(times, default=0),
        newest_ms=max(one.newest_ms, other.newest_ms),
    )
