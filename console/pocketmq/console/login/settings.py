"""Settings of logins: the provider, and which persons are which users of the cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, NamedTuple
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from pocketmq.console.web.gate import is_loopback
from pocketmq.protocol.errors import ConfigError
from pocketmq.protocol.signing import MASK, Credentials
from pocketmq.runtime.private_files import is_readable_by_others
from pocketmq.runtime.settings import load_settings

SECRET_VARIABLE = "POCKETMQ_OIDC_CLIENT_SECRET"  # noqa: S105 (the name of a variable)

Text = Annotated[str, Meta(min_length=1)]


class MappedUser(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """A user of the cluster, and who may act as that user.

    Attributes:
        value: of the claim, or one of its values, that a person has.
        access_key, secret_key: the user.
    """

    value: Text
    access_key: Text
    secret_key: Text

    @property
    def credentials(self) -> Credentials:
        """What signs the requests."""
        return Credentials(self.access_key, self.secret_key)

    def __repr__(self) -> str:
        return f"MappedUser({self.value!r}, {self.access_key!r}, {MASK!r})"


class UserMap(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """Which persons are which users: the first user whose value a person has.

    Attributes:
        claim: of the identity token, a text or a list, such as ``groups`` or ``email``.
        users: in the order in which they are looked at.
    """

    users: Annotated[list[MappedUser], Meta(min_length=1)]
    claim: Text = "groups"

    def user_of(self, claims: dict[str, object]) -> MappedUser | None:
        """The user that a person is; None for strangers."""
        given = claims.get(self.claim)
        values = given if isinstance(given, list) else [given]
        return next((user for user in self.users if user.value in values), None)

    def named(self, value: str) -> MappedUser | None:
        """The user of a value; None if the file has none any more."""
        return next((user for user in self.users if user.value == value), None)


class LoginOptions(NamedTuple):
    """How people log in.

    Attributes:
        issuer: the provider's address, such as ``https://id.example.org/realms/main``.
        client_id, client_secret: of the console at the provider.
        users: which persons are which users of the cluster.
        scope: that is asked for.
    """

    issuer: str
    client_id: str
    client_secret: str
    users: UserMap
    scope: str = "openid profile email"

    def __repr__(self) -> str:
        return f"LoginOptions({self.issuer!r}, {self.client_id!r}, {MASK!r}, {self.users!r})"


def read_users(path: Path) -> UserMap:
    """Reads the file of users, which only its owner may read.

    Raises:
        ConfigError: it cannot be read, others may read it, or it does not fit.
    """
    _check_private(path)
    return load_settings(path, UserMap)


def read_secret(path: Path) -> str:
    """Reads the file of the console's secret, which only its owner may read.

    Raises:
        ConfigError: it cannot be read, others may read it, or it is empty.
    """
    _check_private(path)
    try:
        secret = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as e:
        raise ConfigError(f"{path} cannot be read: {e}") from e
    if not secret:
        raise ConfigError(f"{path} is empty: write the secret into it")
    return secret


def _check_private(path: Path) -> None:
    try:
        if is_readable_by_others(path):
            raise ConfigError(f"{path} holds secrets and others may read it: chmod 600 {path}")
    except OSError as e:
        raise ConfigError(f"{path} cannot be read: {e.strerror}") from e


def check_issuer(issuer: str) -> str:
    """Returns the address of a provider.

    Raises:
        ConfigError: it is none, or neither HTTPS nor on this machine.
    """
    parts = urlsplit(issuer)
    is_safe = parts.scheme == "https" or (
        parts.scheme == "http" and is_loopback(parts.hostname or "")
    )
    if not is_safe or not parts.hostname or parts.query or parts.fragment:
        raise ConfigError(
            f"the issuer is {issuer!r}: it must be like https://id.example.org, without a query"
        )
    return issuer
