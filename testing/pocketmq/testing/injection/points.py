"""Where faults get in before the handlers of a server, and what they do there.

Nothing stands in the way of a request for which no rule was given.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from pocketmq.protocol.errors import response_error
from pocketmq.protocol.wire.command import FLAG_ONEWAY, Command
from pocketmq.runtime.clock import Clock
from pocketmq.testing.injection.rules import Asked, Rule, asked_of
from pocketmq.transport.connection import Connection, Handler, Reply

Action = Callable[[Handler, Command, Connection], Reply]
"""What is done instead of asking the handler."""

FindRule = Callable[[int, Asked], "tuple[Rule, Action] | None"]
ClientsOf = Callable[[Connection], frozenset[str]]


class HandlerPoint:
    """The handlers of one server, some of them with faults before them.

    Args:
        server: its name.
        handlers: its table, which is changed.
        broker: the name of the broker that is asked, None for a name server.
        find: the rule for a request.
        clients_of: by which names the client of a connection goes.
    """

    def __init__(
        self,
        server: str,
        handlers: dict[int, Handler],
        broker: str | None,
        find: FindRule,
        clients_of: ClientsOf,
    ) -> None:
        self._server, self._handlers, self._broker = server, handlers, broker
        self._find, self._clients_of = find, clients_of
        self._originals: dict[int, Handler] = {}

    def guard(self, codes: frozenset[int] | None) -> None:
        """Puts faults before these requests, None for all, and before no others."""
        wanted = set(self._handlers) if codes is None else codes & set(self._handlers)
        for code in set(self._originals) - wanted:
            self._handlers[code] = self._originals.pop(code)
        for code in wanted - set(self._originals):
            original = self._originals[code] = self._handlers[code]
            self._handlers[code] = self._guarded(original)

    def _guarded(self, original: Handler) -> Handler:
        def guarded(command: Command, connection: Connection) -> Reply:
            clients = self._clients_of(connection)
            asked = asked_of(command, self._server, self._broker, clients)
            found = self._find(command.code, asked)
            if found is None:
                return original(command, connection)
            return found[1](original, command, connection)

        return guarded


def answer(code: int, remark: str) -> Action:
    """Refuses with a code."""

    def act(original: Handler, command: Command, connection: Connection) -> Reply:
        raise response_error(code, remark)

    return act


def drop_request(original: Handler, command: Command, connection: Connection) -> Reply:
    """As if it had never come."""
    return None


def drop_reply(original: Handler, command: Command, connection: Connection) -> Reply:
    """Does what is asked, and says nothing."""
    command.flag |= FLAG_ONEWAY
    return original(command, connection)


def close_connection(original: Handler, command: Command, connection: Connection) -> Reply:
    """Hangs up."""
    connection.abort("a fault was ordered")
    return None


def wait(clock: Clock, seconds: float) -> Action:
    """Comes later."""
    return after(lambda: clock.sleep(seconds))


def after(waited_for: Callable[[], Any]) -> Action:
    """Comes when something has happened."""

    def act(original: Handler, command: Command, connection: Connection) -> Reply:
        async def later() -> Command | None:
            await waited_for()
            reply = original(command, connection)
            return await reply if inspect.isawaitable(reply) else reply

        return later()

    return act


def stored_but(code: int, remark: str) -> Action:
    """Stores the message, and says so by another code than success."""

    def act(original: Handler, command: Command, connection: Connection) -> Reply:
        return original(command, _OtherAnswer(connection, code, remark))  # type: ignore[arg-type]

    return act


class _OtherAnswer:
    """A connection that says another code where its handler says success.

    Attributes:
        greeting_due: has the handler use `respond`, not a frame that is ready-made for success.
    """

    greeting_due = True

    def __init__(self, connection: Connection, code: int, remark: str) -> None:
        self._connection, self._code, self._remark = connection, code, remark

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def respond(self, request: Command, response: Command) -> None:
        """Answers."""
        if response.code == 0:
            response.code, response.remark = self._code, self._remark
        self._connection.respond(request, response)
