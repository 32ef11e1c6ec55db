"""Options of the data source, named as Spark's Kafka source names them where they mean the same."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from pocketmq.client.credentials import FILE_VARIABLE, default_credentials, read_credentials
from pocketmq.client.instance.addresses import NAMESRV_VARIABLE, namesrv_addresses
from pocketmq.client.tls import chosen_tls, portable_tls
from pocketmq.protocol.errors import ConfigError, UsageError
from pocketmq.protocol.names.names import check_topic
from pocketmq.protocol.signing import Credentials
from pocketmq.spark.errors import OptionError, nearest
from pocketmq.spark.filtering import Expression, read_expression
from pocketmq.transport.tls.settings import ClientTls

if TYPE_CHECKING:
    from pocketmq.client.instance.instance import ClientInstance

FORMAT = "pocketmq"
"""The name of the data source in ``format(...)``."""

MEBIBYTE = 1024 * 1024

WRITER_ID_SIZE_MAX = 100
_WRITER_ID = re.compile(r"[A-Za-z0-9_.:/%|-]+")

COMMIT_TOPIC = "SPARK_COMMITS"

ALIASES = {
    "nameserver": "namesrvAddr",
    "nameserveraddr": "namesrvAddr",
    "group": "consumerGroup",
    "includeheaders": "includeProperties",
    "subexpression": "filter",
    "pulltimeout": "pullTimeoutMs",
}
"""Other names of options, in small letters; `topic` and `subscribe` stand for each other."""

TOOLS_CONSUMER = "TOOLS_CONSUMER"
"""A group that every broker knows, for reading without one."""

_SECRETS = (
    "what options say stands in plans and logs; name a file by 'credentialsFile', or set "
    f"{FILE_VARIABLE} where the driver runs"
)

REFUSED = {
    "kafka.bootstrap.servers": "the name servers are given by 'namesrvAddr'",
    "kafka.group.id": "the group is given by 'consumerGroup'",
    "pullbatchsize": "the bytes of a pull are given by 'maxMsgBytes'",
    "accesskey": _SECRETS,
    "secretkey": _SECRETS,
    "credentials": _SECRETS,
    "path": "a topic is given by the option 'topic', not as a path",
}
"""Options of other sources, and what is to be used here."""


SPARK_OPTIONS = frozenset({"checkpointlocation", "queryname"})
"""Of every stream that is written; they are for Spark itself."""


class ClusterOptions(msgspec.Struct, rename="camel", frozen=True, kw_only=True):
    """Which cluster, and as whom: what reads and writes have in common.

    The credentials travel from the driver to the executors within readers and writers, so that no
    plan, log or page of Spark's shows them; and the authorities' certificates, so that executors
    need no file.
    """

    namesrv_addr: str = ""
    credentials_file: str = ""
    credentials: Credentials | None = None
    tls: bool | None = None
    tls_trust_cert: str = ""
    client_tls: ClientTls | bool | None = None

    def client(self) -> ClientInstance:
        """Makes a client of the cluster."""
        from pocketmq.client.instance.instance import ClientInstance

        return ClientInstance(self.namesrv_addr, credentials=self.credentials, tls=self.client_tls)


class WriteOptions(ClusterOptions, frozen=True, kw_only=True):
    """How rows are written.

    Attributes:
        namesrv_addr: the name servers, ``host:port;host:port``; by default NAMESRV_ADDR.
        credentials_file: a file on the driver's machine with AccessKey and SecretKey.
        tls: speak TLS; by default as the driver's environment says.
        tls_trust_cert: speak TLS; a file on the driver's machine with the authorities'
            certificates.
        topic: where the rows go; without it the column topic of each row says so.
        large_row_topic: where rows go whose value is above maxMessageSize; without it they fail
            the job.
        producer_group: named in each request.
        routing: `auto` (by the column queueId or shardingKey if there is one, else in turn),
            `key` (by hash of the column keys) or `roundRobin`.
        send_timeout_ms: how long one request may take.
        retry_times_when_send_failed: further attempts of a request.
        batch_bytes: bytes of one request; brokers other than PocketMQ get at most 1 MiB.
        batch_rows: messages of one request.
        in_flight_bytes: bytes of one task that may wait for their answer.
        max_message_size: bytes of one value.
        rows_per_second: of each task, at the most; 0 for as many as possible.
        create_topic_queues: create the topic, if it is unknown, with so many queues on each broker.
        commit_file: a file on the driver's machine to which a report is written at the end.
        mark_rows: give each row a mark, so that a reader can drop repeats.
        writer_id: who writes; what stays the same when the job is run again. Given, it marks rows.
        commit_topic: where marked writes say which of their rows count.
    """

    topic: str = ""
    large_row_topic: str = ""
    producer_group: str = "pocketmq-spark"
    routing: str = "auto"
    send_timeout_ms: int = 30_000
    retry_times_when_send_failed: int = 5
    batch_bytes: int = 4 * MEBIBYTE
    batch_rows: int = 50_000
    in_flight_bytes: int = 16 * MEBIBYTE
    max_message_size: int = 4 * MEBIBYTE
    rows_per_second: int = 0
    create_topic_queues: int = 0
    commit_file: str | None = None
    mark_rows: bool = False
    writer_id: str = ""
    commit_topic: str = COMMIT_TOPIC

    @property
    def is_marked(self) -> bool:
        """Whether rows get marks."""
        return self.mark_rows or bool(self.writer_id)


class ReadOptions(ClusterOptions, frozen=True, kw_only=True):
    """Which messages are read, and how.

    Attributes:
        namesrv_addr: the name servers, ``host:port;host:port``; by default NAMESRV_ADDR.
        credentials_file: a file on the driver's machine with AccessKey and SecretKey.
        tls: speak TLS; by default as the driver's environment says.
        tls_trust_cert: speak TLS; a file on the driver's machine with the authorities'
            certificates.
        subscribe: the topics, separated by commas.
        subscribe_pattern: instead, a regular expression of topics' names.
        assign: instead, queues as JSON ``{"topic": {"broker": [queue, queue]}}``.
        filter: what the broker leaves out: tags as ``new || paid``, or an SQL92 condition.
        expression_type: `TAG` or `SQL92`.
        starting_offsets: `earliest`, or JSON ``{"topic": {"broker": {"queue": offset}}}``.
        ending_offsets: `latest`, or such JSON; an offset of -1 is the latest, -2 the earliest.
        starting_timestamp, ending_timestamp: store times instead, in milliseconds or ISO 8601; what
            was stored at the ending time is not read.
        starting_offsets_by_timestamp, ending_offsets_by_timestamp: store times by queue, as JSON
            ``{"topic": {"broker": {"queue": milliseconds}}}``.
        fail_on_data_loss: fail if messages that were asked for are not there any more.
        min_partitions: read in at least so many tasks; a queue may be split.
        max_records_per_partition: offsets of one task at the most; 0 for no bound.
        include_properties: with the column properties.
        consumer_group: named in each pull; nothing is committed for it.
        pull_timeout_ms: how long one pull may take.
        retry_times_when_pull_failed: further attempts of a pull.
        max_msg_bytes: bytes of one pull from a PocketMQ broker.
        drop_repeats: leave out what marked writes repeated, and what failed jobs left behind.
        commit_topic: where marked writes said which of their rows count.
    """

    subscribe: str = ""
    subscribe_pattern: str = ""
    assign: str = ""
    filter: str = ""
    expression_type: str = "TAG"
    starting_offsets: str = "earliest"
    ending_offsets: str = "latest"
    starting_timestamp: str = ""
    ending_timestamp: str = ""
    starting_offsets_by_timestamp: str = ""
    ending_offsets_by_timestamp: str = ""
    fail_on_data_loss: bool = True
    min_partitions: int = 0
    max_records_per_partition: int = 0
    include_properties: bool = True
    consumer_group: str = TOOLS_CONSUMER
    pull_timeout_ms: int = 30_000
    retry_times_when_pull_failed: int = 5
    max_msg_bytes: int = 4 * MEBIBYTE
    drop_repeats: bool = False
    commit_topic: str = COMMIT_TOPIC

    @property
    def expression(self) -> Expression:
        """The expression by which the broker filters."""
        return read_expression(self.filter, self.expression_type)

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics to read, each once."""
        return tuple(dict.fromkeys(t.strip() for t in self.subscribe.split(",") if t.strip()))


