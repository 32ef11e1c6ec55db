"""The operations that plan and carry out redrives, and tell of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from pocketmq.client import Admin
from pocketmq.client.errors import UnknownTopicError
from pocketmq.console.api.callers import Callers, Clients
from pocketmq.console.api.paths import PREFIX
from pocketmq.console.api.redrives.order_bodies import (
    OneRedrive,
    Order,
    Plan,
    PlannedOrder,
    RedriveProgress,
    Redrives,
    Result,
    ResultQuery,
    Results,
)
from pocketmq.console.api.redrives.orders import order_of, plans_of, word_of
from pocketmq.console.api.redrives.progress import by_id, plan_of_all, progress_of
from pocketmq.console.api.redrives.refusals import worded
from pocketmq.console.api.redrives.result_reading import ResultReading
from pocketmq.console.web.operations import Call, Operation
from pocketmq.console.web.problems import ProblemError, not_found
from pocketmq.console.web.streams import Stream
from pocketmq.protocol.bodies.redrives import Redrive, RedriveChange
from pocketmq.protocol.errors import PocketMQError, UsageError
from pocketmq.runtime.clock import Clock

LINES = "application/jsonl"
"""The media type of JSON lines."""


class RedriveCalls:
    """Plans, starts, shows and changes redrives.

    Args:
        callers: their clients.
        clock: measures the pace of downloads.
    """

    def __init__(self, callers: Callers, clock: Clock) -> None:
        self._callers, self._clock = callers, clock

    def operations(self) -> list[Operation]:
        """Returns the operations of this family."""
        serve = self._callers.serve
        redrives = f"{PREFIX}/groups/{{group}}/redrives"
        one = f"{redrives}/{{redrive}}"
        return [
            Operation(
                "POST", f"{redrives}/plan", "planRedrive",
                "What an order would do with dead letters: how many, where to, samples before and "
                "after, and what would be refused.",
                serve(self.plan), Plan, body=Order,
            ),
            Operation(
                "POST", redrives, "startRedrive",
                "Carry out what was planned; the same plan twice is one redrive, and 409 if the "
                "dead letters have changed since.",
                serve(self.start), OneRedrive, body=PlannedOrder, status=201,
            ),
            Operation(
                "GET", redrives, "listRedrives", "The last redrives of a group.",
                serve(self.redrives), Redrives,
            ),
            Operation("GET", one, "getRedrive", "How far a redrive is.",
                      serve(self.one), OneRedrive),
            *(
                Operation(
                    "POST", f"{one}/{change}", f"{change}Redrive",
                    f"Have all brokers {change} a redrive.",
                    serve(self.change(change)), OneRedrive,
                )
                for change in RedriveChange
            ),
            Operation(
                "GET", f"{one}/results", "listRedriveResults",
                "What became of each dead letter in a redrive, a part at a time.",
                serve(self.results), Results, query=ResultQuery,
            ),
            Operation(
                "GET", f"{one}/download", "downloadRedriveResults",
                "What became of each dead letter in a redrive, as JSON lines.",
                self._callers.stream(self.download), Result, media=LINES,
            ),
        ]  # fmt: skip

    async def plan(self, clients: Clients, call: Call) -> Plan:
        """Plans an order."""
        assert isinstance(call.body, Order)
        order = order_of(call.path["group"], call.body)
        with worded(400, "The order cannot be carried out", "change what the detail names"):
            try:
                plans = await clients.admin.plan_redrive(order)
            except UnknownTopicError:
                return Plan()
        plan = plan_of_all(plans, shows_bodies=self._callers.shows_bodies)
        if plan.count:
            plan.plan, plan.redrive = word_of(order, plans)
        return plan

    async def start(self, clients: Clients, call: Call) -> OneRedrive:
        """Starts what was planned."""
        self._callers.check_writes()
        wanted, group = call.body, call.path["group"]
        assert isinstance(wanted, PlannedOrder)
        plans, redrive_id = plans_of(order_of(group, wanted.order), wanted.plan)
        remedy = "look at what the order would do now, and start that"
        try:
            with worded(409, "The redrive was not started", remedy):
                begun = await clients.admin.start_redrive(plans, redrive_id)
        except UnknownTopicError as e:
            raise _no_letters(group) from e
        except ProblemError as e:
            raise await _begun_in_part(clients.admin, group, redrive_id, e) from e
        return OneRedrive(redrive=progress_of(begun))

    async def redrives(self, clients: Clients, call: Call) -> Redrives:
        """Lists redrives."""
        return Redrives(redrives=by_id(await _redrives(clients.admin, call.path["group"])))

    async def one(self, clients: Clients, call: Call) -> OneRedrive:
        """Shows a redrive."""
        return OneRedrive(redrive=await _one(clients.admin, call))

    def change(self, change: RedriveChange) -> Callable[[Clients, Call], Awaitable[OneRedrive]]:
        """Makes what pauses, resumes or cancels a redrive."""

        async def changed(clients: Clients, call: Call) -> OneRedrive:
            self._callers.check_writes()
            admin, group, redrive_id = clients.admin, call.path["group"], call.path["redrive"]
            await _one(admin, call)
            remedy = f"see GET {PREFIX}/groups/{group}/redrives/{redrive_id}"
            with worded(409, "The redrive was not changed", remedy):
                try:
                    await admin.change_redrive(group, redrive_id, change, reason=call.reason or "")
                except UsageError as e:  # it has ended
                    raise ProblemError(409, "The redrive was not changed", str(e), remedy) from e
            return OneRedrive(redrive=await _one(admin, call))

        changed.__qualname__ = f"RedriveCalls.{change}"
        return changed

    async def results(self, clients: Clients, call: Call) -> Results:
        """Lists results."""
        query = call.query
        assert isinstance(query, ResultQuery)
        return await (await _reading(clients.admin, call)).page(query)

    async def download(self, clients: Clients, call: Call) -> Stream:
        """Begins a download of all results."""
        return Stream((await _reading(clients.admin, call)).lines(), self._clock)


async def _redrives(admin: Admin, group: str) -> list[Redrive]:
    with worded(400, "The request does not fit", "see the detail"):
        try:
            return await admin.redrives(group)
        except UnknownTopicError:
            return []


async def _one(admin: Admin, call: Call) -> RedriveProgress:
    """Finds a redrive.

    Raises:
        ProblemError: 404, the group has none with this id.
    """
    group, redrive_id = call.path["group"], call.path["redrive"]
    found = [each for each in await _redrives(admin, group) if each.redrive_id == redrive_id]
    if not found:
        raise not_found("redrive", redrive_id, f"GET {PREFIX}/groups/{group}/redrives")
    return progress_of(found)


async def _reading(admin: Admin, call: Call) -> ResultReading:
    found = await _one(admin, call)
    brokers = [each.broker for each in found.brokers]
    return ResultReading(admin, call.path["group"], call.path["redrive"], brokers)


async def _begun_in_part(
    admin: Admin, group: str, redrive_id: str, problem: ProblemError
) -> ProblemError:
    """The problem of a start; tells of brokers that have begun before another one has refused."""
    try:
        known = await admin.redrives(group)
    except PocketMQError:
        return problem
    begun = [each.broker_name for each in known if each.redrive_id == redrive_id]
    if not begun:
        return problem
    told = problem.problem
    return ProblemError(
        told.status,
        "The redrive was started on some brokers only",
        f"{', '.join(begun)} has begun {redrive_id}, and then: {told.detail}",
        f"cancel {redrive_id}, or plan the other dead letters when it has ended",
    )


def _no_letters(group: str) -> ProblemError:
    return ProblemError(
        409, "There are no dead letters", f"{group} has no dead letters any more", "plan again"
    )
