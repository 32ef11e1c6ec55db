"""RocketMQ's signatures of requests (`acl/common/AclClientRPCHook`, `AclUtils`, `AclSigner`).

A signature is the HMAC-SHA1 of the values of all fields but the signature, in the order of their
names, and of the body. It covers neither the request code nor a time: whoever records a frame can
send it again. TLS protects against that.
"""

from __future__ import annotations

import hmac
from base64 import b64encode
from binascii import b2a_base64
from collections.abc import Callable, Iterable, Mapping
from hashlib import sha1
from operator import itemgetter
from typing import cast

import msgspec

from pocketmq.protocol.errors import ConfigError
from pocketmq.protocol.wire.command import Command
from pocketmq.protocol.wire.header import text_values

ACCESS_KEY = "AccessKey"
SECRET_KEY = "SecretKey"  # noqa: S105 (the name of a line in files)
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
    return signed_form(fields)[0]


def signed_form(
    fields: Mapping[str, object], left_out: str | None = None
) -> tuple[bytes, Mapping[str, str]]:
    """What a signature covers, but the body; and the fields as text.

    Args:
        fields: as `signed_text` takes them.
        left_out: a field that the peer has not signed.
    """
    texts = cast("Mapping[str, str]", fields)
    try:
        return _joined(texts, left_out), texts
    except TypeError:  # a value is no text
        texts = text_values(fields)
        return _joined(texts, left_out), texts


def _joined(texts: Mapping[str, str], left_out: str | None) -> bytes:
    names = tuple(texts)
    order = _ORDERS.get((names, left_out))
    if order is None:
        order = _order(names, left_out)
    return "".join(order(texts)).encode()


_Order = Callable[[Mapping[str, str]], Iterable[str]]

_ORDERS: dict[tuple[tuple[str, ...], str | None], _Order] = {}
"""How the values of fields with these names are put in order: few forms of requests come often."""

_ORDERS_MAX = 512
_NAMES_MAX = 64
"""Names of the longest form that is remembered."""


def _order(names: tuple[str, ...], left_out: str | None) -> _Order:
    ordered = sorted(name for name in names if name not in (SIGNATURE, left_out))
    if not "".join(ordered).isascii():
        ordered.sort(key=_utf16_units)
    order: _Order = itemgetter(*ordered) if ordered else lambda _: ()
    if len(names) <= _NAMES_MAX and all(len(name) <= _NAMES_MAX for name in names):
        if len(_ORDERS) >= _ORDERS_MAX:
            _ORDERS.clear()
        _ORDERS[names, left_out] = order
    return order


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


class SigningKey:
    """A secret that is ready to make signatures, for many of them.

    Args:
        secret_key: of the user.
    """

    __slots__ = ("_inner", "_outer")

    def __init__(self, secret_key: str) -> None:
        key = secret_key.encode()
        if len(key) > _BLOCK_SIZE:
            key = sha1(key, usedforsecurity=False).digest()
        padded = key.ljust(_BLOCK_SIZE, b"\0")
        # RFC 2104: the same two beginnings for all messages of a key.
        self._inner = sha1(padded.translate(_INNER_PAD), usedforsecurity=False)
        self._outer = sha1(padded.translate(_OUTER_PAD), usedforsecurity=False)

    def signature(self, text: bytes, body: bytes | memoryview = b"") -> bytes:
        """The signature of a text and a body, in Base64; as `signature`."""
        inner = self._inner.copy()
        inner.update(text)
        if body:
            inner.update(body)
        outer = self._outer.copy()
        outer.update(inner.digest())
        return b2a_base64(outer.digest(), newline=False)

    def __repr__(self) -> str:
        return f"SigningKey({MASK!r})"


_BLOCK_SIZE = 64
_INNER_PAD = bytes(byte ^ 0x36 for byte in range(256))
_OUTER_PAD = bytes(byte ^ 0x5C for byte in range(256))


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
