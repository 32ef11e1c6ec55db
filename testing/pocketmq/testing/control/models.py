"""The types of the control API's JSON bodies, and of /openapi.json."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, field

from pocketmq.console.api.bodies.messages import NewMessage
from pocketmq.console.web.bodies import Count as Count
from pocketmq.console.web.bodies import RequestBody, ResponseBody
from pocketmq.protocol.bodies.routes import AdvertiseRule
from pocketmq.testing.injection.rules import Where

SHOWN_MAX = 1000
"""Messages in one answer."""

PUBLISHED_MAX = 1000
"""Messages in one request."""

WAIT_MAX_MS = 60_000
"""Real time that a request may wait."""

WaitMs = Annotated[int, Meta(ge=0, le=WAIT_MAX_MS)]
Queues = Annotated[int, Meta(ge=1, le=65536)]


# -- the cluster ----------------------------------------------------------------------------------


class BrokerHealth(ResponseBody):
    """A broker.

    Attributes:
        name: of a member of a broker set ``broker-a/1``.
        address: where it answers.
        state: ``up``, ``killed``, or ``paused`` by a fault.
        role: of a member of a broker set; ``waiting`` while it neither leads nor follows.
        in_sync: whether it has everything that is acknowledged; null for a broker of its own.
    """

    name: str
    address: str
    state: Literal["up", "killed", "paused"]
    role: Literal["leader", "follower", "waiting"] | None = None
    in_sync: bool | None = None


class ClockInfo(ResponseBody):
    """The cluster's time.

    Attributes:
        mode: ``offset`` goes on by itself and can be advanced, ``virtual`` only moves when it is
            advanced, ``system`` is the machine's.
        now_ms: milliseconds since the epoch.
        ahead_ms: how far it is before the machine's.
        waiting: messages that wait for their time, and open transactions.
    """

    mode: Literal["offset", "virtual", "system"]
    now_ms: int
    ahead_ms: int
    waiting: int


class Health(ResponseBody):
    """Whether the cluster answers, and where.

    Attributes:
        status: ``up`` if all brokers are, else ``degraded``.
        faults: how many are in force.
    """

    status: Literal["up", "degraded"]
    version: str
    namesrv: str
    brokers: list[BrokerHealth]
    clock: ClockInfo
    faults: int


class Done(ResponseBody):
    """It was done, or has begun.

    Attributes:
        warnings: what should be known about it.
    """

    done: str
    warnings: list[str] = field(default_factory=list)


class AdvertisedRequest(RequestBody):
    """Which addresses of a broker callers are told: the first rule that holds (docs/deploy.md)."""

    rules: list[AdvertiseRule]


# -- topics and messages --------------------------------------------------------------------------


class TopicRequest(RequestBody):
    """A topic to make or change.

    Attributes:
        queues: for reading and writing, on each broker.
        settings: others of RocketMQ's TopicConfig, such as ``order`` or ``attributes``.
    """

    queues: Queues = 4
    settings: dict[str, Any] = field(default_factory=dict)


class Topic(ResponseBody):
    """A topic.

    Attributes:
        queues: for writing, on each broker.
        brokers: which have it.
        messages: that it holds now.
    """

    name: str
    queues: int
    brokers: list[str]
    messages: int


class Topics(ResponseBody):
    """All topics but the brokers' own, and the retries and dead letters of groups."""

    topics: list[Topic]


class PeekQuery(RequestBody):
    """Which messages are shown.

    Attributes:
        wait_for: waits until the topic holds so many.
        timeout_ms: how long, in real time.
        limit: so many at the most.
        newest: the newest instead of the oldest; oldest first either way.
        key, tag: only messages with it.
        missing_ok: show none for an unknown name instead of an error.
    """

    wait_for: Count = 0
    timeout_ms: WaitMs = 10_000
    limit: Annotated[int, Meta(ge=1, le=SHOWN_MAX)] = 100
    newest: bool = False
    key: str | None = None
    tag: str | None = None
    missing_ok: bool = False


class StoredMessage(ResponseBody, omit_defaults=True):
    """A message that is stored, in the JSON form of all commands (docs/pipes.md).

    Attributes:
        topic, broker, queue, offset: where it is.
        msg_id: the id that the sending client gave.
        body, body_base64: one of them: text if it is UTF-8, else bytes.
        keys, tags: its business keys, and its tag.
        properties: all others, those of the system too.
        flag: a number of the application's own.
        born_timestamp, store_timestamp: when it was sent and stored, ms since the epoch.
        reconsume_times: how often it was sent back.
    """

    topic: str
    broker: str
    queue: int
    offset: int
    msg_id: str
    keys: list[str]
    tags: str | None
    properties: dict[str, str]
    flag: int
    born_timestamp: int
    store_timestamp: int
    reconsume_times: int
    body: str | UnsetType = UNSET
    body_base64: str | UnsetType = UNSET


class Messages(ResponseBody):
    """Messages, oldest first.

    Attributes:
        total: how many fit, shown or not.
    """

    total: int
    messages: list[StoredMessage]


class PublishRequest(RequestBody):
    """Messages to publish, one after the other."""

    messages: Annotated[list[NewMessage], Meta(min_length=1, max_length=PUBLISHED_MAX)]


class PublishedMessage(ResponseBody):
    """Where a message went; one that waits for its time is in its topic later.

    Attributes:
        status: as the client's ``SendStatus``.
    """

    status: str
    msg_id: str
    broker: str
    queue: int
    offset: int


class PublishAnswer(ResponseBody):
    """Where messages went, in the order of the request."""

    messages: list[PublishedMessage]


# -- groups ---------------------------------------------------------------------------------------


