"""How servers and clients speak TLS, in RocketMQ's terms (`remoting/netty/TlsSystemConfig`)."""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol

import msgspec

from pocketmq.protocol.errors import ConfigError
from pocketmq.protocol.signing import MASK

SECRET_KEYS = frozenset({"tlsServerKeyPassword", "tlsClientKeyPassword"})
"""Settings that hold secrets: they are never shown."""

FIXED_KEYS = SECRET_KEYS | {
    "tlsServerMode",
    "tlsServerCertPath",
    "tlsServerKeyPath",
    "tlsServerNeedClientAuth",
    "tlsServerTrustCertPath",
    "tlsCiphers",
    "tlsEnable",
    "tlsClientTrustCertPath",
    "tlsClientCertPath",
    "tlsClientKeyPath",
    "tlsClientVerify",
}
"""Settings that only the configuration file can change."""


class TlsMode(StrEnum):
    """Which connections a server takes (tls.server.mode)."""

    DISABLED = "disabled"
    """Plain ones."""
    PERMISSIVE = "permissive"
    """Plain ones and those over TLS, on the same port."""
    ENFORCING = "enforcing"
    """Those over TLS."""


class ClientAuth(StrEnum):
    """Whether clients must show a certificate (tls.server.need.client.auth)."""

    NONE = "none"
    OPTIONAL = "optional"
    REQUIRE = "require"


class ServerTls(msgspec.Struct, frozen=True, kw_only=True):
    """How a server speaks TLS.

    Attributes:
        mode: which connections it takes.
        cert_path: the file of its certificate and of those between it and the authority, as PEM.
        key_path: the file of its private key, as PEM.
        key_password: of the key's file; empty for none.
        client_auth: whether clients must show a certificate.
        trust_cert_path: the file of the authorities whose certificates of clients it takes.
        ciphers: the cipher suites of TLS 1.2, as OpenSSL writes them; empty for its own choice.
    """

    mode: TlsMode = TlsMode.DISABLED
    cert_path: str = ""
    key_path: str = ""
    key_password: str = ""
    client_auth: ClientAuth = ClientAuth.NONE
    trust_cert_path: str = ""
    ciphers: str = ""

    def __repr__(self) -> str:
        return f"ServerTls(mode={self.mode.value!r}, cert_path={self.cert_path!r}, ...)"


class ClientTls(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How a client speaks TLS.

    Attributes:
        trust_cert_path: the file of the authorities whose certificates of servers are taken, as
            PEM; by default those of the system.
        trust_certs: the same as text, instead of a file.
        cert_path, key_path, key_password: the client's own certificate and key, for servers that
            ask for one.
        verify: check the server's certificate, and that it is for the host that was dialled.
            Without it, whoever stands between can read and change everything.
    """

    trust_cert_path: str = ""
    trust_certs: str = ""
    cert_path: str = ""
    key_path: str = ""
    key_password: str = ""
    verify: bool = True

    def __repr__(self) -> str:
        password = f", key_password={MASK!r}" if self.key_password else ""
        return (
            f"ClientTls(trust_cert_path={self.trust_cert_path!r}, cert_path={self.cert_path!r}"
            f"{password}, verify={self.verify})"
        )


class ServerTlsConfig(Protocol):
    """The settings of a server's file that `server_tls` reads."""

    @property
    def tls_server_mode(self) -> str: ...  # noqa: D102

    @property
    def tls_server_cert_path(self) -> str: ...  # noqa: D102

    @property
    def tls_server_key_path(self) -> str: ...  # noqa: D102

    @property
    def tls_server_key_password(self) -> str: ...  # noqa: D102

    @property
    def tls_server_need_client_auth(self) -> str: ...  # noqa: D102

    @property
    def tls_server_trust_cert_path(self) -> str: ...  # noqa: D102

    @property
    def tls_ciphers(self) -> str: ...  # noqa: D102


class ClientTlsConfig(ServerTlsConfig, Protocol):
    """The settings of a broker's file that `client_tls` reads."""

    @property
    def tls_enable(self) -> bool | None: ...  # noqa: D102

    @property
    def tls_client_trust_cert_path(self) -> str: ...  # noqa: D102

    @property
    def tls_client_cert_path(self) -> str: ...  # noqa: D102

    @property
    def tls_client_key_path(self) -> str: ...  # noqa: D102

    @property
    def tls_client_key_password(self) -> str: ...  # noqa: D102

    @property
    def tls_client_verify(self) -> bool: ...  # noqa: D102


def server_tls(config: ServerTlsConfig) -> ServerTls:
    """Reads the TLS settings of a server, and checks that they fit together.

    Raises:
        ConfigError: they do not; the text names the keys.
    """
    try:
        mode = TlsMode(config.tls_server_mode)
    except ValueError:
        raise ConfigError(
            f"tlsServerMode is {config.tls_server_mode!r}: it must be disabled, permissive or "
            f"enforcing"
        ) from None
    wanted = config.tls_server_need_client_auth
    try:
        # RocketMQ's documents say "required", which its code takes for "none".
        client_auth = ClientAuth.REQUIRE if wanted == "required" else ClientAuth(wanted)
    except ValueError:
        raise ConfigError(
            f"tlsServerNeedClientAuth is {wanted!r}: it must be none, optional or require"
        ) from None
    settings = ServerTls(
        mode=mode,
        cert_path=config.tls_server_cert_path,
        key_path=config.tls_server_key_path,
        key_password=config.tls_server_key_password,
        client_auth=client_auth,
        trust_cert_path=config.tls_server_trust_cert_path,
        ciphers=config.tls_ciphers,
    )
    if mode is TlsMode.DISABLED:
        return settings
    if not settings.cert_path or not settings.key_path:
        raise ConfigError(
            f"tlsServerMode {mode.value} needs tlsServerCertPath and tlsServerKeyPath: the files "
            f"of the certificate and its key (`pocketmq up --secure` makes them)"
        )
    if client_auth is not ClientAuth.NONE and not settings.trust_cert_path:
        raise ConfigError(
            f"tlsServerNeedClientAuth {client_auth.value} needs tlsServerTrustCertPath: the file "
            f"of the authorities whose certificates are taken"
        )
    return settings


def client_tls(config: ClientTlsConfig) -> ClientTls | None:
    """How a broker speaks to name servers; None for plain connections.

    As RocketMQ's, it speaks TLS if its own clients have to, unless tlsEnable says otherwise.
    """
    is_enabled = config.tls_enable
    if is_enabled is None:
        is_enabled = config.tls_server_mode == TlsMode.ENFORCING
    if not is_enabled:
        return None
    return ClientTls(
        trust_cert_path=config.tls_client_trust_cert_path,
        cert_path=config.tls_client_cert_path,
        key_path=config.tls_client_key_path,
        key_password=config.tls_client_key_password,
        verify=config.tls_client_verify,
    )
