"""The form that sends a message, also a message that was shown."""

from __future__ import annotations

import base64
import binascii
from typing import Any

import msgspec
from msgspec import Struct

from pocketmq.console.api.bodies.messages import NewMessage, SendRequest, SentMessages
from pocketmq.console.api.bodies.topics import Topic
from pocketmq.console.api.callers import Clients
from pocketmq.console.api.message_calls import MessageCalls
from pocketmq.console.api.topic_calls import TopicCalls
from pocketmq.console.pages.forms import Done, Form, Names
from pocketmq.console.pages.rendering import path_text
from pocketmq.console.pages.typed import Typed
from pocketmq.console.pages.visits import Notice
from pocketmq.console.web.operations import Call
from pocketmq.protocol.errors import UsageError
from pocketmq.protocol.messages.delay_levels import DELAY_LEVELS_S
from pocketmq.protocol.messages.message_json import NOT_SENT_AGAIN, MessageDocument

ENCODINGS = ("text", "base64", "hex")
"""How a body is written."""

QUEUES_MAX = 500
"""Queues among which one chooses."""


class SendPage(Struct):
    """What the page of the form shows.

    Attributes:
        topic: where the message goes.
        queues: their names, `QUEUES_MAX` at most.
        levels: the delay levels with their milliseconds.
        source: the message that fills the form; None for none.
    """

    topic: Topic
    queues: list[str]
    levels: list[tuple[int, int]]
    source: MessageDocument | None = None


class SendForm:
    """Sends a message.

    Args:
        topics, messages: carry the operations out.
    """

    def __init__(self, topics: TopicCalls, messages: MessageCalls) -> None:
        self._topics, self._messages = topics, messages

    def form(self) -> Form:
        """Returns the form."""
        return Form(
            path="/topics/{topic}/send",
            template="send.html",
            operation=self._messages.send,
            read=_read,
            done=_done,
            show=self._show,
            prefill=_prefill,
        )

    async def _show(self, clients: Clients, call: Call) -> SendPage:
        topic = await self._topics.one(clients, Call(call.path))
        queues = [
            f"{broker}:{number}"
            for broker, settings in topic.settings.items()
            if settings.is_writable
            for number in range(settings.write_queues)
        ]
        page = SendPage(
            topic=topic,
            queues=queues[:QUEUES_MAX],
            levels=[(level, 1000 * s) for level, s in enumerate(DELAY_LEVELS_S, 1)],
        )
        source, origin = call.query.text("from"), call.query.text("fromTopic")
        if source is not None:
            names = {"topic": origin or topic.name, "id": source}
            page.source = await self._messages.one(clients, Call(names))
        return page


def _prefill(found: Any, typed: Typed) -> Typed:
    """Fills the form with the message that it is sent from."""
    assert isinstance(found, SendPage)
    source = found.source
    if source is None:
        return typed
    body, encoding = source.body or "", "text"
    if source.body_base64 is not None:
        body, encoding = source.body_base64, "base64"
    elif "\r" in body:  # browsers change such ends of lines
        body, encoding = base64.b64encode(body.encode()).decode(), "base64"
    kept = {name: text for name, text in source.properties.items() if name not in NOT_SENT_AGAIN}
    return typed.with_defaults(
        {
            "body": body,
            "encoding": encoding,
            "tag": source.tags or "",
            "keys": " ".join(source.keys),
            "properties": properties_text(kept),
        }
    )


def _read(typed: Typed, _names: Names) -> SendRequest:
    message = NewMessage(
        body_base64=base64.b64encode(content_of(typed)).decode(),
        tags=typed.text("tag"),
        keys=typed["keys"].split(),
        properties=properties_of(typed.lines("properties")),
        sharding_key=typed.text("shardingKey"),
        delay_level=typed.number("delayLevel", "the delay level") or 0,
        delay_ms=typed.number("delayMs", "the delay") or 0,
        deliver_at_ms=typed.time_ms("deliverAt", "the time of delivery") or 0,
    )
    queue = typed.text("queue")
    if queue is not None:
        broker, _, number = queue.rpartition(":")
        if not broker or not number.isdigit():
            raise UsageError(f"{queue!r} is no queue: choose one of the list")
        message.broker, message.queue = broker, int(number)
    return SendRequest(messages=[message])


def content_of(typed: Typed) -> bytes:
    """The body that was typed.

    Raises:
        UsageError: it is not of the encoding.
    """
    text = typed.lines("body")
    encoding = typed.choice("encoding", "the encoding", ENCODINGS)
    try:
        if encoding == "base64":
            return base64.b64decode("".join(text.split()), validate=True)
        return bytes.fromhex(text) if encoding == "hex" else text.encode()
    except (binascii.Error, ValueError) as e:
        raise UsageError(f"the body is not in {encoding}: {e}") from e


def properties_of(text: str) -> dict[str, str]:
    """Reads properties: ``name=value`` on each line, or an object of JSON.

    Raises:
        UsageError: it is neither.
    """
    if text.lstrip().startswith("{"):
        try:
            return msgspec.json.decode(text, type=dict[str, str])
        except msgspec.DecodeError as e:
            raise UsageError(f"the properties are no JSON object of texts: {e}") from e
    properties: dict[str, str] = {}
    for line in text.split("\n"):
        if not line.strip():
            continue
        name, separator, value = line.partition("=")
        if not separator or not name.strip():
            raise UsageError(f"the property {line!r} is not written as name=value")
        properties[name.strip()] = value
    return properties


def properties_text(properties: dict[str, str]) -> str:
    """Writes properties as `properties_of` reads them."""
    if all(_is_plain(name, value) for name, value in properties.items()):
        return "\n".join(f"{name}={value}" for name, value in properties.items())
    return msgspec.json.encode(properties).decode()


def _is_plain(name: str, value: str) -> bool:
    """Whether a property can be a line of its own."""
    is_name = bool(name) and name == name.strip() and "=" not in name and name[0] != "{"
    return is_name and not any(end in text for text in (name, value) for end in "\r\n")


def _done(answer: Any, names: Names) -> Done:
    assert isinstance(answer, SentMessages)
    (sent,) = answer.messages
    topic = path_text(names["topic"])
    later = ", to be delivered later" if sent.recall_handle else ""
    text = f"The message was sent to {sent.broker}:{sent.queue}, offset {sent.offset}{later}."
    if sent.status != "SEND_OK":
        text += f" Its status is {sent.status}."
    notice = Notice(text)
    if not later:
        notice = Notice(text, f"/topics/{topic}/messages/{path_text(sent.msg_id)}", "Look at it")
    return Done(f"/topics/{topic}", notice)
