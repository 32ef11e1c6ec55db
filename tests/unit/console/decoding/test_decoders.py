from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import pytest

from pocketmq.console.decoding import decoders
from pocketmq.console.decoding.decoders import Decoders, installed_decoders
from pocketmq.protocol.errors import UsageError
from pocketmq.protocol.messages.message import Message
from pocketmq.runtime.clock import SystemClock
from pocketmq.testing.clock import settle

CLOCK = SystemClock()


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoders, "TIMEOUT_S", 60)


def message(body: bytes, topic: str = "Orders", **properties: str) -> Message:
    return Message(topic, body, properties=properties)


class Reversed:
    name = "reversed"

    def suits(self, body: bytes, topic: str, properties: Mapping[str, str]) -> bool:
        return properties.get("format") == "reversed"

    def decode(self, body: bytes, topic: str, properties: Mapping[str, str]) -> object:
        return {"text": bytes(reversed(body)).decode(), "topic": topic, "parts": {1, 2}}


class Failing:
    name = "failing"

    def suits(self, body: bytes, topic: str, properties: Mapping[str, str]) -> bool:
        raise SystemExit

    def decode(self, body: bytes, topic: str, properties: Mapping[str, str]) -> object:
        raise KeyError("schema 5")


class Hanging:
    name = "hanging"

    def __init__(self) -> None:
        self.ended = threading.Event()

    def decode(self, body: bytes, topic: str, properties: Mapping[str, str]) -> object:
        self.ended.wait()
        return "late"


class Endless:
    name = "endless"

    def decode(self, body: bytes, topic: str, properties: Mapping[str, str]) -> object:
        value: list[Any] = []
        value.append(value)
        return value


async def test_decoders_of_other_packages_are_asked_first() -> None:
    known = Decoders(CLOCK, [Failing(), Reversed()])
    assert known.names == ["json", "msgpack", "text", "hex", "failing", "reversed"]
    wanted = await known.decode(None, message(b"cba", format="reversed"))
    assert wanted.decoder == "reversed"
    assert wanted.value == {"text": "abc", "topic": "Orders", "parts": [1, 2]}
    assert (await known.decode(None, message(b"cba"))).decoder == "text"
    assert (await known.decode("hex", message(b"cba"))).value == b"cba"
    with pytest.raises(UsageError, match="there is no decoder 'avro': there are json, msgpack"):
        await known.decode("avro", message(b""))


async def test_what_fails_is_told_in_place() -> None:
    known = Decoders(CLOCK, [Failing(), Endless()])
    failed = await known.decode("failing", message(b"x"))
    assert failed == ("failing", None, "decoder failing failed: KeyError: 'schema 5'")
    endless = await known.decode("endless", message(b"x"))
    assert "RecursionError" in str(endless.problem)
    assert "the body is no JSON" in str((await known.decode("json", message(b"x"))).problem)


async def test_a_decoder_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoders, "TIMEOUT_S", 0.01)
    hanging = Hanging()
    known = Decoders(CLOCK, [hanging])
    for _ in range(decoders.STUCK_MAX):
        problem = (await known.decode("hanging", message(b"x"))).problem
        assert problem == "decoder hanging has not decoded the body within 0.01 s"
    problem = (await known.decode("hanging", message(b"x"))).problem
    assert problem is not None
    assert problem.startswith("decoder hanging hangs in 4 messages, and is not asked again")
    hanging.ended.set()
    monkeypatch.setattr(decoders, "TIMEOUT_S", 60)
    while (late := await known.decode("hanging", message(b"x"))).problem is not None:
        await settle(1)
    assert late.value == "late"


def entries(*given: Any) -> Any:
    class Entry:
        def __init__(self, made: Any) -> None:
            self.name = self.value = "entry"
            self._made = made

        def load(self) -> Any:
            return self._made

    return lambda group: [Entry(each) for each in given] if group == "pocketmq.decoders" else []


def test_decoders_are_found_by_their_entry_points(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoders, "entry_points", entries(Reversed, Failing))
    assert installed_decoders(CLOCK).names[4:] == ["reversed", "failing"]
    monkeypatch.setattr(decoders, "entry_points", entries(Reversed, Reversed))
    with pytest.raises(UsageError, match="two decoders are named reversed"):
        installed_decoders(CLOCK)
    monkeypatch.setattr(decoders, "entry_points", entries(object))
    with pytest.raises(UsageError, match="cannot be used: it has no name"):
        installed_decoders(CLOCK)