class GroupRequest(RequestBody):
    """A consumer group to make or change.

    Attributes:
        settings: of RocketMQ's SubscriptionGroupConfig, such as ``retryMaxTimes``.
    """

    settings: dict[str, Any] = field(default_factory=dict)


class Group(ResponseBody):
    """A consumer group.

    Attributes:
        members: client ids of the consumers that are connected.
        topics: that it subscribes to, or has offsets in.
        lag: messages it has not finished.
        dead_letters: messages that were given up for it.
    """

    name: str
    members: list[str]
    topics: list[str]
    lag: int
    dead_letters: int


class Groups(ResponseBody):
    """All consumer groups but those of brokers and tools."""

    groups: list[Group]


class QueueLag(ResponseBody):
    """A queue in which a group is not at the end.

    Attributes:
        committed: how far the group has come; null if it never said.
        begin, end: the offsets of the oldest message and of the next one.
    """

    topic: str
    broker: str
    queue: int
    committed: int | None
    begin: int
    end: int
    left: int


class Lag(ResponseBody):
    """What a group has not finished, by queue."""

    group: str
    left: int
    queues: list[QueueLag]


class DrainRequest(RequestBody):
    """Waits until a group has finished all that its topics hold, as far as it has committed."""

    timeout_ms: WaitMs = 10_000


class GroupResetRequest(RequestBody):
    """Puts a group elsewhere.

    Attributes:
        to: to the oldest messages, or behind the newest.
        timestamp_ms: to the first message stored then or later; instead of `to`.
        topic: only in this one.
    """

    to: Literal["beginning", "end"] | None = None
    timestamp_ms: Count | None = None
    topic: str | None = None


# -- time -----------------------------------------------------------------------------------------


class Until(RequestBody):
    """What is waited for during a jump.

    Attributes:
        topic: which topic.
        dead_letters_of: the dead letters of this group instead.
        count: so many messages it holds.
    """

    topic: str | None = None
    dead_letters_of: str | None = None
    count: Annotated[int, Meta(ge=1)] = 1


class AdvanceRequest(RequestBody):
    """How far the clock is set forward: the sum of all.

    Attributes:
        until: stop as soon as this holds. Then whenever nothing waits for its time, clients in
            other processes are given real time to bring more, as with one retry after the other.
        timeout_ms: real time without progress after which the aim is given up.
    """

    days: float = 0
    hours: float = 0
    minutes: float = 0
    seconds: float = 0
    milliseconds: float = 0
    until: Until | None = None
    timeout_ms: WaitMs = 10_000


# -- faults ---------------------------------------------------------------------------------------


class Answer(Where, tag="answer", tag_field="kind"):
    """Requests are refused with a response code, by name or number, and not carried out."""

    code: str | int
    remark: str = "a fault was ordered"


class Delay(Where, tag="delay", tag_field="kind"):
    """Requests are carried out so much later."""

    milliseconds: Annotated[float, Meta(ge=0)]


class DropRequest(Where, tag="drop_request", tag_field="kind"):
    """Requests are neither carried out nor answered."""


class DropReply(Where, tag="drop_reply", tag_field="kind"):
    """Requests are carried out and not answered."""


class CloseConnection(Where, tag="close_connection", tag_field="kind"):
    """The connection of a request is cut instead."""


class SendStatus(Where, tag="send_status", tag_field="kind"):
    """Messages are stored, and their senders get this status."""

    status: Literal["FLUSH_DISK_TIMEOUT", "FLUSH_SLAVE_TIMEOUT", "SLAVE_NOT_AVAILABLE"]


class _OfBroker(Struct, kw_only=True, forbid_unknown_fields=True):
    broker: str


class Pause(_OfBroker, tag="pause", tag_field="kind"):
    """A broker takes requests and carries none out before the fault ends."""


class Kill(_OfBroker, tag="kill", tag_field="kind"):
    """A broker is gone at once; it is back, with its data, when the fault ends."""


class Partition(_OfBroker, tag="partition", tag_field="kind"):
    """A broker cannot reach the name server, or `other` in its broker set; clients reach both."""

    other: str | None = None


class SlowLink(_OfBroker, tag="slow_link", tag_field="kind"):
    """Bytes between a member of a broker set and the others, or `other`, take so much longer."""

    milliseconds: Annotated[float, Meta(ge=0)]
    other: str | None = None


class ArbiterAway(Struct, forbid_unknown_fields=True, tag="arbiter_away", tag_field="kind"):
    """No member of a broker set reaches the arbiter."""


class DiskFull(Struct, kw_only=True, forbid_unknown_fields=True, tag="disk_full", tag_field="kind"):
    """A broker, or all, cannot write."""

    broker: str | None = None


FaultOrder = (
    Answer
    | Delay
    | DropRequest
    | DropReply
    | CloseConnection
    | SendStatus
    | Pause
    | Kill
    | Partition
    | SlowLink
    | ArbiterAway
    | DiskFull
)


class FiredFault(ResponseBody):
    """One time that a fault fired: when, by the cluster's clock, where and what for."""

    time_ms: int
    server: str
    request: str
    topic: str | None
    queue: int | None
    group: str | None


class Fault(ResponseBody):
    """A fault that was ordered.

    Attributes:
        id: by which it is removed.
        fault: what was ordered.
        count: how often it fired.
        fired: what for, the first times.
        warnings: conditions that nothing here fits; of a removed fault, that it never fired.
    """

    id: str
    fault: str
    count: int
    fired: list[FiredFault]
    warnings: list[str]


class Faults(ResponseBody):
    """Faults in force, oldest first; the oldest that fits a request decides."""

    faults: list[Fault]
