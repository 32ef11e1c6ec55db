"""Answers to mqadmin taken apart into fields, to be compared field by field."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from support.mqadmin.differences import ABSENT, DIFFERENCES, OTHER_TOPICS
from support.mqadmin.runs import Exchange, Outcome

from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.errors import ContentError
from pocketmq.protocol.messages.records import decode_records
from pocketmq.protocol.wire.loose_json import standard

CLIENTS_OWN = frozenset({34, 35, 38})
"""Heartbeats, their end, and who else is in the group: the client inside a sub-command may or may
not get to them."""

OF_MESSAGES = frozenset(
    {
        RequestCode.PULL_MESSAGE,
        RequestCode.QUERY_MESSAGE,
        RequestCode.VIEW_MESSAGE_BY_ID,
        RequestCode.LITE_PULL_MESSAGE,
    }
)
"""Requests that are answered with stored messages."""

MESSAGE_FIELDS = (
    "flag", "sys_flag", "physical_offset", "born_timestamp", "store_timestamp", "born_host",
    "store_host", "reconsume_times", "prepared_transaction_offset", "body_crc", "store_size",
    "offset_msg_id",
)  # fmt: skip

IN_ORDER = "physicOffset"
"""What the items of lists have that come in a queue's order; the others are sets of Java's."""

OWN_IN_REQUESTS = ("offset", "beginTimestamp", "endTimestamp", "subVersion")
"""Places and times that a sub-command was told before, and that differ from cluster to cluster."""

Fields = dict[str, Any]


def answers(outcome: Outcome, words: str) -> dict[str, Fields]:
    """The first answer to each request of a sub-command, by code and fields of the request."""
    found: dict[str, Fields] = {}
    for exchange in outcome.seen[words].exchanges:
        if exchange.request not in CLIENTS_OWN:
            found.setdefault(_asked(outcome, exchange), _fields(outcome, exchange))
    return found


def _asked(outcome: Outcome, exchange: Exchange) -> str:
    fields = " ".join(
        f"{name}={value}" for name, value in sorted(exchange.fields.items()) if value is not None
    )
    asked = outcome.named(f"{exchange.request} {fields} {exchange.body}")
    for pattern in OWN_IN_REQUESTS:
        asked = re.sub(rf"\b{pattern}=\d+", f"{pattern}=?", asked)
    return asked


def _fields(outcome: Outcome, exchange: Exchange) -> Fields:
    fields: Fields = {"code": exchange.code}
    if exchange.remark:
        fields["remark"] = outcome.named(exchange.remark)
    for name, value in exchange.answer_fields.items():
        fields[f"header.{name}"] = outcome.named(str(value))
    if exchange.answer_body and exchange.request in OF_MESSAGES:
        fields.update(_walk("message", _messages(outcome, exchange.answer_body.encode("latin-1"))))
    elif exchange.answer_body:
        fields.update(_walk("body", _body(outcome, exchange)))
    return fields


def _messages(outcome: Outcome, records: bytes) -> dict[str, Fields]:
    """Stored messages, by topic, queue and offset."""
    found = {}
    for message in decode_records(records):
        place = f"{message.topic}.{message.queue_id}.{message.queue_offset}"
        fields: Fields = {name: _named(outcome, getattr(message, name)) for name in MESSAGE_FIELDS}
        fields["body"] = outcome.named(message.body.decode("utf-8", "backslashreplace"))
        fields["properties"] = {
            name: outcome.named(value) for name, value in message.properties.items()
        }
        found[outcome.named(place)] = fields
    return found


def _named(outcome: Outcome, value: object) -> object:
    return outcome.named(value) if isinstance(value, str) else value


def _body(outcome: Outcome, exchange: Exchange) -> Any:
    """A JSON body as a document, properties as a table, and anything else as it is."""
    text = exchange.answer_body.encode("latin-1").decode("utf-8", "replace")
    if text[:1] in "{[":
        try:
            return json.loads(outcome.named(standard(text.encode()).decode()))
        except (ContentError, ValueError):
            return text
    lines = text.splitlines()
    if lines and all("=" in line for line in lines):
        return dict(outcome.named(line).split("=", 1) for line in lines)
    return outcome.named(text) if text.isprintable() else f"{len(exchange.answer_body)} bytes"


def _walk(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, item in value.items():
            if item is not None:
                yield from _walk(f"{path}.{_key(key)}", item)
    elif isinstance(value, list):
        yield f"{path}.length", len(value)
        is_ordered = any(isinstance(item, dict) and IN_ORDER in item for item in value)
        for number, item in enumerate(value if is_ordered else sorted(value, key=_order)):
            yield from _walk(f"{path}.{_name(item, number)}", item)
    else:
        yield path, value


def _key(key: str) -> str:
    """A map's key; one that is an object itself with its members in one order."""
    if not key.startswith("{"):
        return key
    return json.dumps(json.loads(key), sort_keys=True, separators=(",", ":")).replace('"', "")


def _order(item: Any) -> str:
    return json.dumps(item, sort_keys=True)


def _name(item: Any, number: int) -> str:
    """What tells an item of a list from the others: itself if it is a word."""
    if isinstance(item, str):
        return item
    for name in ("brokerName", "topic", "clientId"):
        if isinstance(item, dict) and isinstance(item.get(name), str):
            return str(item[name])
    return str(number)


def differences(ours: Outcome, theirs: Outcome, words: str) -> Iterator[str]:
    """What differs in the answers to a sub-command, and must not."""
    here, there = answers(ours, words), answers(theirs, words)
    for asked in sorted({*here, *there}):
        if re.search(rf"={OTHER_TOPICS}\b", asked):
            continue
        if asked not in here or asked not in there:
            yield f"asked only of {'this cluster' if asked in here else 'the other'}: {asked}"
            continue
        for path in sorted({*here[asked], *there[asked]}):
            values = here[asked].get(path, ABSENT), there[asked].get(path, ABSENT)
            if values[0] == values[1]:
                continue
            if not any(allowed.covers(asked, path, *values) for allowed in DIFFERENCES):
                yield f"{asked}: {path} is {values[0]!r} here, {values[1]!r} on Apache's"
