"""The settings of authentication and authorization, checked as a whole.

The keys are RocketMQ's (`auth/config/AuthConfig`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NamedTuple, Protocol

from pocketmq.auth.users import User, UserType
from pocketmq.protocol.errors import ConfigError
from pocketmq.protocol.signing import Credentials
from pocketmq.transport.tls import settings as tls

SECRET_KEYS = tls.SECRET_KEYS | {
    "initAuthenticationUser", "innerClientAuthenticationCredentials", "etcdPassword",
    "etcdKeyPassword",
}  # fmt: skip
"""Settings that hold secrets: they are never shown."""

FIXED_KEYS = SECRET_KEYS | {
    *tls.FIXED_KEYS,
    "authenticationEnabled",
    "authorizationEnabled",
    "authenticationWhitelist",
    "authorizationWhitelist",
    "authenticationPasswordVisible",
    "migrateAuthFromV1Enabled",
    "plainAclPath",
    "secretsKeyPath",
    "auditLogPath",
    "requestsPerSecondOfAddress",
    "bytesPerSecondOfAddress",
    "requestsPerSecondOfClient",
    "bytesPerSecondOfClient",
    "requestsPerSecondOfUser",
    "bytesPerSecondOfUser",
    "connectionsMaxOfAddress",
    "auditLogSizeMax",
    "auditTopic",
}
"""Settings that only the configuration file can change."""

JsonOrMapping = str | dict[str, str]
"""A JSON object, as RocketMQ has them in its files, or a mapping of the YAML file."""

_USER_EXAMPLE = '{"username": "admin", "password": "..."}'
_INNER_EXAMPLE = '{"accessKey": "broker", "secretKey": "..."}'


class AuthConfig(Protocol):
    """The settings of a server that this module reads."""

    @property
    def authentication_enabled(self) -> bool: ...  # noqa: D102

    @property
    def authorization_enabled(self) -> bool: ...  # noqa: D102

    @property
    def init_authentication_user(self) -> JsonOrMapping: ...  # noqa: D102

    @property
    def inner_client_authentication_credentials(self) -> JsonOrMapping: ...  # noqa: D102

    @property
    def authentication_whitelist(self) -> str: ...  # noqa: D102

    @property
    def authorization_whitelist(self) -> str: ...  # noqa: D102


class AuthSettings(NamedTuple):
    """What a server's configuration says of its guard.

    Attributes:
        is_authenticating: whether requests must be signed.
        is_authorizing: whether policies are asked.
        init_user: the first user; None without one.
        inner: with which the servers of the cluster sign what they ask each other.
        authentication_whitelist: codes of requests that need no signature.
        authorization_whitelist: codes of requests for which no policies are asked.
    """

    is_authenticating: bool
    is_authorizing: bool
    init_user: User | None
    inner: Credentials | None
    authentication_whitelist: frozenset[int]
    authorization_whitelist: frozenset[int]

    @property
    def open_codes(self) -> frozenset[int]:
        """Codes of requests that everybody may send; without a name no policy can be asked."""
        if not self.is_authorizing:
            return self.authentication_whitelist
        return self.authentication_whitelist & self.authorization_whitelist

    @property
    def inner_users(self) -> list[User]:
        """The user as which servers ask each other, if there is one."""
        if self.inner is None:
            return []
        return [User(self.inner.access_key, self.inner.secret_key, UserType.SUPER)]

    @property
    def users(self) -> list[User]:
        """The users that the configuration names, who are Super users."""
        return ([] if self.init_user is None else [self.init_user]) + self.inner_users


def auth_settings(config: AuthConfig) -> AuthSettings:
    """Reads the settings, and checks that they fit together.

    Raises:
        ConfigError: they do not; the text names the keys, and never a secret.
    """
    user = _object("initAuthenticationUser", config.init_authentication_user, _USER_EXAMPLE)
    inner = inner_credentials(config.inner_client_authentication_credentials)
    if config.authorization_enabled and not config.authentication_enabled:
        raise ConfigError(
            "authorizationEnabled needs authenticationEnabled: without a signature anybody could "
            "take another user's name"
        )
    settings = AuthSettings(
        is_authenticating=config.authentication_enabled,
        is_authorizing=config.authorization_enabled,
        init_user=None
        if user is None
        else User(user["username"], user["password"], UserType.SUPER),
        inner=inner,
        authentication_whitelist=_codes("authenticationWhitelist", config.authentication_whitelist),
        authorization_whitelist=_codes("authorizationWhitelist", config.authorization_whitelist),
    )
    passwords: dict[str, str] = {}
    for named in settings.users:
        if passwords.setdefault(named.username, named.password) != named.password:
            raise ConfigError(
                f"initAuthenticationUser and innerClientAuthenticationCredentials are both of "
                f"{named.username} and have different secrets"
            )
    return settings


def inner_credentials(value: JsonOrMapping) -> Credentials | None:
    """Reads the credentials of the servers of a cluster; None if there are none.

    Raises:
        ConfigError: they are not of the form that they must have.
    """
    found = _object("innerClientAuthenticationCredentials", value, _INNER_EXAMPLE)
    if found is None:
        return None
    return Credentials(found["accessKey"], found["secretKey"], found.get("securityToken"))


def check_inner(settings: AuthSettings, reason: str) -> None:
    """Checks that a server that authenticates has the credentials of the cluster's servers.

    Args:
        settings: of the server.
        reason: why they are needed.

    Raises:
        ConfigError: it has none.
    """
    if settings.is_authenticating and settings.inner is None:
        raise ConfigError(
            f"authenticationEnabled needs innerClientAuthenticationCredentials here: {reason}. Set "
            f"the same in all brokers and name servers of the cluster, such as {_INNER_EXAMPLE}"
        )


def _object(key: str, value: JsonOrMapping, example: str) -> dict[str, str] | None:
    """Reads a setting that is an object of texts; None if it is empty."""
    if not value:
        return None
    names = json.loads(example)
    found: object = value
    if isinstance(value, str):
        try:
            found = json.loads(value)
        except ValueError:  # its text would repeat the secret
            found = None
    if not isinstance(found, Mapping) or not all(
        isinstance(found.get(name), str) and found[name] for name in names
    ):
        raise ConfigError(f"{key} must be of the form {example}, and none of it empty") from None
    return {str(name): text for name, text in found.items() if isinstance(text, str)}


def _codes(key: str, text: str) -> frozenset[int]:
    try:
        return frozenset(int(part) for part in text.split(",") if part.strip())
    except ValueError:
        raise ConfigError(
            f"{key} is {text!r}: it must be request codes with commas between, such as 105,34"
        ) from None
