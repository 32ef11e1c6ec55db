"""The page of request codes, made of the handler tables, the request classes and the tests."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import pkgutil
import re
import tempfile
from collections.abc import Iterator, Mapping
from configparser import ConfigParser
from pathlib import Path
from typing import Any, NamedTuple

from pocketmq.auth.needs.broker import BROKER_NEEDS
from pocketmq.auth.needs.namesrv import NAMESRV_NEEDS
from pocketmq.auth.needs.table import NeedsTable, described
from pocketmq.broker.broker import Broker
from pocketmq.broker.config.config import BrokerConfig
from pocketmq.client.instance.instance import ClientInstance
from pocketmq.namesrv import NameServer, NamesrvConfig
from pocketmq.protocol import requests
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.wire.header import RequestHeader
from pocketmq.transport.connection import UNKNOWN_CODE, Handler
from pocketmq.transport.unsupported import Refusal

ROOT = Path(__file__).parents[2]
LOOPBACK = "127.0.0.1"
NOT_ROCKETMQS = range(31_000, 32_000)
"""Codes of PocketMQ's own."""

TESTS_MAX = 4
"""Test modules that a code names; more would not be looked at."""

_AUTHENTICATION: dict[str, Any] = {
    "authentication_enabled": True,
    "authorization_enabled": True,
    "init_authentication_user": {"username": "admin", "password": "of this page"},
    "inner_client_authentication_credentials": {"accessKey": "inner", "secretKey": "of this page"},
}
"""With them servers answer all codes that they know."""

_RULES = ("--:", *["---"] * 6)


class Server(NamedTuple):
    """A component that answers requests.

    Attributes:
        name: its section in `processors.ini`.
        handlers: its handler table.
        needs: the rights that its requests need; empty if it asks for none.
        tests: patterns of the modules below ``tests/`` that speak to it, and of their helpers.
    """

    name: str
    handlers: Mapping[int, Handler]
    needs: NeedsTable
    tests: tuple[str, ...]


def servers() -> tuple[Server, Server, Server]:
    """The broker, the name server and the client, with the handlers they really have."""
    namesrv = NameServer(NamesrvConfig(**_AUTHENTICATION))
    client = ClientInstance(f"{LOOPBACK}:1")
    return (
        Server(
            "broker",
            asyncio.run(_broker_handlers()),
            BROKER_NEEDS,
            (
                "integration/test_broker_*.py",
                "integration/test_proxy_users.py",
                "unit/broker/**/test_*.py",
                "support/brokers/*.py",
            ),
        ),
        Server(
            "namesrv",
            namesrv.handlers,
            NAMESRV_NEEDS,
            (
                "integration/test_namesrv.py",
                "integration/test_access.py",
                "unit/namesrv/**/test_*.py",
            ),
        ),
        Server("client", client.handlers, {}, ("unit/client/**/test_*.py",)),
    )


async def _broker_handlers() -> Mapping[int, Handler]:
    with tempfile.TemporaryDirectory() as directory:
        config = BrokerConfig(
            bind_address=LOOPBACK, listen_port=0, store_path_root_dir=directory, namesrv_addr="",
            secrets_key_path=f"{directory}/key", **_AUTHENTICATION,
        )  # fmt: skip
        async with Broker(config) as broker:
            return dict(broker.handlers)


