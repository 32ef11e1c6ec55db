"""Settings of a name server, with RocketMQ's key names (`common/namesrv/NamesrvConfig`)."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from pocketmq.auth.settings import FIXED_KEYS as AUTH_KEYS
from pocketmq.auth.settings import SECRET_KEYS
from pocketmq.runtime.settings import settings_repr

Port = Annotated[int, Meta(ge=0, le=65535)]
Milliseconds = Annotated[int, Meta(ge=1)]


class NamesrvConfig(msgspec.Struct, rename="camel", kw_only=True):
    """The settings of a name server; the keys of its YAML file are these names in camel case.

    Attributes:
        listen_port: where to listen; 0 lets the system choose.
        bind_address: the local address to listen on; any but the loopback address needs
            authentication, or the next setting. RocketMQ listens on all addresses.
        insecure: be open to everybody who reaches the address, on purpose.
        kv_config_path: the file of the KV configuration; without one it is kept in memory only.
        arbiter_path: the file of the arbiter of broker sets, for clusters with this name server
            alone; without one brokers that replicate need etcd.
        scan_not_active_broker_interval: how often silent brokers are looked for, in milliseconds.
        broker_expired_timeout: after so many milliseconds of silence a broker is dropped, unless
            it registered a time of its own (heartbeatTimeoutMillis).
        order_message_enable: add the order-topic configuration to routes.
        return_order_topic_config_to_broker: answer registrations with that configuration.
        need_wait_for_service: refuse route queries for a while after the start.
        wait_seconds_for_service: for how long, in seconds.
        delete_topic_with_broker_registration: topics that a broker no longer registers are dropped.
        support_acting_master: show the lowest slave of a broker without a master as its master.
        enable_all_topic_list: answer queries for all topics (206).
        enable_topic_list: answer queries for the topics of a cluster and for unit topics.
        config_black_list: further keys, separated by semicolons, that cannot be changed remotely.
        authentication_enabled: take only requests that a known user has signed.
        authorization_enabled: ask the users' policies for each request.
        init_authentication_user: a Super user that the name server always knows: `username` and
            `password`, as JSON text or as a mapping. Brokers tell the others.
        inner_client_authentication_credentials: with which the servers of the cluster sign what
            they ask each other, the same in all: `accessKey` and `secretKey`, as JSON or mapping.
        authentication_whitelist: codes of requests that need no signature, with commas between.
        authorization_whitelist: codes of requests that every user may send.
        audit_log_path: the file of the audit, a line for each administrative change and refused
            request; none if it is empty.
        audit_log_size_max: bytes of that file; then it begins anew, and five earlier ones stay.
        requests_per_second_of_address, bytes_per_second_of_address: what the clients of one
            address may ask for, and send, in a second; 0 is no limit.
        requests_per_second_of_client, bytes_per_second_of_client: the same of one connection.
        requests_per_second_of_user, bytes_per_second_of_user: the same of one user.
        connections_max_of_address: how many connections of one address may be open.
        tls_server_mode: disabled takes plain connections, enforcing those over TLS, permissive
            both.
        tls_server_cert_path: the file of the certificate, PEM, with those between it and the
            authority; looked at every 5 s, for new connections.
        tls_server_key_path: the file of its private key, PEM.
        tls_server_key_password: of that file.
        tls_server_need_client_auth: none, optional or require: whether clients must show a
            certificate.
        tls_server_trust_cert_path: the file of the authorities whose certificates they may show.
        tls_ciphers: cipher suites of TLS 1.2 as OpenSSL names them; empty for its own choice.
        tls_client_trust_cert_path: the file of the authorities of the cluster's certificates, for
            the console where tlsServerMode is enforcing; empty for those of the system.
        metrics_exporter_type: PROM lets Prometheus scrape the name server (docs/metrics.md);
            DISABLE.
        metrics_prom_exporter_port: where; 0 lets the system choose.
        metrics_prom_exporter_host: the address that it is scraped on.
        health_port: where `pocketmq namesrv` answers HTTP probes, /live and /ready; 0 is for none.
        health_host: the address that it answers them on. The answers tell no more than readiness.
        console_port: where `pocketmq namesrv` serves the console (docs/api.md); 0 is for none.
        console_host: the address that it listens on; any but the loopback address needs
            authentication, or insecure.
        console_read_only: the console refuses to change anything.
        console_no_bodies: the console shows no bodies of messages.
        console_path: before all links of the console, for a proxy that takes it away.
        console_forwarded_prefix: the proxy's header X-Forwarded-Prefix says that path.
        console_origin: where browsers see the console through a proxy, as https://mq.example.org.
    """

    listen_port: Port = 9876
    bind_address: str = "127.0.0.1"
    insecure: bool = False
    kv_config_path: str | None = None
    arbiter_path: str | None = None
    scan_not_active_broker_interval: Milliseconds = 5_000
    broker_expired_timeout: Milliseconds = 120_000
    order_message_enable: bool = False
    return_order_topic_config_to_broker: bool = True
    need_wait_for_service: bool = False
    wait_seconds_for_service: Annotated[int, Meta(ge=0)] = 45
    delete_topic_with_broker_registration: bool = False
    support_acting_master: bool = False
    enable_all_topic_list: bool = True
    enable_topic_list: bool = True
    config_black_list: str = "configBlackList;configStorePath;kvConfigPath"

    authentication_enabled: bool = False
    authorization_enabled: bool = False
    init_authentication_user: str | dict[str, str] = ""
    inner_client_authentication_credentials: str | dict[str, str] = ""
    authentication_whitelist: str = ""
    authorization_whitelist: str = ""

    audit_log_path: str = ""
    audit_log_size_max: Annotated[int, Meta(ge=64 * 1024)] = 64 * 1024 * 1024

    requests_per_second_of_address: Annotated[int, Meta(ge=0)] = 0
    bytes_per_second_of_address: Annotated[int, Meta(ge=0)] = 0
    requests_per_second_of_client: Annotated[int, Meta(ge=0)] = 0
    bytes_per_second_of_client: Annotated[int, Meta(ge=0)] = 0
    requests_per_second_of_user: Annotated[int, Meta(ge=0)] = 0
    bytes_per_second_of_user: Annotated[int, Meta(ge=0)] = 0
    connections_max_of_address: Annotated[int, Meta(ge=1)] = 15_000

    tls_server_mode: str = "disabled"
    tls_server_cert_path: str = ""
    tls_server_key_path: str = ""
    tls_server_key_password: str = ""
    tls_server_need_client_auth: str = "none"
    tls_server_trust_cert_path: str = ""
    tls_ciphers: str = ""
    tls_client_trust_cert_path: str = ""

    metrics_exporter_type: Literal["DISABLE", "PROM"] = "DISABLE"
    metrics_prom_exporter_port: Port = 5557
    metrics_prom_exporter_host: str = "127.0.0.1"

    health_port: Port = 0
    health_host: str = "127.0.0.1"

    console_port: Port = 0
    console_host: str = "127.0.0.1"
    console_read_only: bool = False
    console_no_bodies: bool = False
    console_path: str = ""
    console_forwarded_prefix: bool = False
    console_origin: str = ""

    def __repr__(self) -> str:
        return settings_repr(self, SECRET_KEYS)


CONSOLE_KEYS = frozenset(
    {
        "consolePort",
        "consoleHost",
        "consoleReadOnly",
        "consoleNoBodies",
        "consolePath",
        "consoleForwardedPrefix",
        "consoleOrigin",
    }
)

FIXED_KEYS = (
    AUTH_KEYS
    | CONSOLE_KEYS
    | {
        "listenPort",
        "metricsExporterType",
        "metricsPromExporterPort",
        "metricsPromExporterHost",
        "healthPort",
        "healthHost",
        "bindAddress",
        "insecure",
        "kvConfigPath",
        "arbiterPath",
        "configBlackList",
        "configStorePath",
        "rocketmqHome",
    }
)
"""Keys that only the file can change: they are read at the start, or name files."""
