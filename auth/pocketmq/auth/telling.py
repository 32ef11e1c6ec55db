"""How a broker tells name servers its users: the whole table, encrypted with the inner credentials.

The secrets of users must not be readable on the way, whether or not the connection has TLS.
"""

from __future__ import annotations

import os
from hashlib import sha256

import msgspec

from pocketmq.auth.directory import UserDirectory
from pocketmq.auth.rights.policies import Acl
from pocketmq.auth.users import User
from pocketmq.protocol.errors import ContentError
from pocketmq.protocol.signing import Credentials

TABLE_SIZE_MAX = 8 * 1024 * 1024
"""Bytes of a table; a user with ten policies takes less than a kilobyte."""

_NONCE_SIZE = 12
_PURPOSE = b"pocketmq: users told to name servers\0"


class ToldUser(msgspec.Struct, frozen=True):
    """A user of a broker, with its policies."""

    user: User
    acl: Acl | None


class UserTable(msgspec.Struct, frozen=True):
    """All users of a broker.

    Attributes:
        version: grows with each change; an older table than the last one counts nothing.
        users: all of them.
    """

    version: int
    users: list[ToldUser]

    @classmethod
    def of(cls, directory: UserDirectory, version: int) -> UserTable:
        """Makes the table of a directory."""
        return cls(
            version, [ToldUser(user, directory.acl(user.username)) for user in directory.users()]
        )

    def sealed(self, inner: Credentials) -> bytes:
        """Encodes and encrypts the table for the other servers of the cluster."""
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        nonce = os.urandom(_NONCE_SIZE)
        return nonce + AESGCM(_key(inner)).encrypt(nonce, msgspec.json.encode(self), None)

    @classmethod
    def opened(cls, data: bytes, inner: Credentials) -> UserTable:
        """Decrypts and decodes a table.

        Raises:
            ContentError: it was not made with these credentials, or is too large.
        """
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        if len(data) > TABLE_SIZE_MAX:
            raise ContentError(
                f"the table of users has {len(data)} bytes, allowed are {TABLE_SIZE_MAX}"
            )
        try:
            text = AESGCM(_key(inner)).decrypt(data[:_NONCE_SIZE], data[_NONCE_SIZE:], None)
            return msgspec.json.decode(text, type=cls)
        except (InvalidTag, ValueError, msgspec.DecodeError) as e:
            raise ContentError(
                "the table of users cannot be read: the broker and this server must have the same "
                "innerClientAuthenticationCredentials"
            ) from e


def _key(inner: Credentials) -> bytes:
    return sha256(_PURPOSE + inner.secret_key.encode()).digest()
