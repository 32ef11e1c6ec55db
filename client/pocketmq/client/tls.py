"""Whether and how a client speaks TLS: as it is told, as the process is, or the environment."""

from __future__ import annotations

import os
from contextvars import ContextVar
from pathlib import Path

import msgspec

from pocketmq.protocol.errors import ConfigError
from pocketmq.transport.tls.settings import ClientTls

TLS_VARIABLE = "POCKETMQ_TLS"
TRUST_VARIABLE = "POCKETMQ_TLS_TRUST_CERT"
CERT_VARIABLE = "POCKETMQ_TLS_CERT"
KEY_VARIABLE = "POCKETMQ_TLS_KEY"

_ON = ("true", "1", "yes", "on")
_OFF = ("", "false", "0", "no", "off")

_of_process: ContextVar[ClientTls | None] = ContextVar("tls", default=None)


def use_tls(tls: ClientTls | None) -> None:
    """Sets how clients speak TLS that are made from now on without any word about it.

    It holds in the current context (`contextvars`); None leaves it to the environment again.
    """
    _of_process.set(tls)


def default_tls() -> ClientTls | None:
    """How a client speaks TLS that is not told; None for plain connections.

    The environment says so by POCKETMQ_TLS=true, or by naming the file of the authorities
    (POCKETMQ_TLS_TRUST_CERT). POCKETMQ_TLS_CERT and POCKETMQ_TLS_KEY name the client's own files.

    Raises:
        ConfigError: POCKETMQ_TLS is neither true nor false.
    """
    tls = _of_process.get()
    if tls is not None:
        return tls
    trust_cert_path = os.environ.get(TRUST_VARIABLE, "")
    switch = os.environ.get(TLS_VARIABLE, "true" if trust_cert_path else "").lower()
    if switch in _OFF:
        return None
    if switch not in _ON:
        raise ConfigError(f"{TLS_VARIABLE} is {switch!r}: it must be true or false")
    return ClientTls(
        trust_cert_path=trust_cert_path,
        cert_path=os.environ.get(CERT_VARIABLE, ""),
        key_path=os.environ.get(KEY_VARIABLE, ""),
    )


def chosen_tls(given: ClientTls | bool | None) -> ClientTls | None:
    """How a client speaks TLS.

    Args:
        given: what it was told; True for the default or else the system's authorities, False for
            plain connections, None for the default.
    """
    if given is None:
        return default_tls()
    if given is True:
        return default_tls() or ClientTls()
    return given or None


def portable_tls(tls: ClientTls) -> ClientTls:
    """The same with the text of its authorities' file, for processes on other machines.

    Raises:
        ConfigError: the file cannot be read.
    """
    if not tls.trust_cert_path:
        return tls
    try:
        text = Path(tls.trust_cert_path).expanduser().read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as e:
        reason = getattr(e, "strerror", None) or "it is no PEM"
        raise ConfigError(f"TLS: {tls.trust_cert_path} cannot be read: {reason}") from e
    return msgspec.structs.replace(tls, trust_cert_path="", trust_certs=text)