ReadOptionsT = TypeVar("ReadOptionsT", bound=ReadOptions)

ROUTINGS = ("auto", "key", "roundRobin")
_POSITIVE = {
    "send_timeout_ms", "batch_bytes", "batch_rows", "in_flight_bytes", "max_message_size",
    "pull_timeout_ms", "max_msg_bytes", "max_offsets_per_trigger", "min_offsets_per_trigger",
}  # fmt: skip
_NOT_NEGATIVE = {
    "rows_per_second", "retry_times_when_send_failed", "create_topic_queues", "min_partitions",
    "max_records_per_partition",
    "retry_times_when_pull_failed",
}  # fmt: skip
BATCH_BYTES_MAX = 12 * MEBIBYTE
"""A request must fit a frame (16 MiB) with a message of its own above the bound."""


def write_options(given: Mapping[str, str]) -> WriteOptions:
    """Reads the options of a write.

    Raises:
        OptionError: an option is unknown, missing or does not fit.
    """
    options: WriteOptions = _take(WriteOptions, given, topic_name="topic")
    if options.routing not in ROUTINGS:
        raise OptionError(
            f"option 'routing' is {options.routing!r}; {nearest(options.routing, ROUTINGS)}"
        )
    if options.batch_bytes > BATCH_BYTES_MAX:
        raise OptionError(
            f"option 'batchBytes' is {options.batch_bytes}, more than {BATCH_BYTES_MAX} do not "
            f"fit a frame"
        )
    for topic in (options.topic, options.large_row_topic, options.commit_topic):
        if topic:
            _check_topic(topic)
    if options.writer_id:
        _check_writer_id(options.writer_id)
    return options


