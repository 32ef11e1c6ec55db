"""The conditions of a fault on requests, and the record of when it fired."""

from __future__ import annotations

import difflib
import random
from collections.abc import Callable, Iterator
from enum import IntEnum
from functools import lru_cache
from importlib import import_module
from typing import Any, NamedTuple, TypeVar

import msgspec

from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.errors import ConfigError, ContentError
from pocketmq.protocol.wire.command import Command
from pocketmq.protocol.wire.header import GROUP_FIELDS, Header, RequestHeader

FIRED_MAX = 1000
"""Firings of a fault that are recorded; further ones are only counted."""

FAMILIES: dict[RequestCode, tuple[RequestCode, ...]] = {
    RequestCode.SEND_MESSAGE: (
        RequestCode.SEND_MESSAGE,
        RequestCode.SEND_MESSAGE_V2,
        RequestCode.SEND_BATCH_MESSAGE,
    ),
    RequestCode.PULL_MESSAGE: (RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE),
    RequestCode.SEND_REPLY_MESSAGE: (
        RequestCode.SEND_REPLY_MESSAGE,
        RequestCode.SEND_REPLY_MESSAGE_V2,
    ),
}
"""Requests with several codes, under the code that names them all."""

_MODULES = (
    "brokers", "clients", "consuming", "groups", "nameserver", "offsets", "popping", "pulling",
    "queries", "sending", "topics", "transactions",
)  # fmt: skip

CodeT = TypeVar("CodeT", bound=IntEnum)


def code_of(kind: type[CodeT], given: str | int, what: str) -> CodeT:
    """Returns a code by its name or number.

    Raises:
        ConfigError: no such code; the text names near ones.
    """
    if isinstance(given, str):
        if given in kind.__members__:
            return kind[given]
        near = difflib.get_close_matches(given.upper(), kind.__members__, 3)
    else:
        try:
            return kind(given)
        except ValueError:
            near = [f"{code.name} ({code.value})" for code in kind if abs(code - given) <= 1]
    hint = f"; near are {', '.join(near)}" if near else ""
    raise ConfigError(
        f"{what}={given!r} is no {what} of RocketMQ{hint}: see {kind.__name__} in "
        "pocketmq.protocol.codes"
    )


class Where(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The conditions on a request; a condition that is left out matches any request.

    Attributes:
        request: name or number of a `RequestCode`; SEND_MESSAGE and PULL_MESSAGE stand for all
            forms. Without it: all that clients ask brokers.
        topic, queue, group: the values in the request's header.
        client: the client id, or ``host:port`` of the connection.
        broker: the broker that is asked, or that asks the name server; the name of a broker set
            stands for all its members.
        times: how often the fault may fire.
        probability: the probability of firing for each match, 0 to 1.
        seed: the seed of that probability.
    """

    request: str | int | None = None
    topic: str | None = None
    queue: int | None = None
    group: str | None = None
    client: str | None = None
    broker: str | None = None
    times: int | None = None
    probability: float = 1.0
    seed: int = 0


def where_of(given: dict[str, Any]) -> Where:
    """Reads conditions from keyword arguments.

    Raises:
        ConfigError: a condition does not exist or does not fit.
    """
    known = Where.__struct_fields__
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f" (did you mean {near[0]!r}?)" if near else ""
            raise ConfigError(f"no such condition: {name!r}{hint}; there are: {', '.join(known)}")
    try:
        where = msgspec.convert(given, Where)
    except msgspec.ValidationError as e:
        raise ConfigError(f"a condition does not fit: {e}") from e
    if not 0 <= where.probability <= 1:
        raise ConfigError(f"probability={where.probability} must be between 0 and 1")
    if where.times is not None and where.times < 1:
        raise ConfigError(f"times={where.times} must be 1 or more; leave it out for any number")
    return where


def is_of(name: str, broker: str) -> bool:
    """Whether a name is a broker's, or that of the broker set that the broker is a member of."""
    return broker == name or broker.startswith(f"{name}/")


class Asked(NamedTuple):
    """The facts of one request that conditions are compared with."""

    server: str
    request: str
    topic: str | None
    queue: int | None
    group: str | None
    broker: str | None
    clients: frozenset[str]


class Fired(NamedTuple):
    """One time that a fault fired.

    Attributes:
        time_ms: the time by the cluster's clock.
        server: the broker's name, or ``namesrv``.
        request: the name of the request.
    """

    time_ms: int
    server: str
    request: str
    topic: str | None
    queue: int | None
    group: str | None


class Rule:
    """The conditions of one fault with the count of its firings.

    Args:
        text: the order, for warnings.
        where: the conditions.

    Attributes:
        codes: the request codes that may match; None for all codes of brokers.
        count: how often the fault fired.
        fired: the first `FIRED_MAX` firings.
    """

    def __init__(self, text: str, where: Where) -> None:
        self.text, self.where = text, where
        self.count = 0
        self.fired: list[Fired] = []
        self._chance = random.Random(where.seed)
        self.codes: frozenset[int] | None = None
        if where.request is not None:
            code = code_of(RequestCode, where.request, "request")
            self.codes = frozenset(FAMILIES.get(code, (code,)))

    def takes(self, code: int, asked: Asked, now_ms: int) -> bool:
        """Tells whether the fault fires for a request, and counts the firing."""
        where = self.where
        if self.codes is not None and code not in self.codes:
            return False
        if where.times is not None and self.count >= where.times:
            return False
        for wanted, found in (
            (where.topic, asked.topic),
            (where.queue, asked.queue),
            (where.group, asked.group),
        ):
            if wanted is not None and wanted != found:
                return False
        if where.broker is not None and not is_of(where.broker, asked.broker or ""):
            return False
        if where.client is not None and where.client not in asked.clients:
            return False
        if where.probability < 1 and self._chance.random() >= where.probability:
            return False
        self.count += 1
        if len(self.fired) < FIRED_MAX:
            of = (asked.server, asked.request, asked.topic, asked.queue, asked.group)
            self.fired.append(Fired(now_ms, *of))
        return True


BrokerOf = Callable[["Header | None"], "str | None"]
"""Tells the broker of a request by the request's header."""


def asked_of(command: Command, server: str, broker_of: BrokerOf, clients: frozenset[str]) -> Asked:
    """Reads the facts of a request from its header; leaves out those that cannot be read."""
    header: Header | None = None
    kind = _headers().get(command.code)
    if kind is not None:
        try:
            header = command.read(kind)
        except ContentError:
            header = None
    topic = getattr(header, "topic", None)
    group = next((g for f in GROUP_FIELDS if (g := getattr(header, f, None))), None)
    try:
        name = RequestCode(command.code).name
    except ValueError:
        name = str(command.code)
    queue_id = getattr(header, "queue_id", None)
    return Asked(server, name, topic, queue_id, group, broker_of(header), clients)


@lru_cache(maxsize=1)
def _headers() -> dict[int, type[RequestHeader]]:
    for module in _MODULES:
        import_module(f"pocketmq.protocol.requests.{module}")
    return {int(kind.code): kind for kind in _below(RequestHeader) if hasattr(kind, "code")}


def _below(kind: type[RequestHeader]) -> Iterator[type[RequestHeader]]:
    for below in kind.__subclasses__():
        yield below
        yield from _below(below)


def response_code(given: str | int) -> ResponseCode:
    """Returns a response code by its name or number.

    Raises:
        ConfigError: no such code.
    """
    return code_of(ResponseCode, given, "code")
