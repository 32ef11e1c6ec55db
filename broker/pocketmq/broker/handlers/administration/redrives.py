"""Dead letters and their redrives: 31040 to 31045."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import wraps

from pocketmq.broker.redrive.redrives import Redrives
from pocketmq.broker.refusals import unavailable
from pocketmq.broker.store.disk.errors import StoreError
from pocketmq.protocol.bodies.redrives import (
    TO_GROUP,
    LetterTable,
    RedriveList,
    RedriveOrder,
    RedriveStart,
)
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.errors import UsageError, response_error
from pocketmq.protocol.requests.extensions.redrives import (
    ChangeRedriveRequest,
    DeadLetterStatesRequest,
    ListRedrivesRequest,
    PlanRedriveRequest,
    RedriveResultsRequest,
    StartRedriveRequest,
)
from pocketmq.protocol.wire.command import Command
from pocketmq.transport.connection import Connection, Handler

Asked = Callable[["RedriveHandlers", Command, Connection], Awaitable[Command]]


def _told(asked: Asked) -> Asked:
    """Answers what cannot be done with a code and the reason."""

    @wraps(asked)
    async def answer(self: RedriveHandlers, command: Command, connection: Connection) -> Command:
        try:
            return await asked(self, command, connection)
        except UsageError as e:
            raise response_error(ResponseCode.INVALID_PARAMETER, str(e)) from e
        except (OSError, StoreError) as e:
            raise unavailable(str(e)) from e

    return answer


class RedriveHandlers:
    """Answers what is asked about dead letters.

    Args:
        redrives: of the broker.
    """

    def __init__(self, redrives: Redrives) -> None:
        self._redrives = redrives

    def table(self) -> dict[int, Handler]:
        """The handlers by request code."""
        return {
            RequestCode.PLAN_REDRIVE: self.plan,
            RequestCode.START_REDRIVE: self.start,
            RequestCode.CHANGE_REDRIVE: self.change,
            RequestCode.LIST_REDRIVES: self.show,
            RequestCode.REDRIVE_RESULTS: self.results,
            RequestCode.DEAD_LETTER_STATES: self.states,
        }

    @_told
    async def plan(self, command: Command, _: Connection) -> Command:
        """31040: what an order would do."""
        request = command.read(PlanRedriveRequest)
        order = RedriveOrder.of_request(bytes(command.body))
        _check_header(request, order)
        plan = await self._redrives.plan(order, request.samples)
        return Command(ResponseCode.SUCCESS, body=plan.encode(quote_keys=True))

    @_told
    async def start(self, command: Command, _: Connection) -> Command:
        """31041: begins what was planned; the answer does not wait for its end."""
        request = command.read(StartRedriveRequest)
        asked = RedriveStart.of_request(bytes(command.body))
        _check_header(request, asked.order)
        redrive = await self._redrives.begin(asked)
        return Command(ResponseCode.SUCCESS, body=redrive.encode(quote_keys=True))

    @_told
    async def change(self, command: Command, _: Connection) -> Command:
        """31042: pauses, resumes or cancels."""
        request = command.read(ChangeRedriveRequest)
        redrive = await self._redrives.change(request.group, request.redrive_id, request.change)
        return Command(ResponseCode.SUCCESS, body=redrive.encode(quote_keys=True))

    @_told
    async def show(self, command: Command, _: Connection) -> Command:
        """31043: the redrives of a group."""
        request = command.read(ListRedrivesRequest)
        body = RedriveList(redrives=self._redrives.of_group(request.group))
        return Command(ResponseCode.SUCCESS, body=body.encode(quote_keys=True))

    @_told
    async def results(self, command: Command, _: Connection) -> Command:
        """31044: a page of results."""
        request = command.read(RedriveResultsRequest)
        page = await self._redrives.results(request.group, request.redrive_id, request.begin)
        return Command(ResponseCode.SUCCESS, body=page.encode(quote_keys=True))

    @_told
    async def states(self, command: Command, _: Connection) -> Command:
        """31045: what became of dead letters."""
        request, redrives = command.read(DeadLetterStatesRequest), self._redrives
        if request.group is None:
            table = LetterTable(groups=await redrives.all_counts())
        elif request.count > 0:
            found = redrives.states(request.group, request.queue_id, request.offset, request.count)
            table = LetterTable(groups=[found])
        else:
            table = LetterTable(groups=[redrives.counts(request.group)])
        return Command(ResponseCode.SUCCESS, body=table.encode(quote_keys=True))


def _check_header(request: PlanRedriveRequest | StartRedriveRequest, order: RedriveOrder) -> None:
    """Refuses a header that names another group or topic than the body: rights go by the header.

    Raises:
        UsageError: it does.
    """
    if request.group != order.group or (request.topic or TO_GROUP) != order.to:
        raise UsageError("group and topic of the header must be the order's group and target")