def stream_write_options(given: Mapping[str, str]) -> WriteOptions:
    """Reads the options of a stream that is written, without those that are for Spark.

    Raises:
        OptionError: an option is unknown, missing or does not fit.
    """
    return write_options({k: v for k, v in given.items() if k.lower() not in SPARK_OPTIONS})


def read_options(given: Mapping[str, str]) -> ReadOptions:
    """Reads the options of a read.

    Raises:
        OptionError: an option is unknown, missing or does not fit.
    """
    return read_options_of(ReadOptions, given)


def read_options_of(kind: type[ReadOptionsT], given: Mapping[str, str]) -> ReadOptionsT:
    """Reads the options of a batch read or of a stream.

    Raises:
        OptionError: an option is unknown, missing or does not fit.
    """
    options: ReadOptionsT = _take(kind, given, topic_name="subscribe")
    _check_selection(options)
    read_expression(options.filter, options.expression_type)
    for topic in (*options.topics, options.commit_topic):
        _check_topic(topic)
    return options


def _take(cls: type[Any], given: Mapping[str, str], topic_name: str) -> Any:
    known = {name.lower(): name for name in cls.__struct_encode_fields__}
    del known["credentials"], known["clienttls"]
    known |= {alias: name for alias, name in ALIASES.items() if name in known.values()}
    known |= {"topic": topic_name, "subscribe": topic_name}
    taken: dict[str, str] = {}
    for name, value in given.items():
        if name.lower() in REFUSED:
            raise OptionError(f"option {name!r} has no meaning here: {REFUSED[name.lower()]}")
        option = known.get(name.lower())
        if option is None:
            raise OptionError(
                f"unknown option {name!r}; {nearest(name, cls.__struct_encode_fields__)}"
            )
        if option in taken and taken[option] != value:
            raise OptionError(f"option {option!r} is given twice, as {name!r} too")
        taken[option] = value
    taken.setdefault("namesrvAddr", os.environ.get(NAMESRV_VARIABLE, ""))
    if not taken["namesrvAddr"].strip():
        raise OptionError(
            "option 'namesrvAddr' is missing: .option('namesrvAddr', 'host:9876'), "
            f"or set {NAMESRV_VARIABLE}"
        )
    try:
        namesrv_addresses(taken["namesrvAddr"])
    except UsageError as e:
        raise OptionError(f"option 'namesrvAddr': {e}") from e
    options = _converted(cls, taken)
    return msgspec.structs.replace(
        options,
        credentials=_credentials(options.credentials_file),
        client_tls=_tls(options.tls, options.tls_trust_cert),
    )


