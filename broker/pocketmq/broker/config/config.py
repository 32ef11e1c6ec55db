"""A broker's settings, under RocketMQ's own names (`common/BrokerConfig`, `MessageStoreConfig`).

Sizes are bytes; times are milliseconds unless the name or the text says otherwise.
"""

from __future__ import annotations

import msgspec

from pocketmq.auth.settings import SECRET_KEYS, auth_settings, check_inner
from pocketmq.broker.config.controller import Controller, parse_controller
from pocketmq.broker.config.delay_levels import DELAY_LEVELS_DEFAULT, parse_delay_levels
from pocketmq.protocol.bodies.popping import POP, PULL
from pocketmq.protocol.bodies.routes import AdvertiseRule
from pocketmq.protocol.errors import ConfigError, ContentError
from pocketmq.protocol.names.advertise import parse_advertised
from pocketmq.protocol.names.names import TRACE_TOPIC
from pocketmq.runtime.settings import settings_repr
from pocketmq.transport.frame_budget import UNREAD_SIZE_MAX
from pocketmq.transport.slow_readers import SLOW_READER_TIMEOUT_S, UNSENT_SIZE_MAX
from pocketmq.transport.tls.settings import server_tls

ASYNC_FLUSH = "ASYNC_FLUSH"
SYNC_FLUSH = "SYNC_FLUSH"
METRICS_OFF, METRICS_PROM = "DISABLE", "PROM"
ASYNC_MASTER, SYNC_MASTER, SLAVE = "ASYNC_MASTER", "SYNC_MASTER", "SLAVE"

MIB = 1024 * 1024

TIMER_PRECISIONS_MS = (100, 200, 500, 1000)
TIMER_DELAY_SEC_MAX = 2**31 - 1
"""RocketMQ's number has 32 bits: 68 years."""

CONGESTION_UNLIMITED = 2**31 - 1
"""The value of `timerCongestNumEachSlot` that limits nothing."""


RANGES: dict[str, tuple[int, int]] = {
    "broker_id": (0, 2**31),
    "listen_port": (0, 65535),
    "grpc_server_port": (-1, 65535),
    "console_port": (0, 65535),
    "metrics_prom_exporter_port": (0, 65535),
    "metrics_max_series": (100, 10_000_000),
    "health_port": (0, 65535),
    "flush_interval_commit_log": (1, 600_000),
    "sync_flush_timeout": (1, 600_000),
    "wait_time_mills_in_send_queue": (1, 600_000),
    "os_page_cache_busy_time_out_mills": (1, 600_000),
    "flush_backlog_size_max": (64 * 1024, 1 << 40),
    "flush_consumer_offset_interval": (1, 600_000),
    **dict.fromkeys(
        (
            "requests_per_second_of_address",
            "bytes_per_second_of_address",
            "requests_per_second_of_client",
            "bytes_per_second_of_client",
            "requests_per_second_of_user",
            "bytes_per_second_of_user",
        ),
        (0, 1 << 40),
    ),
    "connections_max_of_address": (1, 1_000_000),
    "audit_log_size_max": (64 * 1024, 16 * 1024 * MIB),
    "segment_size": (64 * 1024, 16 * 1024 * MIB),
    "open_files_max": (16, 1_000_000),
    "file_reserved_time": (1, 24 * 3650),
    "clean_resource_interval": (100, 3_600_000),
    "disk_space_warning_level_ratio": (1, 100),
    "disk_space_clean_forcibly_ratio": (1, 100),
    "disk_space_free_min": (0, 1 << 62),
    "default_topic_queue_nums": (1, 65536),
    "max_message_size": (1, 15 * MIB),
    "broker_permission": (0, 7),
    "flush_delay_offset_interval": (1, 600_000),
    "transaction_check_interval": (1, 86_400_000),
    "transaction_time_out": (0, 86_400_000),
    "transaction_check_max": (1, 1_000_000),
    "timer_max_delay_sec": (1, TIMER_DELAY_SEC_MAX),
    "timer_congest_num_each_slot": (1, CONGESTION_UNLIMITED),
    "register_name_server_period": (10_000, 60_000),
    "register_broker_timeout_mills": (1, 600_000),
    "short_polling_time_mills": (0, 600_000),
    "max_transfer_count_on_message_in_memory": (1, 65536),
    "max_transfer_bytes_on_message_in_memory": (1, 15 * MIB),
    "max_transfer_bytes_on_bulk": (64 * 1024, 15 * MIB),
    "max_held_pulls": (0, 10_000_000),
    "max_held_pulls_of_connection": (0, 10_000_000),
    "pop_polling_size": (1, 1_000_000),
    "max_pop_polling_size": (1, 1_000_000),
    "pop_from_retry_probability": (0, 100),
    "max_pop_in_flight": (1, 100_000_000),
    "max_pop_in_flight_of_group": (1, 100_000_000),
    "default_pop_share_queue_num": (-1, 1_000_000),
    "max_topics": (100, 100_000_000),
    "max_groups": (100, 100_000_000),
    "max_names_of_connection": (1, 100_000_000),
    "idle_group_timeout": (1000, 365 * 86_400_000),
    "max_order_locks": (1, 10_000_000),
    "max_order_locks_of_group": (1, 10_000_000),
    "channel_expired_timeout": (1000, 86_400_000),
    "connection_idle_timeout": (1000, 86_400_000),
    "write_buffer_max": (2 * MIB, 1 << 40),
    "unsent_size_max": (2 * MIB, 1 << 40),
    "slow_reader_timeout": (100, 86_400_000),
    "unread_size_max": (MIB, 1 << 40),
    "connections_max": (1, 1_000_000),
    "min_in_sync_replicas": (1, 16),
    "slave_timeout": (1, 600_000),
    "leader_lease": (500, 600_000),
    "ha_max_time_slave_not_catchup": (100, 600_000),
    "access_message_in_memory_max_ratio": (0, 100),
}
"""The least and the most that a number may be, by attribute."""


