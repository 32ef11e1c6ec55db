"""RocketMQ's signatures of requests (`acl/common/AclClientRPCHook`, `AclUtils`, `AclSigner`).

A signature is the HMAC-SHA1 of the values of all fields but the signature, in the order of their
names, and of the body. It covers neither the request code nor a time: whoever records a frame can
send it again. TLS protects against that.
"""

from __future__ import annotations

import hmac
from base64 import b64encode
from collections.abc import Mapping

import msgspec

from pocketmq.protocol.errors import ConfigError
from pocketmq.protocol.wire.command import Command
from pocketmq.protocol.wire.header import text_values

ACCESS_KEY = "AccessKey"
SIGNATURE = "Signature"
SECURITY_TOKEN = "SecurityToken"  # noqa: S105 (the name of a field)

MASK = "********"
"""Stands where a secret would."""


class Credentials(msgspec.Struct, frozen=True, rename="camel"):
    """The name and the secret with which a client signs its requests.

    Attributes:
        access_key: the user's name.
        secret_key: the user's password.
        security_token: goes with each request if there is one; servers check nothing of it.

    Raises:
        ConfigError: name or secret is empty.
    """

    access_key: str
    secret_key: str
    security_token: str | None = None

    def __post_init__(self) -> None:
        """Checks that name and secret are there."""
        if not self.access_key or not self.secret_key:
            raise ConfigError("credentials need both an access key and a secret key")

    def __repr__(self) -> str:
        return f"Credentials(access_key={self.access_key!r}, secret_key={MASK!r})"


def signed_text(fields: Mapping[str, object]) -> bytes:
    """What a signature covers, but the body.

    Args:
        fields: of the request, by wire name; numbers and booleans count as RocketMQ writes them.
    """
    texts = text_values(fields)
    texts.pop(SIGNATURE, None)
    names = sorted(texts)
    if not "".join(names).isascii():
        names.sort(key=_utf16_units)
    return "".join([texts[name] for name in names]).encode()


def _utf16_units(name: str) -> bytes:
    """The order of Java's strings, which differs from Python's beyond the first 65,536 letters."""
    return name.encode("utf-16-be")


def signature(secret_key: str, text: bytes, body: bytes | memoryview = b"") -> str:
    """The signature of a text and a body, in Base64.

    Args:
        secret_key: of the user.
        text: as `signed_text` makes it.
        body: of the request, as it is on the wire.
    """
    if not body:
        return b64encode(hmac.digest(secret_key.encode(), text, "sha1")).decode()
    code = hmac.new(secret_key.encode(), text, "sha1")
    code.update(body)
    return b64encode(code.digest()).decode()


def sign(command: Command, credentials: Credentials) -> None:
    """Adds name and signature to a request that is about to be sent; may be called again.

    Nothing may be added to the request's fields afterwards.
    """
    extra = dict(command.extra or {})
    extra[ACCESS_KEY] = credentials.access_key
    if credentials.security_token is not None:
        extra[SECURITY_TOKEN] = credentials.security_token
    command.extra = extra
    text = signed_text(command.fields)
    extra[SIGNATURE] = signature(credentials.secret_key, text, command.body)
