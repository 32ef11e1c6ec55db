"""Signatures of gRPC calls (`DefaultAuthenticationContextBuilder`).

A client signs the time of its call only; nobody looks whether the time is old.
"""

from __future__ import annotations

from binascii import a2b_base64
from collections.abc import Callable, Mapping
from hmac import compare_digest
from typing import NamedTuple

from pocketmq.auth.accounts import Account
from pocketmq.protocol.errors import ContentError
from pocketmq.protocol.signing import SigningKey

AUTHORIZATION = "authorization"
DATE_TIME = "x-mq-date-time"
ALGORITHM = "MQv2-HMAC-SHA1"


class CallSignature(NamedTuple):
    """What a call says of its user.

    Attributes:
        name: of the user.
        signature: of the time, in hexadecimal digits of any case.
        text: what is signed.
    """

    name: str
    signature: str
    text: bytes

    def is_of(self, key: SigningKey) -> bool:
        """Whether the owner of a key has signed, compared in constant time."""
        expected = a2b_base64(key.signature(self.text)).hex()
        return compare_digest(expected.encode(), self.signature.lower().encode())


def caller(metadata: Mapping[str, str], account_of: Callable[[str], Account | None]) -> Account:
    """Returns the user who has signed a call.

    Args:
        metadata: of the call, by lower-case name.
        account_of: finds users by name.

    Raises:
        ContentError: the signature is missing or wrong, or the user is not to be served.
    """
    signature = read_signature(metadata)
    account = account_of(signature.name)
    if account is None:
        raise ContentError(f"User:{signature.name:.100} is not found.")
    if not signature.is_of(account.key):
        raise ContentError("check signature failed.")
    if not account.is_enabled:
        raise ContentError(f"User:{account.name} is disabled.")
    return account


def read_signature(metadata: Mapping[str, str]) -> CallSignature:
    """Reads the signature of a call.

    Args:
        metadata: of the call, by lower-case name.

    Raises:
        ContentError: there is none, or it has another form; the text says which part.
    """
    header, text = metadata.get(AUTHORIZATION, ""), metadata.get(DATE_TIME, "")
    if not header:
        raise ContentError("the call has no authorization: set access key and secret key")
    if not text:
        raise ContentError(f"the call has no {DATE_TIME}, which is what is signed")
    algorithm, _, rest = header.partition(" ")
    if algorithm != ALGORITHM:
        raise ContentError(f"the authorization begins with {algorithm:.40}, not {ALGORITHM}")
    parts = dict(_pair(part) for part in rest.split(","))
    name = parts.get("Credential", "").partition("/")[0]
    signature = parts.get("Signature", "")
    if not name or not signature:
        raise ContentError("the authorization lacks its Credential or its Signature")
    return CallSignature(name, signature, text.encode())


def _pair(part: str) -> tuple[str, str]:
    name, _, value = part.strip().partition("=")
    return name, value
