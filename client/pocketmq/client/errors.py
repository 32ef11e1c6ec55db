"""Errors on the client's side of a call: leaves of the tree in `protocol.errors`.

::

    UsageError
    ├── ClosedError              the producer, consumer or instance is closed or was not started
    ├── SeekError                an offset that the queue does not have
    ├── QueueChoiceError         a selector or caller named a queue that the topic does not have
    ├── SendForbiddenError       a forbidden check of the application refused the send
    └── BatchContentError        messages that cannot travel in one batch
    OperatingError
    ├── NoNameServerError        none of the name servers can be asked; says which and why
    ├── RouteError               the name server's answer leaves nothing to send to or read from
    │   ├── UnknownTopicError    the topic does not exist and is not created on first use
    │   ├── NoPermissionRouteError   the topic exists, but no queue may be written (or read)
    │   └── BrokerDownError      the topic exists, but the broker of its queues is not there
    ├── SendFailedError          every attempt to send failed; holds all attempts
    │   └── SendTimeoutError     the time for all attempts together is over
    ├── TopicExistsError         a topic was to be created that has other settings
    ├── RequestTimeoutError      a request was sent, but its reply did not come in time
    ├── OffsetFileError          a broadcasting member's offsets cannot be read from their file
    └── BatchFailedError         part of a split batch was stored, a later part was not

A broker's refusal that no further attempt can change stays a `ResponseError` of its own code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from pocketmq.protocol.bodies.topics import TopicConfig
from pocketmq.protocol.errors import OperatingError, ResponseError, UsageError
from pocketmq.protocol.flags import perm_text
from pocketmq.protocol.messages.message import MessageQueue

if TYPE_CHECKING:
    from pocketmq.client.results import SendResult
from pocketmq.runtime.text import counted


class ClosedError(UsageError):
    """An object is used that is closed, or was not entered with ``async with`` yet."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what

    def __str__(self) -> str:
        return f"the {self.what} is not running: use it inside `async with`"


class SeekError(UsageError):
    """A consumer was asked to continue at an offset that the queue does not have."""

    def __init__(self, queue: MessageQueue, offset: int, low: int, high: int) -> None:
        super().__init__(queue, offset, low, high)
        self.queue, self.offset, self.low, self.high = queue, offset, low, high

    def __str__(self) -> str:
        return (
            f"seek offset illegal: {self.offset} is outside of {self.queue}, which holds "
            f"{self.low} to {self.high}"
        )


class TopicExistsError(OperatingError):
    """A topic was to be created, but a broker has it with other settings."""

    def __init__(self, address: str, known: TopicConfig, wanted: TopicConfig) -> None:
        super().__init__(address, known, wanted)
        self.address, self.known, self.wanted = address, known, wanted

    def __str__(self) -> str:
        return (
            f"topic {self.known.topic_name} exists on {self.address} with {_settings(self.known)}, "
            f"not with {_settings(self.wanted)}"
        )


def _settings(config: TopicConfig) -> str:
    parts = [
        f"{counted(config.read_queue_nums, 'read queue')} and "
        f"{counted(config.write_queue_nums, 'write queue')}",
        f"permission {perm_text(config.perm)}",
        *(["order"] if config.order else []),
        *(f"{name}={value}" for name, value in sorted(config.attributes.items())),
    ]
    return ", ".join(parts)


class QueueChoiceError(UsageError):
    """A selector or a caller named a queue that the topic does not have."""

    def __init__(self, topic: str, choice: object, reason: str) -> None:
        super().__init__(topic, choice, reason)
        self.topic, self.choice, self.reason = topic, choice, reason

    def __str__(self) -> str:
        return f"{self.choice!r} cannot be used for topic {self.topic}: {self.reason}"


class SendForbiddenError(UsageError):
    """A forbidden check of the application refused a send.

    Attributes:
        topic: where the message was to go.
        error: what the check raised.
    """

    def __init__(self, topic: str, error: Exception) -> None:
        super().__init__(topic, error)
        self.topic, self.error = topic, error

    def __str__(self) -> str:
        return f"a check forbids to send this message to topic {self.topic}: {self.error}"


class BatchContentError(UsageError):
    """Messages that cannot travel in one batch: RocketMQ asks for one topic, one WAIT, no delay."""


class NoNameServerError(OperatingError):
    """None of the name servers can be asked.

    Attributes:
        tried: for each address, why it could not be used.
    """

    def __init__(self, tried: Mapping[str, str]) -> None:
        super().__init__(tried)
        self.tried = dict(tried)

    def __str__(self) -> str:
        each = "; ".join(f"{address}: {reason}" for address, reason in self.tried.items())
        return (
            f"no name server can be reached ({each}): check the list "
            f"(namesrv= or NAMESRV_ADDR) and that one of them is up"
        )


