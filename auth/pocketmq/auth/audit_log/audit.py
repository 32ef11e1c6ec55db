"""The audit: one line of JSON for each refused request and each administrative change.

A line says who, from where, what, and how it ended; for what the server keeps, also what it was
before and after; and for whom a program has asked, as the program says (`claimed`). Secrets are
never in it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import wraps
from typing import Any, NamedTuple

import msgspec

from pocketmq.auth.guard import USER
from pocketmq.auth.refused import NAME_LENGTH_MAX, RefusedRequest
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.errors import ConfigError, ContentError, ResponseError
from pocketmq.protocol.requests import claims
from pocketmq.protocol.signing import ACCESS_KEY, SECURITY_TOKEN, SIGNATURE
from pocketmq.protocol.wire.command import Command
from pocketmq.runtime.clock import Clock
from pocketmq.transport.connection import Connection, Handler, Reply

REFUSALS_MAX = 10
"""Lines about refusals of one cause and address in `PERIOD_S` seconds; then one that counts."""

PERIOD_S = 60.0
CAUSES_MAX = 1_024
"""Causes and addresses that are counted apart; those beyond share one count."""

_CREDENTIALS = {ACCESS_KEY, SIGNATURE, SECURITY_TOKEN}
_OTHERS = ("others", 0, "")

Sink = Callable[[bytes], object]
"""Takes one line of JSON, without its end."""

State = Callable[[Command], object]
"""Describes what a request changes, as it is now: None if there is nothing."""


class Audit:
    """Makes the lines.

    Args:
        server: the name of the server.
        clock: dates the lines.
        sinks: take the lines.
    """

    def __init__(self, server: str, clock: Clock, sinks: Collection[Sink]) -> None:
        self._server, self._clock, self._sinks = server, clock, sinks
        self._counts: dict[tuple[str, int, str], int] = {}

    def refused(self, request: RefusedRequest) -> None:
        """Notes a refused request, unless there were many of its kind."""
        host = request.connection.remote_address.rpartition(":")[0]
        cause = (host, request.code, request.user)
        if cause not in self._counts and len(self._counts) >= CAUSES_MAX:
            cause = _OTHERS
        if cause not in self._counts:
            self._counts[cause] = 0
            self._clock.machine.call_later(PERIOD_S, self._end, cause)
        self._counts[cause] += 1
        if self._counts[cause] <= REFUSALS_MAX:
            self._write(
                "refused",
                request.connection,
                request.code,
                user=request.user,
                isProven=request.is_known,
                reason=request.remark,
            )

    def _end(self, cause: tuple[str, int, str]) -> None:
        left_out = self._counts.pop(cause) - REFUSALS_MAX
        if left_out > 0:
            host, code, user = cause
            self._line(
                event="refused", address=host, code=code, user=user, leftOut=left_out,
                withinSeconds=PERIOD_S,
            )  # fmt: skip

    def guard(self, handler: Handler, state: State | None = None) -> Handler:
        """Returns a handler that notes the changes that it makes.

        Args:
            handler: makes them.
            state: describes what is changed.
        """

        @wraps(handler)
        def audited_handler(command: Command, connection: Connection) -> Reply:
            before = _described(state, command)
            user = str(connection.attributes.get(USER, ""))  # a later request may be another's
            change = _Change(command, connection, user, state, before)
            try:
                reply = handler(command, connection)
            except ResponseError as e:
                self._changed(change, e.code, e.remark)
                raise
            if isinstance(reply, Awaitable):
                return self._later(reply, change)
            if reply is not None:
                self._changed(change, reply.code, reply.remark)
            return reply

        return audited_handler

    async def _later(self, reply: Awaitable[Command | None], change: _Change) -> Command | None:
        try:
            answer = await reply
        except ResponseError as e:
            self._changed(change, e.code, e.remark)
            raise
        if answer is not None:
            self._changed(change, answer.code, answer.remark)
        return answer

    def _changed(self, change: _Change, result: int, remark: str | None) -> None:
        command, connection, user, state, before = change
        details: dict[str, object] = {"fields": _fields(command), "result": int(result)}
        claim = _claim(command)
        if claim is not None:
            details["claimed"] = claim
        if result:
            details["reason"] = remark
        elif state is not None:
            details |= {"before": before, "after": _described(state, command)}
        self._write("changed", connection, command.code, user=user, **details)

    def _write(self, event: str, connection: Connection, code: int, **details: object) -> None:
        self._line(
            event=event,
            address=connection.remote_address,
            code=code,
            request=RequestCode(code).name if code in set(RequestCode) else None,
            **details,
        )

    def _line(self, **values: object) -> None:
        time_ms = self._clock.now_ms()
        line = msgspec.json.encode({"timeMs": time_ms, "server": self._server, **values})
        for sink in self._sinks:
            sink(line)


class _Change(NamedTuple):
    """A change that is under way, and what was there before."""

    command: Command
    connection: Connection
    user: str
    state: State | None
    before: msgspec.Raw | None


def _described(state: State | None, command: Command) -> msgspec.Raw | None:
    """What a state says; nothing of requests that cannot be understood, which are refused."""
    if state is None:
        return None
    try:
        return msgspec.Raw(msgspec.json.encode(state(command)))
    except (ContentError, ConfigError, ResponseError, UnicodeDecodeError):
        return None


def _fields(command: Command) -> Mapping[str, Any]:
    try:
        fields = command.fields
    except ContentError:
        return {}
    return {
        name[:NAME_LENGTH_MAX]: str(value)[:NAME_LENGTH_MAX]
        for name, value in list(fields.items())[:_FIELDS_MAX]
        if name not in _CREDENTIALS and name not in claims.FIELDS
    }


def _claim(command: Command) -> claims.Claim | None:
    try:
        return claims.claim_of(command.fields)
    except ContentError:
        return None


_FIELDS_MAX = 32