def _tls(switch: bool | None, trust_cert: str) -> ClientTls | bool:
    try:
        if trust_cert and switch is not False:
            return portable_tls(ClientTls(trust_cert_path=trust_cert))
        tls = chosen_tls(switch)
        return False if tls is None else portable_tls(tls)
    except ConfigError as e:
        raise OptionError(f"option 'tlsTrustCert': {e}" if trust_cert else str(e)) from e


def _credentials(path: str) -> Credentials | None:
    try:
        return read_credentials(Path(path)) if path else default_credentials()
    except ConfigError as e:
        raise OptionError(f"option 'credentialsFile': {e}" if path else str(e)) from e


def _converted(cls: type[Any], taken: dict[str, str]) -> Any:
    try:
        options = msgspec.convert(taken, cls, strict=False)
    except msgspec.ValidationError as e:
        reason, _, place = str(e).partition(" - at ")
        name = place.strip("`").removeprefix("$.")
        raise OptionError(f"option {name!r} is {taken.get(name)!r}: {reason}") from e
    names = zip(cls.__struct_fields__, cls.__struct_encode_fields__, strict=True)
    for attribute, name in names:
        value = getattr(options, attribute)
        if value is None:
            continue
        if (attribute in _POSITIVE and value < 1) or (attribute in _NOT_NEGATIVE and value < 0):
            least = 1 if attribute in _POSITIVE else 0
            raise OptionError(f"option {name!r} is {value}, it must be at least {least}")
    return options


def _check_selection(options: ReadOptions) -> None:
    ways = {
        "subscribe": options.subscribe,
        "subscribePattern": options.subscribe_pattern,
        "assign": options.assign,
    }
    given = [name for name, value in ways.items() if value]
    if not given:
        raise OptionError(
            "option 'subscribe' is missing: .option('subscribe', 'Orders'), or give "
            "'subscribePattern' or 'assign'"
        )
    if len(given) > 1:
        raise OptionError(f"options {' and '.join(map(repr, given))} exclude each other: give one")
    if options.subscribe and not options.topics:
        raise OptionError("option 'subscribe' names no topic")
    try:
        re.compile(options.subscribe_pattern)
    except re.error as e:
        raise OptionError(f"option 'subscribePattern' is no regular expression: {e}") from e


def _check_topic(topic: str) -> None:
    try:
        check_topic(topic)
    except UsageError as e:
        raise OptionError(str(e)) from e


def _check_writer_id(writer_id: str) -> None:
    """Checks an id that stands in a property, beside the name of a broker."""
    if len(writer_id) > WRITER_ID_SIZE_MAX or not _WRITER_ID.fullmatch(writer_id):
        raise OptionError(
            f"option 'writerId' is {writer_id!r}: it has 1 to {WRITER_ID_SIZE_MAX} letters, "
            f"digits or characters of _-.:/%|"
        )