def tables() -> dict[str, str]:
    """A table in Markdown for each server, by its name, and one ``refused``.

    Raises:
        LookupError: a served code has no test, or `processors.ini` does not say where RocketMQ
            answers it.
    """
    classes, processors = request_classes(), _processors()
    out: dict[str, str] = {}
    refused = [
        _row("code", "name", "asked of", "RocketMQ", "what to use instead"),
        _row(*_RULES[2:]),
    ]
    for server in servers():
        texts = _test_texts(server.tests)
        heads = ("code", "name", "request", "rights", "handler", "RocketMQ", "tests")
        lines = [_row(*heads), _row(*_RULES)]
        for code, guarded in sorted(server.handlers.items()):
            if code == UNKNOWN_CODE:
                continue
            handler = inspect.unwrap(guarded)
            name, cls = RequestCode(code).name, classes.get(code)
            processor = _processor(processors, server.name, code)
            if isinstance(handler, Refusal):
                refused.append(_row(str(code), name, server.name, processor or "", handler.reason))
                continue
            tests = list(_tests_of(texts, name, cls))
            if not tests:
                raise LookupError(f"no test of the {server.name} names {code}, {name} or {cls}")
            if processor is None:
                raise LookupError(f"processors.ini does not have {code}, {name}")
            request = _link(cls, cls.__name__) if cls else ""
            rights = described(server.needs.get(code, ())).replace("|", "or")
            handled = _link(handler, handler.__qualname__)
            lines.append(
                _row(str(code), name, request, rights, handled, processor, ", ".join(tests))
            )
        out[server.name] = "\n".join(lines)
    return {**out, "refused": "\n".join(refused)}


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def request_classes() -> dict[int, type[RequestHeader]]:
    """Each class of `protocol/requests`, by its request code."""
    for module in pkgutil.iter_modules(requests.__path__, f"{requests.__name__}."):
        importlib.import_module(module.name)
    out: dict[int, type[RequestHeader]] = {}
    waiting = RequestHeader.__subclasses__()
    while waiting:
        cls = waiting.pop()
        waiting += cls.__subclasses__()
        assert cls.code not in out, f"{cls} and {out[cls.code]} have one code"
        out[cls.code] = cls
    return out


def _processors() -> ConfigParser:
    parser = ConfigParser()
    parser.read(Path(__file__).parent / "processors.ini", encoding="utf-8")
    return parser


def _processor(processors: ConfigParser, server: str, code: int) -> str | None:
    """RocketMQ's ``Class#method`` or class; for what it leaves to other processes, theirs."""
    if code in NOT_ROCKETMQS:
        return "PocketMQ's own"
    for section in (server, "controller", "container"):
        if str(code) in processors[section]:
            processor = processors[section][str(code)]
            return f"`{processor}`" if processor else "not answered"
    return None


def _test_texts(patterns: tuple[str, ...]) -> dict[Path, str]:
    paths = {path for pattern in patterns for path in (ROOT / "tests").glob(pattern)}
    return {path: path.read_text("utf-8") for path in sorted(paths)}


def _tests_of(
    texts: Mapping[Path, str], name: str, cls: type[RequestHeader] | None
) -> Iterator[str]:
    """Links to the tests that name the request most; else to those that call its helpers most."""
    spoken = [rf"{name}\b", rf"{cls.__name__}\b"] if cls else [rf"{name}\b"]
    known = cls.__name__ if cls else name
    helpers = {path: text for path, text in texts.items() if "support" in path.parts}
    tests = {path: text for path, text in texts.items() if path not in helpers}
    made = [made for text in helpers.values() for made in _makers(text, known)]
    used = [used for text in helpers.values() for used in _functions_with(text, known)]
    for words in ((*spoken, *made), used):
        pattern = re.compile(rf"\b(?:{'|'.join(words)})")
        counts = {path: len(pattern.findall(text)) for path, text in tests.items() if words}
        most = sorted(counts, key=lambda path: -counts[path])[:TESTS_MAX]
        if any(counts.values()):
            for path in sorted(path for path in most if counts[path]):
                yield f"[{path.name}](../{path.relative_to(ROOT).as_posix()})"
            return


def _makers(text: str, cls: str) -> list[str]:
    """The calls of a module's functions that return a request of this class."""
    names = re.findall(rf"^ *def (\w+)\([^)]*\) -> {cls}:", text, re.M)
    return [rf"{name}\(" for name in names]


def _functions_with(text: str, cls: str) -> list[str]:
    """The calls of a module's public functions and methods that name a class."""
    function = r"^ *(?:async )?def ([a-z]\w*)\((.*?)(?=^ *(?:async )?def |\Z)"
    functions = re.findall(function, text, re.M | re.S)
    return [rf"{name}\(" for name, body in functions if re.search(rf"\b{cls}\b", body)]


def _link(what: Any, text: str) -> str:
    path = Path(inspect.getsourcefile(what) or "").relative_to(ROOT)
    return f"[`{text}`](../{path.as_posix()})"
