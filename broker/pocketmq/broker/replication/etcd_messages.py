"""What etcd's JSON gateway is told and answers: bytes are base64, 64-bit numbers strings."""

from __future__ import annotations

import base64
import binascii
from typing import Any

import msgspec

from pocketmq.broker.replication.arbiter import Versioned
from pocketmq.protocol.errors import ContentError


class Header(msgspec.Struct):
    """Of an answer: which cluster gave it, at which revision of all its keys."""

    cluster_id: str = ""
    revision: str = "0"


class KeyValue(msgspec.Struct):
    """A key's value; mod_revision is the version of the last change."""

    value: str = ""
    mod_revision: str = "0"


class RangeAnswer(msgspec.Struct):
    """Of a read; no rows say that there is no such key."""

    header: Header
    kvs: list[KeyValue] = []


class Step(msgspec.Struct):
    """Of a transaction."""

    response_range: RangeAnswer | None = None


class TransactionAnswer(msgspec.Struct):
    """Of a compare-and-set: with success, or with the rows that were read instead."""

    header: Header
    succeeded: bool = False
    responses: list[Step] = []


class TokenAnswer(msgspec.Struct):
    """Of a login."""

    header: Header
    token: str


class Failure(msgspec.Struct):
    """Of a request that was refused; `code` is one of gRPC."""

    error: str = ""
    code: int = 0


def read_request(key: str) -> dict[str, Any]:
    """Asks for a key."""
    return {"key": encoded(key.encode())}


def write_request(key: str, value: bytes, version: int) -> dict[str, Any]:
    """Asks to replace a value if its key still has a version, else to read it."""
    name = encoded(key.encode())
    is_same = {"key": name, "target": "MOD", "result": "EQUAL", "mod_revision": str(version)}
    return {
        "compare": [is_same],
        "success": [{"request_put": {"key": name, "value": encoded(value)}}],
        "failure": [{"request_range": {"key": name}}],
    }


def encoded(data: bytes) -> str:
    """Writes bytes as the gateway wants them."""
    return base64.b64encode(data).decode()


def versioned(rows: list[KeyValue]) -> Versioned:
    """Reads the row of a key.

    Raises:
        ContentError: it is none that etcd writes.
    """
    if not rows:
        return Versioned(b"", 0)
    try:
        value = base64.b64decode(rows[0].value, validate=True)
        version = int(rows[0].mod_revision)
    except (binascii.Error, ValueError) as e:
        raise ContentError(f"a value cannot be read ({e})") from None
    if len(rows) > 1 or version < 1:
        raise ContentError(f"{len(rows)} values, the first of version {version}")
    return Versioned(value, version)


def read_after_refusal(answer: TransactionAnswer) -> Versioned:
    """The value that a compare-and-set found instead.

    Raises:
        ContentError: the answer has none.
    """
    steps = [step.response_range for step in answer.responses if step.response_range is not None]
    if len(steps) != 1:
        raise ContentError("a compare-and-set was refused, but nothing was read")
    return versioned(steps[0].kvs)


def revision_of(answer: TransactionAnswer) -> int:
    """The version that a write has given to its key.

    Raises:
        ContentError: the answer has none.
    """
    text = answer.header.revision
    if not text.isascii() or not text.isdigit() or not int(text):
        raise ContentError(f"a write has revision {text!r}")
    return int(text)
