"""Settings of a proxy, with RocketMQ's key names where it has the setting (`ProxyConfig`)."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from pocketmq.auth.settings import JsonOrMapping, inner_credentials
from pocketmq.protocol.errors import ConfigError
from pocketmq.protocol.signing import Credentials
from pocketmq.runtime.settings import settings_repr

Port = Annotated[int, Meta(ge=0, le=65535)]

SECRET_KEYS = frozenset(
    {
        "secretKey",
        "tlsServerKeyPassword",
        "tlsClientKeyPassword",
        "innerClientAuthenticationCredentials",
    }
)


class ProxyConfig(msgspec.Struct, rename="camel", kw_only=True):
    """The settings of a proxy; the keys of its YAML file are these names in camel case.

    Attributes:
        namesrv_addr: the name servers of the cluster, with semicolons between.
        grpc_server_port: where to listen; 0 lets the system choose.
        bind_address: the local address to listen on; any but the loopback address needs the next
            setting, unless clients are asked for signatures.
        insecure: be open to everybody who reaches the address, on purpose.
        authentication_enabled: ask clients for signatures, as the brokers of the cluster do;
            their users are asked of the brokers.
        authorization_enabled: whether the brokers ask policies.
        inner_client_authentication_credentials: the same as in the brokers, with which they tell
            the proxy their users.
        access_key, secret_key: without authentication, of the user in whose name the proxy asks
            brokers that demand signatures. All of its clients may do what that user may.
        connections_max: how many connections may be open.
        connections_max_of_address: how many of one address.
        tls_server_mode: permissive takes plain connections and those over TLS, disabled and
            enforcing only one kind.
        tls_server_cert_path: the file of the certificate, PEM; without it the proxy makes itself
            one at the start, which the SDKs that speak TLS by default take.
        tls_server_key_path: the file of its private key, PEM.
        tls_server_key_password: of that file.
        tls_server_need_client_auth: none, optional or require: whether clients must show a
            certificate.
        tls_server_trust_cert_path: the file of the authorities whose certificates they may show.
        tls_ciphers: cipher suites of TLS 1.2 as OpenSSL names them; empty for its own choice.
        tls_enable: speak TLS to name servers and brokers.
        tls_client_trust_cert_path: the file of the authorities that may sign their certificates.
        tls_client_cert_path, tls_client_key_path, tls_client_key_password: what the proxy shows
            them.
        tls_client_verify: check their certificates.
        metrics_exporter_type: PROM lets Prometheus scrape the proxy (docs/metrics.md); DISABLE.
        metrics_prom_exporter_port: where; 0 lets the system choose.
        metrics_prom_exporter_host: the address that it is scraped on.
        proxy_cluster_name: the name of the cluster in the labels of its metrics.
        proxy_name: its own name there; by default that of the machine.
    """

    namesrv_addr: str = "127.0.0.1:9876"
    grpc_server_port: Port = 8081
    bind_address: str = "127.0.0.1"
    insecure: bool = False
    authentication_enabled: bool = False
    authorization_enabled: bool = False
    inner_client_authentication_credentials: JsonOrMapping = ""
    access_key: str = ""
    secret_key: str = ""
    connections_max: Annotated[int, Meta(ge=1)] = 15_000
    connections_max_of_address: Annotated[int, Meta(ge=1)] = 15_000

    tls_server_mode: str = "permissive"
    tls_server_cert_path: str = ""
    tls_server_key_path: str = ""
    tls_server_key_password: str = ""
    tls_server_need_client_auth: str = "none"
    tls_server_trust_cert_path: str = ""
    tls_ciphers: str = ""
    tls_enable: bool | None = False
    tls_client_trust_cert_path: str = ""
    tls_client_cert_path: str = ""
    tls_client_key_path: str = ""
    tls_client_key_password: str = ""
    tls_client_verify: bool = True

    metrics_exporter_type: Literal["DISABLE", "PROM"] = "DISABLE"
    metrics_prom_exporter_port: Port = 5557
    metrics_prom_exporter_host: str = "127.0.0.1"
    proxy_cluster_name: str = "DefaultCluster"
    proxy_name: str = ""

    def __repr__(self) -> str:
        return settings_repr(self, SECRET_KEYS)

    @property
    def name_servers(self) -> list[str]:
        """The addresses of the name servers.

        Raises:
            ConfigError: there is none.
        """
        parts = self.namesrv_addr.replace(",", ";").split(";")
        found = [part.strip() for part in parts if part.strip()]
        if not found:
            raise ConfigError("a proxy needs name servers: set namesrvAddr, such as host:9876")
        return found

    @property
    def credentials(self) -> Credentials | None:
        """With which the proxy signs; None for unsigned requests.

        Raises:
            ConfigError: there is half of them, or those of another kind are needed.
        """
        if self.authentication_enabled:
            if self.access_key or self.secret_key:
                raise ConfigError(
                    "accessKey and authenticationEnabled exclude each other: a proxy that asks for "
                    "signatures asks brokers in the names of its clients"
                )
            inner = inner_credentials(self.inner_client_authentication_credentials)
            if inner is None:
                raise ConfigError(
                    "authenticationEnabled needs innerClientAuthenticationCredentials here: set "
                    "the same as in the brokers, which tell the proxy their users"
                )
            return inner
        if self.authorization_enabled:
            raise ConfigError("authorizationEnabled needs authenticationEnabled")
        if bool(self.access_key) != bool(self.secret_key):
            raise ConfigError("accessKey and secretKey go together: set both, or none")
        return Credentials(self.access_key, self.secret_key) if self.access_key else None
