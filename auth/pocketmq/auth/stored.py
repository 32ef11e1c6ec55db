"""Users and policies on the disk, with passwords encrypted if there is a key for that."""

from __future__ import annotations

import hmac
import logging
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Protocol

import msgspec

from pocketmq.auth.rights.policies import Acl
from pocketmq.auth.users import User
from pocketmq.protocol.errors import ConfigError
from pocketmq.runtime.private_files import is_readable_by_others, write_private

log = logging.getLogger("pocketmq.auth")

KEY_PREFIX = "user/"
"""Stands before the name of a user in the keys of its record."""

SECRETS_KEY_VARIABLE = "POCKETMQ_SECRETS_KEY"
"""The environment variable with the key itself."""


class Records(Protocol):
    """Small texts by key, in a file that survives."""

    def states(self, prefix: str) -> Mapping[str, str]:
        """The texts whose keys begin with a prefix."""

    def set_state(self, key: str, value: str, *, durably: bool = False) -> None:
        """Writes a text; with `durably` it is on the disk on return."""

    def remove_state(self, key: str) -> None:
        """Removes a text."""


class _Record(msgspec.Struct, frozen=True):
    user: User
    acl: Acl | None = None
    is_encrypted: bool = False


class StoredUsers:
    """Keeps users with their policies.

    Args:
        records: where.
        box: encrypts passwords; None keeps them as they are.
    """

    def __init__(self, records: Records, box: SecretBox | None = None) -> None:
        self._records, self._box = records, box

    def load(self) -> Iterator[tuple[User, Acl | None]]:
        """Reads all users, and encrypts passwords that were stored without a key.

        Raises:
            ConfigError: a password was encrypted with another key.
        """
        for text in self._records.states(KEY_PREFIX).values():
            record = msgspec.json.decode(text, type=_Record)
            user = record.user
            if record.is_encrypted:
                if self._box is None:
                    raise ConfigError(
                        f"the password of User:{user.username} is encrypted: set secretsKeyPath or "
                        f"{SECRETS_KEY_VARIABLE} to the key that was in use before"
                    )
                password = self._box.opened(user.password, user.username)
                user = msgspec.structs.replace(user, password=password)
            elif self._box is not None:
                self.save(user, record.acl)
            yield user, record.acl

    def save(self, user: User, acl: Acl | None) -> None:
        """Writes a user; it is on the disk on return.

        Raises:
            Exception: what `records` raises; nothing was changed.
        """
        box = self._box
        if box is not None:
            user = msgspec.structs.replace(user, password=box.sealed(user.password))
        record = _Record(user, acl, is_encrypted=box is not None)
        text = msgspec.json.encode(record).decode()
        self._records.set_state(KEY_PREFIX + user.username, text, durably=True)

    def remove(self, name: str) -> None:
        """Removes a user."""
        self._records.remove_state(KEY_PREFIX + name)


class SecretBox:
    """Encrypts texts with one key.

    Args:
        key: of Fernet, 32 bytes in URL-safe Base64.

    Raises:
        ConfigError: it is no such key.
    """

    def __init__(self, key: bytes) -> None:
        from cryptography.fernet import Fernet

        try:
            self._fernet = Fernet(key.strip())
        except ValueError:
            raise ConfigError(
                f"the key of secretsKeyPath or {SECRETS_KEY_VARIABLE} must be 32 bytes in URL-safe "
                f"Base64, as this makes it: head -c 32 /dev/urandom | base64 | tr +/ -_"
            ) from None
        told = hmac.digest(key.strip(), b"fingerprint of a key of pocketmq", "sha256")
        self._fingerprint = told.hex()[:16]

    @property
    def fingerprint(self) -> str:
        """Tells two keys apart, and nothing of them."""
        return self._fingerprint

    def sealed(self, text: str) -> str:
        """Encrypts a text."""
        return self._fernet.encrypt(text.encode()).decode()

    def opened(self, text: str, name: str) -> str:
        """Decrypts a text of a user.

        Raises:
            ConfigError: it was encrypted with another key.
        """
        from cryptography.fernet import InvalidToken

        try:
            return self._fernet.decrypt(text.encode()).decode()
        except InvalidToken:
            raise ConfigError(
                f"the password of User:{name} was encrypted with another key than that of "
                f"secretsKeyPath or {SECRETS_KEY_VARIABLE}"
            ) from None


def secret_box(path: str) -> SecretBox | None:
    """The box of a server's key, which is made if its file is missing; None if no key is set.

    Args:
        path: of the file with the key; empty for the one of `SECRETS_KEY_VARIABLE`.

    Raises:
        ConfigError: the key cannot be used, or everybody may read it.
    """
    if not path:
        key = os.environ.get(SECRETS_KEY_VARIABLE, "")
        return SecretBox(key.encode()) if key else None
    file = Path(path).expanduser()
    try:
        if not file.exists():
            from cryptography.fernet import Fernet

            write_private(file, Fernet.generate_key())
        if is_readable_by_others(file):
            raise ConfigError(f"secretsKeyPath: others may read {file}; chmod 600 {file}")
        return SecretBox(file.read_bytes())
    except OSError as e:
        raise ConfigError(f"secretsKeyPath: {file}: {e.strerror}") from e
