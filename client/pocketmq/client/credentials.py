"""The credentials of a client: given, of the process, or of the environment."""

from __future__ import annotations

import os
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pocketmq.protocol.errors import ConfigError
from pocketmq.protocol.signing import ACCESS_KEY, SECRET_KEY, SECURITY_TOKEN, Credentials, sign
from pocketmq.runtime.private_files import is_readable_by_others

if TYPE_CHECKING:
    from pocketmq.transport.connection import BeforeRequest

FILE_VARIABLE = "POCKETMQ_CREDENTIALS"
ACCESS_KEY_VARIABLE = "POCKETMQ_ACCESS_KEY"
SECRET_KEY_VARIABLE = "POCKETMQ_SECRET_KEY"  # noqa: S105 (the name of a variable)
SECURITY_TOKEN_VARIABLE = "POCKETMQ_SECURITY_TOKEN"  # noqa: S105

_FIELDS = {
    name.lower(): attribute
    for name, attribute in (
        (ACCESS_KEY, "access_key"),
        (SECRET_KEY, "secret_key"),
        (SECURITY_TOKEN, "security_token"),
    )
}

_of_process: ContextVar[Credentials | None] = ContextVar("credentials", default=None)


def use_credentials(credentials: Credentials | None) -> None:
    """Sets the credentials of clients that are made from now on without any of their own.

    They hold in the current context (`contextvars`); None leaves it to the environment again.
    """
    _of_process.set(credentials)


def default_credentials() -> Credentials | None:
    """The credentials of a client that is given none: of the process, or else of the environment.

    The environment names a file (POCKETMQ_CREDENTIALS), or the credentials themselves
    (POCKETMQ_ACCESS_KEY, POCKETMQ_SECRET_KEY, POCKETMQ_SECURITY_TOKEN).

    Raises:
        ConfigError: the file cannot be read, or one of the variables is missing.
    """
    credentials = _of_process.get()
    if credentials is not None:
        return credentials
    if path := os.environ.get(FILE_VARIABLE):
        return read_credentials(Path(path))
    access_key = os.environ.get(ACCESS_KEY_VARIABLE, "")
    secret_key = os.environ.get(SECRET_KEY_VARIABLE, "")
    if not access_key and not secret_key:
        return None
    if not access_key or not secret_key:
        missing = SECRET_KEY_VARIABLE if access_key else ACCESS_KEY_VARIABLE
        raise ConfigError(f"{missing} is not set: set both variables, or neither")
    return Credentials(access_key, secret_key, os.environ.get(SECURITY_TOKEN_VARIABLE) or None)


def chosen_credentials(given: Credentials | Literal[False] | None) -> Credentials | None:
    """The credentials of a client.

    Args:
        given: what it was told; None for the default, False for none.

    Raises:
        ConfigError: see `default_credentials`.
    """
    if given is None:
        return default_credentials()
    return given or None


def read_credentials(path: Path) -> Credentials:
    """Reads a file of credentials that only its owner may read.

    It has lines such as ``AccessKey=name`` (RocketMQ's rocketmq.client.keyFile), or
    ``accessKey: name`` (mqadmin's tools.yml), with SecretKey and perhaps SecurityToken beside it.

    Raises:
        ConfigError: the file cannot be read, others may read it, or a key is missing.
    """
    try:
        if is_readable_by_others(path):
            raise ConfigError(
                f"{path} holds a secret and others may read it (mode "
                f"{path.stat().st_mode & 0o777:04o}): chmod 600 {path}"
            )
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as e:
        reason = getattr(e, "strerror", None) or "it is no text"
        raise ConfigError(f"the credentials in {path} cannot be read: {reason}") from e
    found: dict[str, Any] = {}
    for line in text.splitlines():
        name, separator, value = line.partition("=") if "=" in line else line.partition(":")
        field = _FIELDS.get(name.strip().lower())
        if separator and field is not None:
            found[field] = value.strip().strip("\"'")
    if not found.get("access_key") or not found.get("secret_key"):
        raise ConfigError(f"{path} needs two lines: AccessKey=NAME and SecretKey=SECRET")
    return Credentials(**found)


def signing(credentials: Credentials | None) -> tuple[BeforeRequest, ...]:
    """The last of the functions that a pool calls before a request: none without credentials."""
    return () if credentials is None else (partial(sign, credentials=credentials),)


def credentials_text(credentials: Credentials) -> str:
    """The content of a file that `read_credentials` and RocketMQ's clients read."""
    lines = [f"{ACCESS_KEY}={credentials.access_key}", f"{SECRET_KEY}={credentials.secret_key}"]
    if credentials.security_token is not None:
        lines.append(f"{SECURITY_TOKEN}={credentials.security_token}")
    return "\n".join([*lines, ""])