class RouteError(OperatingError):
    """The route of a topic leaves nothing to send to or to read from."""

    def __init__(self, topic: str, detail: str = "") -> None:
        super().__init__(topic, detail)
        self.topic, self.detail = topic, detail


class UnknownTopicError(RouteError):
    """The topic does not exist; for a producer also: brokers do not create it on first use.

    Attributes:
        is_for_sending: whether automatic creation was looked for too.
    """

    def __init__(self, topic: str, detail: str = "", *, is_for_sending: bool = False) -> None:
        super().__init__(topic, detail)
        self.is_for_sending = is_for_sending

    def __str__(self) -> str:
        where = f" (asked: {self.detail})" if self.detail else ""
        if self.is_for_sending:
            return (
                f"topic {self.topic} is unknown and automatic creation is off{where}: create it "
                f"with `pocketmq topic create {self.topic}`, or set autoCreateTopicEnable on the "
                f"broker"
            )
        return f"topic {self.topic} does not exist{where}: see the names with `pocketmq topic list`"


class NoPermissionRouteError(RouteError):
    """The topic exists, but none of its queues may be written (or read)."""

    def __str__(self) -> str:
        return (
            f"topic {self.topic} has no {self.detail} queue: its permission or its queue count "
            f"forbids it on every broker; see `pocketmq topic route {self.topic}`"
        )


class BrokerDownError(RouteError):
    """The topic exists, but the broker that holds its queues is not registered."""

    def __str__(self) -> str:
        return (
            f"topic {self.topic}: {self.detail} is not registered at the name server: it is down "
            f"or has just been started; see `pocketmq topic route {self.topic}`"
        )


class Attempt(NamedTuple):
    """One attempt to send, and why it failed."""

    broker_name: str
    error: OperatingError


class SendFailedError(OperatingError):
    """Every attempt to send a message failed.

    Attributes:
        topic: where the message was to go.
        attempts: brokers tried and their errors, in order.
        elapsed_ms: how long it took in all.
    """

    def __init__(self, topic: str, attempts: Sequence[Attempt], elapsed_ms: float) -> None:
        super().__init__(topic, tuple(attempts), elapsed_ms)
        self.topic, self.attempts, self.elapsed_ms = topic, tuple(attempts), elapsed_ms

    @property
    def code(self) -> int | None:
        """The code of the last answer, if a broker answered at all."""
        codes = [a.error.code for a in self.attempts if isinstance(a.error, ResponseError)]
        return codes[-1] if codes else None

    def __str__(self) -> str:
        each = "; ".join(f"{a.broker_name}: {a.error}" for a in self.attempts)
        return (
            f"a message for topic {self.topic} was not sent in {len(self.attempts)} attempts and "
            f"{self.elapsed_ms:.0f} ms ({each})"
        )


class SendTimeoutError(SendFailedError, TimeoutError):
    """The time for all attempts together is over; the message may have been stored."""


class RequestTimeoutError(OperatingError, TimeoutError):
    """A request was sent, but its reply did not come in time; it may have been handled."""

    def __init__(self, topic: str, timeout_ms: float) -> None:
        super().__init__(topic, timeout_ms)
        self.topic, self.timeout_ms = topic, timeout_ms

    def __str__(self) -> str:
        return (
            f"the request to topic {self.topic} was sent, but no reply came within "
            f"{self.timeout_ms:.0f} ms: is there a consumer that replies?"
        )


class OffsetFileError(OperatingError):
    """A broadcasting member's offsets cannot be read from their file."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path, self.reason = path, reason

    def __str__(self) -> str:
        return (
            f"the offsets in {self.path} cannot be read: {self.reason}; mend the file, or remove "
            f"it to begin where consume_from_where says"
        )


class BatchFailedError(OperatingError):
    """A batch was split, and one of its parts could not be sent; later parts were not tried.

    Attributes:
        stored: results of the parts that were stored.
        unsent_count: messages, from the end of the list, that are not known to be stored.
        error: why the part failed.
    """

    def __init__(self, stored: Sequence[SendResult], unsent_count: int, error: Exception) -> None:
        super().__init__(stored, unsent_count, error)
        self.stored, self.unsent_count, self.error = tuple(stored), unsent_count, error

    def __str__(self) -> str:
        return (
            f"{len(self.stored)} parts of the batch were stored, its last {self.unsent_count} "
            f"messages were not: {self.error}"
        )
