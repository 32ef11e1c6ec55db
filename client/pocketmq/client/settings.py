"""Settings of clients, with RocketMQ's meaning and defaults; names end in their unit."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, TypeVar

import msgspec

from pocketmq.client.fault_strategy import ROCKETMQ_4_TABLE, FaultTable
from pocketmq.protocol.bodies.clients import CLUSTERING, CONSUME_FROM_LAST_OFFSET
from pocketmq.protocol.errors import ConfigError
from pocketmq.protocol.names.names import AUTO_CREATE_TOPIC, TRACE_TOPIC
from pocketmq.protocol.signing import Credentials
from pocketmq.transport.tls.settings import ClientTls

MEBIBYTE = 1024 * 1024

CONCURRENCY_MAX = 32_767
"""RocketMQ's bound of consumeThreadMax is 1,000, and of a pool's size at run time this."""

INVISIBLE_MS_MIN = 1_000
"""A shorter invisible time would be over before a message is handled."""

SUSPEND_MS_MIN = 10
SUSPEND_MS_MAX = 30_000
"""RocketMQ's bounds of a suspension."""

Positive = Annotated[int, msgspec.Meta(ge=1)]
NotNegative = Annotated[int, msgspec.Meta(ge=0)]
OrDefault = Annotated[int, msgspec.Meta(ge=-1)]
"""-1 stands for what the field's description says."""
CompressLevel = Annotated[int, msgspec.Meta(ge=0, le=9)]
Concurrency = Annotated[int, msgspec.Meta(ge=1, le=CONCURRENCY_MAX)]
InvisibleTime = Annotated[int, msgspec.Meta(ge=INVISIBLE_MS_MIN)]
SuspendTime = Annotated[int, msgspec.Meta(ge=SUSPEND_MS_MIN, le=SUSPEND_MS_MAX)]


class InstanceSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What all producers and consumers of one instance share (`client/ClientConfig`).

    Attributes:
        poll_namesrv_interval_ms: how often the routes in use are asked for
            (pollNameServerInterval).
        heartbeat_interval_ms: how often brokers hear of the groups (heartbeatBrokerInterval).
        call_timeout_ms: of calls that have no timeout of their own (mqClientApiTimeout).
        connect_timeout_ms: how long dialling may take.
        create_topic_key: the topic whose route unknown topics take.
        default_topic_queue_nums: how many queues, at most, an unknown topic starts with.
        close_connection_on_timeout: drop a connection on which a call was not answered in time, as
            RocketMQ does (clientCloseSocketIfTimeout): its peer may be gone without a word.
        instance_name: the part of the client id after ``@``; by default process id and a number.
        namespace: in which topics and groups are (version 1): on the wire they are called
            ``namespace%name``, the application does not see that. `Admin` takes names as they are.
        namespace_v2: the same by two fields of each request (version 2), which only brokers that
            know it look at; names stay as they are.
        credentials: sign each request; without them the client takes those of the environment
            (`client.credentials`), if there are any. False: none, whatever the environment says.
        tls: speak TLS to name servers and brokers, as a `ClientTls` says or, if it is True, with
            the system's authorities; without it as the environment says (`client.tls`).
        local_offsets_dir: the folder of the files in which broadcasting members keep their
            offsets (rocketmq.client.localOffsetStoreDir); by default ``~/.pocketmq/offsets``.
    """

    poll_namesrv_interval_ms: Positive = 30_000
    heartbeat_interval_ms: Positive = 30_000
    call_timeout_ms: Positive = 3_000
    connect_timeout_ms: Positive = 3_000
    create_topic_key: str = AUTO_CREATE_TOPIC
    default_topic_queue_nums: Positive = 4
    close_connection_on_timeout: bool = True
    instance_name: str | None = None
    namespace: str = ""
    namespace_v2: str = ""
    credentials: Credentials | Literal[False] | None = None
    tls: ClientTls | bool | None = None
    local_offsets_dir: str | None = None


class ProducerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How a producer sends (`client/producer/DefaultMQProducer`).

    Attributes:
        send_timeout_ms: for all attempts of one message together (sendMsgTimeout).
        retry_times_when_send_failed: further attempts of an awaited send.
        retry_times_when_send_async_failed: further attempts of a send with a callback.
        retry_another_broker_when_not_store_ok: try again when the status is not `SEND_OK`.
        compress_body_over_size: bodies of this size in bytes and more are compressed
            (compressMsgBodyOverHowmuch).
        compress_level: 0 to 9, of zlib.
        max_message_size: bytes of one body, and of one batch.
        async_sends_max: sends with a callback that may be under way together.
        send_latency_fault_enable: keep away from slow and failing brokers for a while.
        fault_table: how long, by latency.
        enable_trace: write a trace of each message that was sent (enableTrace).
        trace_topic: where to.
    """

    send_timeout_ms: Positive = 3_000
    retry_times_when_send_failed: NotNegative = 2
    retry_times_when_send_async_failed: NotNegative = 2
    retry_another_broker_when_not_store_ok: bool = False
    compress_body_over_size: NotNegative = 4096
    compress_level: CompressLevel = 5
    max_message_size: Positive = 4 * MEBIBYTE
    async_sends_max: Positive = 65_535
    send_latency_fault_enable: bool = False
    fault_table: FaultTable = ROCKETMQ_4_TABLE
    enable_trace: bool = False
    trace_topic: str = TRACE_TOPIC


class PullConsumerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How a pull consumer asks (`client/consumer/DefaultMQPullConsumer`).

    Attributes:
        pull_timeout_ms: how long the answer to a pull may take, beyond the time it is held.
        pull_hold_ms: how long a broker may hold a `pull_block_if_not_found`
            (brokerSuspendMaxTimeMillis).
        max_reconsume_times: how often a message comes again that was sent back, before it goes to
            the dead-letter topic ``%DLQ%<group>``; -1 for the group's retryMaxTimes, 16 by
            default.
        rebalance_interval_ms: how often `queues_in_balance` are shared out without an occasion.
        register: announce the group to brokers by heartbeats.
    """

    pull_timeout_ms: Positive = 10_000
    pull_hold_ms: NotNegative = 20_000
    max_reconsume_times: OrDefault = -1
    rebalance_interval_ms: Positive = 20_000
    register: bool = True


class SimpleConsumerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How a simple consumer receives (`SimpleConsumer` of RocketMQ 5).

    Attributes:
        await_ms: how long `receive` waits for messages when there are none (awaitDuration).
        invisible_ms: for how long others do not get what was received, where `receive` does not say
            (invisibleDuration).
        orderly: the messages of a queue are given one batch after the other: the next when all of
            the one before are acknowledged, or their invisible time is over.
        consume_from_where: where a group begins that has no offset yet.
        pop_timeout_ms: how long a broker's answer may take, beyond the time for which it waits.
    """

    await_ms: NotNegative = 20_000
    invisible_ms: InvisibleTime = 60_000
    orderly: bool = False
    consume_from_where: str = CONSUME_FROM_LAST_OFFSET
    pop_timeout_ms: Positive = 10_000


class MemberSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the consumers whose queues are allocated and pulled for them.

    Attributes:
        message_model: CLUSTERING shares the messages among the group's members; with BROADCASTING
            each member gets all of them, and keeps its offsets in a file.
        local_offsets_path: of that file; by default, in `local_offsets_dir`,
            ``[<namespace>/]<ip>@<instance_name or DEFAULT>/<group>.json``. Members of a group that
            run on one machine need an instance_name or a path each.
        pull_batch_size: messages that one pull asks for.
        pull_interval_ms: pause between two pulls of a queue.
        pull_hold_ms: how long a broker may hold a pull when there is nothing new; as pull consumers
            have it (Apache's push consumers: 15 s), because idle queues then cost a quarter less.
        pull_timeout_ms: how long the answer to a pull may take, beyond the time it is held.
        pull_retry_ms: pause after a pull that failed (pullTimeDelayMillsWhenException).
        consume_from_where: where a group begins that has no offset yet, in queues whose first
            messages are gone; in others it begins with the first one.
        consume_timestamp_ms: for CONSUME_FROM_TIMESTAMP, milliseconds since the epoch; by default
            30 minutes before the start.
        rebalance_interval_ms: how often queues are shared out anew without an occasion (RocketMQ's
            system property rocketmq.client.rebalance.waitInterval).
        persist_interval_ms: how often offsets are stored in the brokers
            (persistConsumerOffsetInterval).
        pull_threshold_for_queue: messages of one queue that may wait in this process.
        pull_threshold_size_for_queue: the same in bytes of stored records.
        pull_threshold_for_topic: messages of one topic that may wait in this process, shared out
            evenly over those of its queues that are this member's, instead of
            `pull_threshold_for_queue`; -1 for no such limit.
        pull_threshold_size_for_topic: the same in bytes of stored records.
        consume_concurrently_max_span: how far the first and the last unfinished offset of a queue
            may lie apart; not with `orderly`.
        enable_trace: write a trace of each message that is handled (enableTrace).
        trace_topic: where to.
    """

    message_model: str = CLUSTERING
    local_offsets_path: str | None = None
    pull_batch_size: Positive = 32
    pull_interval_ms: NotNegative = 0
    pull_hold_ms: NotNegative = 20_000
    pull_timeout_ms: Positive = 15_000
    pull_retry_ms: Positive = 1_000
    consume_from_where: str = CONSUME_FROM_LAST_OFFSET
    consume_timestamp_ms: NotNegative | None = None
    rebalance_interval_ms: Positive = 20_000
    persist_interval_ms: Positive = 5_000
    pull_threshold_for_queue: Positive = 1_000
    pull_threshold_size_for_queue: Positive = 100 * MEBIBYTE
    pull_threshold_for_topic: int = -1
    pull_threshold_size_for_topic: int = -1
    consume_concurrently_max_span: Positive = 2_000
    enable_trace: bool = False
    trace_topic: str = TRACE_TOPIC

    @property
    def is_ordered(self) -> bool:
        """Whether the messages of a queue are handled strictly one batch after the other."""
        return False


class PushSettings(MemberSettings, frozen=True, kw_only=True):
    """How a push consumer works (`client/consumer/DefaultMQPushConsumer`), and `MemberSettings`.

    With BROADCASTING, what the listener does not handle is dropped with a warning.

    Attributes:
        mode: "pull" divides the queues among the members; with "pop" (RocketMQ 5) each member pops
            from all of them: one that is slow or stuck holds up nobody, and there may be more
            members than queues. Not with `orderly` or BROADCASTING.
        pop_invisible_ms: with mode "pop", for how long others do not get a message that this member
            has; it is renewed for as long as the listener has it (popInvisibleTime).
        pop_threshold_for_queue: with mode "pop", messages of one broker that may wait in this
            process, instead of `pull_threshold_for_queue` (popThresholdForQueue).
        concurrency: batches that are handled at the same time (consumeThreadMax); 1 handles
            everything strictly one after the other.
        orderly: the messages of a queue are handled strictly one batch after the other, by one
            member at a time, which locks the queue in its broker; one that fails is repeated
            before anything else of its queue (MessageListenerOrderly).
        suspend_current_queue_time_ms: with `orderly`, how long a queue rests before a batch that
            failed is repeated; 10 ms to 30 s.
        auto_commit: with `orderly`, what was handled is finished. Otherwise that is so when the
            listener says `OrderlyResult.COMMIT`; until then it counts as waiting in this process.
        queue_concurrency: of these, batches of one queue; 1 keeps the order of each queue while
            several queues are handled at once. 0 for no limit of its own.
        consume_message_batch_max_size: messages that a listener gets at once.
        max_reconsume_times: how often a message comes again that the listener did not handle,
            before it goes to the dead-letter topic ``%DLQ%<group>`` (maxReconsumeTimes); -1 for
            the group's retryMaxTimes, 16 by default, and with `orderly` for ever.
        consume_timeout_ms: a batch that is at work for longer is sent back with level 3, so that
            its queue goes on (consumeTimeout); 0 for never. Not with `orderly`.
        retry_delay_ms: pause before messages are tried again that could not be sent back.
        close_timeout_ms: how long a close waits for handlers that are at work.
        last_error_size_max: bytes of the listener's error that a message keeps which it did not
            handle (property PQ_LAST_ERROR), so that dead letters say why they failed; 0 for none.
    """

    mode: str = "pull"
    pop_invisible_ms: InvisibleTime = 60_000
    pop_threshold_for_queue: Positive = 96
    concurrency: Concurrency = 20
    queue_concurrency: NotNegative = 0
    orderly: bool = False
    suspend_current_queue_time_ms: SuspendTime = 1_000
    auto_commit: bool = True
    consume_message_batch_max_size: Positive = 1
    max_reconsume_times: OrDefault = -1
    consume_timeout_ms: NotNegative = 15 * 60 * 1000
    retry_delay_ms: Positive = 1_000
    close_timeout_ms: NotNegative = 30_000
    last_error_size_max: NotNegative = 200

    @property
    def is_ordered(self) -> bool:
        """As `orderly` says."""
        return self.orderly


class LitePullSettings(MemberSettings, frozen=True, kw_only=True):
    """How a lite pull consumer works (`client/consumer/DefaultLitePullConsumer`).

    And `MemberSettings`, with other defaults for pulls.

    Attributes:
        auto_commit: a poll says that what the polls before it gave was handled; that is stored
            every `persist_interval_ms` (autoCommitIntervalMillis).
        poll_timeout_ms: how long a poll waits that names no timeout itself.
        pull_threshold_for_all: messages of all queues together that may wait to be polled.
        topic_metadata_check_interval_ms: how often it is looked whether the queues have changed of
            topics that somebody listens to.
    """

    auto_commit: bool = True
    poll_timeout_ms: NotNegative = 5_000
    pull_batch_size: Positive = 10
    pull_hold_ms: NotNegative = 20_000
    pull_timeout_ms: Positive = 10_000
    pull_threshold_for_all: Positive = 10_000
    topic_metadata_check_interval_ms: Positive = 30_000


SettingsT = TypeVar("SettingsT", bound=msgspec.Struct)


def take_settings(
    cls: type[SettingsT], given: Mapping[str, Any], *others: type[msgspec.Struct]
) -> tuple[SettingsT, dict[str, Any]]:
    """Reads settings from keyword arguments.

    Args:
        cls: the settings to read.
        given: the keyword arguments.
        others: settings that others will read from the same arguments.

    Returns:
        The settings, and the arguments that belong to `others`.

    Raises:
        ConfigError: a name is no setting (the text names the nearest right one), or a value does
            not have its setting's type, or is out of its bounds.
    """
    classes: tuple[type[msgspec.Struct], ...] = (cls, *others)
    known = {name for c in classes for name in c.__struct_fields__}
    unknown = [name for name in given if name not in known]
    if unknown:
        raise ConfigError(f"{_unknown_text(unknown, known)}; known are: {', '.join(sorted(known))}")
    own = {name: value for name, value in given.items() if name in cls.__struct_fields__}
    rest = {name: value for name, value in given.items() if name not in own}
    try:
        return msgspec.convert(own, cls), rest
    except msgspec.ValidationError as e:
        raise ConfigError(_unfit_text(own, str(e))) from e


def _unknown_text(unknown: Iterable[str], known: Iterable[str]) -> str:
    texts = []
    for name in unknown:
        near = difflib.get_close_matches(name, known, 1)
        texts.append(f"{name!r}" + (f" (did you mean {near[0]!r}?)" if near else ""))
    return f"no such setting: {', '.join(texts)}"


def _unfit_text(given: Mapping[str, Any], reason: str) -> str:
    found = re.fullmatch(r"Expected (.+) - at `\$\.(\w+).*`", reason)
    if found is None:
        return f"a setting does not fit: {reason}"
    expected, name = found.groups()
    if name == "credentials":  # what was given may be a secret
        return "credentials do not fit: expected is Credentials(access_key, secret_key)"
    return f"{name}={given[name]!r} does not fit: expected is {expected.replace('`', '')}"