class BrokerConfig(
    msgspec.Struct,
    rename="camel",
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
):
    """What a broker's YAML file may say; there the keys are in camel case, as RocketMQ's.

    Attributes:
        broker_cluster_name, broker_name, broker_id: who it is; id 0 is the master.
        namesrv_addr: name servers, separated by semicolons; it registers with all of them.
        listen_port: 0 lets the system choose.
        vip_channel_enable: listen on listen_port - 2 as well, for clients with vipChannelEnabled;
            unset: unless the system chose the port. RocketMQ always does.
        grpc_server_port: for RocketMQ 5's gRPC SDKs; -1: none, 0: the system chooses one. Where
            tlsServerMode is disabled, it takes plain calls and those over TLS, with a certificate
            that it makes itself.
        bind_address: the address that is listened on; any but the loopback address needs
            authentication, or the next setting. RocketMQ listens on all addresses.
        insecure: be open to everybody who reaches the address, on purpose.
        broker_ip1 (`brokerIP1`): the host that clients are told; bind_address, or the machine's own
            name, when empty.
        advertise: further addresses for some callers, see docs/deploy.md.
        store_path_root_dir: the data directory.
        flush_disk_type: ASYNC_FLUSH answers when the system has the data, SYNC_FLUSH when the disk
            has it.
        flush_interval_commit_log: how often written data is brought to the disk under ASYNC_FLUSH.
        sync_flush_timeout: how long SYNC_FLUSH waits before it answers FLUSH_DISK_TIMEOUT.
        broker_fast_failure_enable: refuse sends as busy (2) when the next two limits are passed.
        wait_time_mills_in_send_queue: how long a send may wait for its turn.
        os_page_cache_busy_time_out_mills: how long a flush of SYNC_FLUSH may be under way.
        flush_backlog_size_max: bytes that may wait for flushes before senders are not read from.
        flush_consumer_offset_interval: how often committed offsets are saved.
        segment_size: bytes of one log file of one queue.
        open_files_max: file handles kept open.
        file_reserved_time: hours that messages are kept, unless their topic has a reserve.time.
        clean_resource_interval: how often old data is looked for.
        disk_space_warning_level_ratio: used share of the disk, in percent, that refuses sends.
        disk_space_clean_forcibly_ratio: used share that removes the oldest data whatever its age.
        disk_space_free_min: free bytes with which neither share matters.
        auto_create_topic_enable: make unknown topics on the first send.
        default_topic_queue_nums: most queues of a topic made that way.
        auto_create_subscription_group: make unknown groups on first use.
        max_message_size: bytes of a message's body.
        broker_permission: 6 read and write, 4 read only, 2 write only.
        message_delay_level: the delays of levels 1, 2, 3, …, for messages sent from then on.
        flush_delay_offset_interval: how often it is saved which of them were delivered.
        reject_transaction_message: refuse transactional messages.
        transaction_check_interval: how often producers are asked about transactions that are open.
        transaction_time_out: how long after its birth a message is not asked about.
        transaction_check_max: how often it is asked about before it is given up.
        timer_wheel_enable: take timer messages; what waits is delivered anyway.
        timer_max_delay_sec: seconds that a timer message may ask for at the most.
        timer_precision_ms: width of the slots that the next limit and recalls count in: 100, 200,
            500 or 1000. Delivered is to the millisecond.
        timer_congest_num_each_slot: so many messages of one slot before some are refused, and
            twice as many before all are.
        recall_message_enable: let timer messages be called back; RocketMQ has it off.
        allow_recall_when_broker_not_writeable: also while brokerPermission forbids sends.
        register_name_server_period: how often it registers, 10 to 60 s.
        register_broker_timeout_mills: how long one registration may take.
        enable_single_topic_register: tell name servers changed topics one by one, as Apache's need
            it if they run with deleteTopicWithBrokerRegistration.
        enable_property_filter: allow SQL92 filters; RocketMQ has them off.
        long_polling_enable: hold pulls that find nothing.
        short_polling_time_mills: how long they are held when long polling is off.
        max_transfer_count_on_message_in_memory: messages of one pull.
        max_transfer_bytes_on_message_in_memory: bytes of one pull.
        max_transfer_bytes_on_bulk: of one bulk pull.
        max_held_pulls: pulls that may wait for messages together.
        max_held_pulls_of_connection: those that one connection may have; a client that consumes
            more queues is answered at once, and asks again.
        pop_polling_size: pops of one group that may wait for messages of one queue or topic.
        max_pop_polling_size: pops that may wait for messages, of all groups together.
        pop_from_retry_probability: how many of hundred pops look at the retry topic first.
        max_pop_in_flight: popped messages that may be unacknowledged, of all groups together; a
            pop that would add more finds nothing.
        max_pop_in_flight_of_group: those of one group.
        default_message_request_mode: PULL or POP: how groups consume of which nobody has said it
            (mqadmin setConsumeMode).
        default_pop_share_queue_num: of how many other members each member pops the queues, too; -1
            and 0: of all.
        max_topics: topics of the broker; those of retries and dead letters are not refused.
        max_groups: consumer groups of the broker.
        max_names_of_connection: topics and groups that one connection may make by naming them, and
            groups in which it may be a member.
        idle_group_timeout: a group that was made on its first use is forgotten if nothing more is
            known of it for so long: no member, offset, lock or retry, and nothing that it pulled.
        max_order_locks: queues that may be locked for consumption in order, of all groups together.
        max_order_locks_of_group: of one group, and of those that one connection asked for.
        channel_expired_timeout: a client without a heartbeat for so long is forgotten.
        use_server_side_reset_offset: a reset of a group's offsets is done here and told to its
            consumers by their next pulls; otherwise they are sent the offsets, as by old brokers.
        notify_consumer_ids_changed_enable: tell a group's members when one comes or goes.
        region_id: goes into each message's MSG_REGION.
        trace_on: tell clients that their traces are wanted.
        trace_topic_enable: have the topic of traces from the start; else the first trace makes it
            like any topic.
        msg_trace_topic_name: of that topic.
        store_reply_message_enable: keep the replies to requests, besides delivering them.
        connection_idle_timeout, connections_max: limits of connections.
        write_buffer_max: bytes that one connection may leave unread before it is closed.
        unsent_size_max: bytes that all of them may; the one that left the most is closed then.
        slow_reader_timeout: so long a connection may read next to nothing of what waits for it.
        unread_size_max: bytes of unfinished large requests that may be held; beyond half of it,
            senders wait for room, and one that sends less than 512 KiB a second is cut off while
            others wait.
        authentication_enabled: take only requests that a known user has signed.
        authorization_enabled: ask the users' policies for each request.
        init_authentication_user: the first user, a Super user, made at the start if there is no
            user of the name: `username` and `password`, as JSON text or as a mapping.
        inner_client_authentication_credentials: with which the servers of the cluster sign what
            they ask each other, the same in all: `accessKey` and `secretKey`, as JSON or mapping.
        authentication_whitelist: codes of requests that need no signature, with commas between.
        authorization_whitelist: codes of requests that every user may send.
        authentication_password_visible: answer passwords when users are shown, as RocketMQ does.
        migrate_auth_from_v1_enabled: take over the accounts of plain_acl_path at the start.
        plain_acl_path: RocketMQ 4's file of accounts, or a folder of such files.
        secrets_key_path: a file with the key by which passwords are encrypted on the disk.
        audit_log_path: the file of the audit, a line for each administrative change and refused
            request; by default audit.log beside the data of a broker that authenticates.
        audit_log_size_max: bytes of that file; then it begins anew, and five earlier ones stay.
        audit_topic: a topic of this broker that gets the lines, too; none if it is empty.
        enable_controller_mode: be a member of a broker set: one brokerName, one leader, and
            followers that have what it has; each member with a brokerId of its own, from 1 on.
        controller_addr: where the set's arbiter is: the name server that has one (arbiterPath), or
            etcd://host:2379,host:2379 (etcds:// for TLS); empty for the only name server of
            namesrvAddr.
        etcd_user, etcd_password: of etcd, where it asks for a user.
        etcd_trust_cert_path: the file of the authorities whose certificates of etcd are taken, for
            etcds://; by default those of the system.
        etcd_cert_path, etcd_key_path, etcd_key_password: the member's own certificate and key, for
            an etcd that asks for one.
        broker_role: SYNC_MASTER, or nothing: the leader answers a send when all in-sync members
            have it; ASYNC_MASTER: when it has it itself. Which member leads is elected.
        min_in_sync_replicas: with fewer in-sync members, the leader among them, sends are refused.
        slave_timeout: how long a send waits for the in-sync members before it is answered with
            FLUSH_SLAVE_TIMEOUT.
        leader_lease: for so long, in milliseconds, a leader goes on without hearing of an in-sync
            member; a little later others elect another one.
        ha_max_time_slave_not_catchup: a follower that lacks what the leader wrote so many
            milliseconds ago leaves the in-sync set, until it has caught up.
        slave_read_enable: followers answer pulls, and the leader has groups that are far behind
            read from them.
        access_message_in_memory_max_ratio: a group is far behind in a queue if more bytes of the
            queue are behind its place than this part of the machine's memory, in percent: the
            leader would have to read them from the disk.
        offset_check_in_slave: a follower sends a consumer back that is beyond the follower's end,
            instead of sending it to the leader.
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
        tls_enable: speak TLS to name servers; unset: if tlsServerMode is enforcing.
        tls_client_trust_cert_path: the file of the authorities of their certificates; empty for
            those of the system.
        tls_client_cert_path, tls_client_key_path, tls_client_key_password: the broker's certificate
            for name servers that ask for one.
        tls_client_verify: check the certificates of name servers, and that they are for their host.
        metrics_exporter_type: PROM lets Prometheus scrape the broker (docs/metrics.md); DISABLE.
        metrics_prom_exporter_port: where; 0 lets the system choose.
        metrics_prom_exporter_host: the address that it is scraped on. Whoever reaches it learns the
            names of topics and groups, and how much they have to do.
        metrics_max_series: series of topics, groups and queues that one scrape has at the most.
        health_port: where `pocketmq broker` answers HTTP probes, /live and /ready; 0 is for none.
        health_host: the address that it answers them on. The answers tell no more than readiness.
        console_port: where `pocketmq broker` serves the console (docs/api.md); 0 is for none.
        console_host: the address that it listens on; any but the loopback address needs
            authentication, or insecure.
        console_read_only: the console refuses to change anything.
        console_no_bodies: the console shows no bodies of messages.
        console_path: before all links of the console, for a proxy that takes it away.
        console_forwarded_prefix: the proxy's header X-Forwarded-Prefix says that path.
        console_origin: where browsers see the console through a proxy, as https://mq.example.org.
    """

    broker_cluster_name: str = "DefaultCluster"
    broker_name: str = "broker-a"
    broker_id: int = 0
    namesrv_addr: str = ""
    listen_port: int = 10911
    vip_channel_enable: bool | None = None
    grpc_server_port: int = -1
    bind_address: str = "127.0.0.1"
    insecure: bool = False
    broker_ip1: str = msgspec.field(default="", name="brokerIP1")
    advertise: list[AdvertiseRule] = msgspec.field(default_factory=list)

    store_path_root_dir: str = "store"
    flush_disk_type: str = ASYNC_FLUSH
    flush_interval_commit_log: int = 1000
    sync_flush_timeout: int = 5000
    broker_fast_failure_enable: bool = True
    wait_time_mills_in_send_queue: int = 200
    os_page_cache_busy_time_out_mills: int = 1000
    flush_backlog_size_max: int = 256 * MIB
    flush_consumer_offset_interval: int = 5000
    segment_size: int = 64 * MIB
    open_files_max: int = 1024
    file_reserved_time: int = 72
    clean_resource_interval: int = 10_000
    disk_space_warning_level_ratio: float = 90.0
    disk_space_clean_forcibly_ratio: float = 85.0
    disk_space_free_min: int = 5 * 1024 * MIB

    auto_create_topic_enable: bool = True
    default_topic_queue_nums: int = 8
    auto_create_subscription_group: bool = True
    max_message_size: int = 4 * MIB
    broker_permission: int = 6

    message_delay_level: str = DELAY_LEVELS_DEFAULT
    flush_delay_offset_interval: int = 1000

    reject_transaction_message: bool = False
    transaction_check_interval: int = 30_000
    transaction_time_out: int = 6_000
    transaction_check_max: int = 15
    timer_wheel_enable: bool = True
    timer_max_delay_sec: int = 3 * 86_400
    timer_precision_ms: int = 1000
    timer_congest_num_each_slot: int = CONGESTION_UNLIMITED
    recall_message_enable: bool = True
    allow_recall_when_broker_not_writeable: bool = True

    register_name_server_period: int = 30_000
    register_broker_timeout_mills: int = 24_000
    enable_single_topic_register: bool = False

    enable_property_filter: bool = True
    long_polling_enable: bool = True
    short_polling_time_mills: int = 1000
    max_transfer_count_on_message_in_memory: int = 32
    max_transfer_bytes_on_message_in_memory: int = 256 * 1024
    max_transfer_bytes_on_bulk: int = 8 * MIB
    max_held_pulls: int = 100_000
    max_held_pulls_of_connection: int = 60_000
    pop_polling_size: int = 1024
    max_pop_polling_size: int = 100_000
    pop_from_retry_probability: int = 20
    max_pop_in_flight: int = 2_000_000
    max_pop_in_flight_of_group: int = 500_000
    default_message_request_mode: str = PULL
    default_pop_share_queue_num: int = -1
    max_topics: int = 1_000_000
    max_groups: int = 100_000
    max_names_of_connection: int = 5_000
    idle_group_timeout: int = 3_600_000
    max_order_locks: int = 100_000
    max_order_locks_of_group: int = 20_000

    channel_expired_timeout: int = 120_000
    use_server_side_reset_offset: bool = True
    notify_consumer_ids_changed_enable: bool = True
    region_id: str = "DefaultRegion"
    trace_on: bool = True
    trace_topic_enable: bool = False
    msg_trace_topic_name: str = TRACE_TOPIC
    store_reply_message_enable: bool = True

    connection_idle_timeout: int = 120_000
    write_buffer_max: int = 64 * MIB
    unsent_size_max: int = UNSENT_SIZE_MAX
    slow_reader_timeout: int = round(SLOW_READER_TIMEOUT_S * 1000)
    unread_size_max: int = UNREAD_SIZE_MAX
    connections_max: int = 20_000

    authentication_enabled: bool = False
    authorization_enabled: bool = False
    init_authentication_user: str | dict[str, str] = ""
    inner_client_authentication_credentials: str | dict[str, str] = ""
    authentication_whitelist: str = ""
    authorization_whitelist: str = ""
    authentication_password_visible: bool = False
    migrate_auth_from_v1_enabled: bool = False
    plain_acl_path: str = ""
    secrets_key_path: str = ""
    audit_log_path: str = ""
    audit_log_size_max: int = 64 * MIB
    audit_topic: str = ""

    enable_controller_mode: bool = False
    controller_addr: str = ""
    etcd_user: str = ""
    etcd_password: str = ""
    etcd_trust_cert_path: str = ""
    etcd_cert_path: str = ""
    etcd_key_path: str = ""
    etcd_key_password: str = ""
    broker_role: str = ""
    min_in_sync_replicas: int = 1
    slave_timeout: int = 3000
    leader_lease: int = 5000
    ha_max_time_slave_not_catchup: int = 15_000
    slave_read_enable: bool = False
    access_message_in_memory_max_ratio: int = 40
    offset_check_in_slave: bool = False

    requests_per_second_of_address: int = 0
    bytes_per_second_of_address: int = 0
    requests_per_second_of_client: int = 0
    bytes_per_second_of_client: int = 0
    requests_per_second_of_user: int = 0
    bytes_per_second_of_user: int = 0
    connections_max_of_address: int = 15_000

    tls_server_mode: str = "disabled"
    tls_server_cert_path: str = ""
    tls_server_key_path: str = ""
    tls_server_key_password: str = ""
    tls_server_need_client_auth: str = "none"
    tls_server_trust_cert_path: str = ""
    tls_ciphers: str = ""
    tls_enable: bool | None = None
    tls_client_trust_cert_path: str = ""
    tls_client_cert_path: str = ""
    tls_client_key_path: str = ""
    tls_client_key_password: str = ""
    tls_client_verify: bool = True

    metrics_exporter_type: str = METRICS_OFF
    metrics_prom_exporter_port: int = 5557
    metrics_prom_exporter_host: str = "127.0.0.1"
    metrics_max_series: int = 30_000

    health_port: int = 0
    health_host: str = "127.0.0.1"

    console_port: int = 0
    console_host: str = "127.0.0.1"
    console_read_only: bool = False
    console_no_bodies: bool = False
    console_path: str = ""
    console_forwarded_prefix: bool = False
    console_origin: str = ""

    def __post_init__(self) -> None:
        """Checks the ranges of numbers and the other limits that types cannot express.

        Raises:
            ConfigError: a value is out of its range; the error names the key.
        """
        if self.flush_disk_type not in (ASYNC_FLUSH, SYNC_FLUSH):
            raise ConfigError(
                f"flushDiskType is {self.flush_disk_type!r}: it must be ASYNC_FLUSH or SYNC_FLUSH"
            )
        if self.default_message_request_mode not in (PULL, POP):
            raise ConfigError(
                f"defaultMessageRequestMode is {self.default_message_request_mode!r}: it must be "
                f"PULL or POP"
            )
        if not self.broker_name or not self.broker_cluster_name:
            raise ConfigError("brokerName and brokerClusterName must not be empty")
        for attribute, (low, high) in RANGES.items():
            value = getattr(self, attribute)
            if not low <= value <= high:
                key = _KEYS[attribute]
                raise ConfigError(f"{key} is {value}: it must be between {low} and {high}")
        if self.timer_precision_ms not in TIMER_PRECISIONS_MS:
            raise ConfigError(
                f"timerPrecisionMs is {self.timer_precision_ms}: it must be 100, 200, 500 or 1000"
            )
        if self.metrics_exporter_type not in (METRICS_OFF, METRICS_PROM):
            raise ConfigError(
                f"metricsExporterType is {self.metrics_exporter_type!r}: it must be "
                f"{METRICS_PROM} or {METRICS_OFF}; what OTLP_GRPC and LOG do in RocketMQ, a "
                f"collector does that scrapes"
            )
        parse_delay_levels(self.message_delay_level)
        if self.advertise:
            try:
                parse_advertised(self.advertise_text)
            except ContentError as e:
                raise ConfigError(f"advertise: {e}") from e
        self._check_authentication()
        self._check_set()
        server_tls(self)

    def __repr__(self) -> str:
        return settings_repr(self, SECRET_KEYS)

    def _check_authentication(self) -> None:
        settings = auth_settings(self)
        if self.migrate_auth_from_v1_enabled and not self.plain_acl_path:
            raise ConfigError(
                "migrateAuthFromV1Enabled needs plainAclPath: RocketMQ 4's file of accounts, such "
                "as conf/plain_acl.yml, or a folder of such files"
            )
        if self.namesrv_addr:
            check_inner(settings, "the broker signs with them what it asks name servers")

    def _check_set(self) -> None:
        if self.broker_role == SLAVE:
            raise ConfigError(
                "brokerRole is SLAVE: a slave is a member of a broker set here, and which member "
                "leads is elected; set enableControllerMode and a brokerId of its own in each "
                f"member, and brokerRole {SYNC_MASTER} or {ASYNC_MASTER}, or nothing, in all of "
                "them alike"
            )
        if self.broker_role not in ("", ASYNC_MASTER, SYNC_MASTER):
            raise ConfigError(
                f"brokerRole is {self.broker_role!r}: it must be {ASYNC_MASTER} or {SYNC_MASTER}; "
                f"which member of a set leads is not configured but elected"
            )
        if self.enable_controller_mode and not self.arbiter_text:
            raise ConfigError(
                "enableControllerMode needs controllerAddr: the name server that has an "
                "arbiterPath, host:port, or etcd://host:2379"
            )
        if self.broker_id and not self.enable_controller_mode:
            raise ConfigError(
                f"brokerId is {self.broker_id}, which is a slave's: to replicate, set "
                f"enableControllerMode in all brokers of this brokerName; to stand alone, leave "
                f"brokerId out"
            )
        if self.enable_controller_mode:
            self._check_etcd(parse_controller(self.arbiter_text))

    def _check_etcd(self, controller: Controller) -> None:
        if bool(self.etcd_user) != bool(self.etcd_password):
            raise ConfigError("etcdUser and etcdPassword go together: set both, or none")
        if bool(self.etcd_cert_path) != bool(self.etcd_key_path):
            raise ConfigError("etcdCertPath and etcdKeyPath go together: set both, or none")
        if not controller.is_tls and (self.etcd_trust_cert_path or self.etcd_cert_path):
            raise ConfigError(
                "etcdTrustCertPath and etcdCertPath are for TLS, but controllerAddr does not begin "
                "with etcds://"
            )

    @property
    def arbiter_text(self) -> str:
        """Where the arbiter of the broker set is: controllerAddr, else the only name server."""
        return self.controller_addr or ("" if ";" in self.namesrv_addr else self.namesrv_addr)

    @property
    def waits_for_replicas(self) -> bool:
        """Whether senders wait until the in-sync set has their messages."""
        return self.enable_controller_mode and self.broker_role != ASYNC_MASTER

    @property
    def flushes_at_once(self) -> bool:
        """Whether senders wait until the disk has their messages (SYNC_FLUSH)."""
        return self.flush_disk_type == SYNC_FLUSH

    @property
    def reserved_ms(self) -> int:
        """How long messages are kept (`file_reserved_time`)."""
        return self.file_reserved_time * 3_600_000

    @property
    def advertise_text(self) -> str:
        """The rules of `advertise` as name servers read them; empty without rules."""
        return msgspec.json.encode(self.advertise).decode() if self.advertise else ""


_KEYS = {field.name: field.encode_name for field in msgspec.structs.fields(BrokerConfig)}
