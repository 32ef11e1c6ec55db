"""Where faults get in before the handlers of a server, and what they do there.

Requests without a rule reach their handler untouched.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from pocketmq.protocol.errors import response_error
from pocketmq.protocol.wire.command import FLAG_ONEWAY, Command
from pocketmq.testing.injection.rules import Asked, BrokerOf, Rule, asked_of
from pocketmq.transport.connection import Connection, Handler, Reply

Action = Callable[[Handler, Command, Connection], Reply]
"""The effect of a fault, called instead of the handler."""

FindRule = Callable[[int, Asked], "tuple[Rule, Action] | None"]
ClientsOf = Callable[[Connection], frozenset[str]]


class HandlerPoint:
    """The handlers of one server, some of them with faults before them.

    Args:
        server: the server's name.
        handlers: the server's table of handlers, which is changed in place.
        broker_of: returns the name of the broker of a request: the one that is asked, or asks.
        find: returns the rule for a request.
        clients_of: returns the names of the client of a connection.
    """

    def __init__(
        self,
        server: str,
        handlers: dict[int, Handler],
        broker_of: BrokerOf,
        find: FindRule,
        clients_of: ClientsOf,
    ) -> None:
        self._server, self._handlers, self._broker_of = server, handlers, broker_of
        self._find, self._clients_of = find, clients_of
        self._originals: dict[int, tuple[Handler, Handler]] = {}

    def guard(self, codes: frozenset[int] | None) -> None:
        """Puts faults before the handlers of these codes only; None stands for all codes."""
        wanted = set(self._handlers) if codes is None else codes & set(self._handlers)
        for code in set(self._originals) - wanted:
            guarded, original = self._originals.pop(code)
            if self._handlers.get(code) is guarded:  # a server may have filled its table anew
                self._handlers[code] = original
        for code in wanted - set(self._originals):
            original = self._handlers[code]
            self._handlers[code] = guarded = self._guarded(original)
            self._originals[code] = guarded, original

    def _guarded(self, original: Handler) -> Handler:
        def guarded(command: Command, connection: Connection) -> Reply:
            clients = self._clients_of(connection)
            asked = asked_of(command, self._server, self._broker_of, clients)
            found = self._find(command.code, asked)
            if found is None:
                return original(command, connection)
            return found[1](original, command, connection)

        return guarded


def answer(code: int, remark: str) -> Action:
    """Refuses the request with a code."""

    def act(original: Handler, command: Command, connection: Connection) -> Reply:
        raise response_error(code, remark)

    return act


def drop_request(original: Handler, command: Command, connection: Connection) -> Reply:
    """Drops the request."""
    return None


def drop_reply(original: Handler, command: Command, connection: Connection) -> Reply:
    """Carries the request out and drops the reply."""
    command.flag |= FLAG_ONEWAY
    return original(command, connection)


def close_connection(original: Handler, command: Command, connection: Connection) -> Reply:
    """Cuts the connection of the request."""
    connection.abort("a fault was ordered")
    return None


def after(waited_for: Callable[[], Any]) -> Action:
    """Carries the request out once an awaitable is done."""

    def act(original: Handler, command: Command, connection: Connection) -> Reply:
        async def later() -> Command | None:
            await waited_for()
            reply = original(command, connection)
            return await reply if inspect.isawaitable(reply) else reply

        return later()

    return act


def stored_but(code: int, remark: str) -> Action:
    """Stores the message, and answers with another code than success."""

    def act(original: Handler, command: Command, connection: Connection) -> Reply:
        return original(command, _OtherAnswer(connection, code, remark))  # type: ignore[arg-type]

    return act


class _OtherAnswer:
    """A connection that replaces the success code of an answer by another code.

    Attributes:
        greeting_due: makes the handler use `respond`, not a ready-made frame of success.
    """

    greeting_due = True

    def __init__(self, connection: Connection, code: int, remark: str) -> None:
        self._connection, self._code, self._remark = connection, code, remark

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def succeed(self, request: Command) -> None:
        """Sends the replaced code."""
        self.respond(request, Command(0))

    def respond(self, request: Command, response: Command) -> None:
        """Sends the response with the replaced code."""
        if response.code == 0:
            response.code, response.remark = self._code, self._remark
        self._connection.respond(request, response)
