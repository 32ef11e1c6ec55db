"""Every error of PocketMQ that can be told without a socket.

The tree has three branches: what the caller did wrong, what the peer did wrong, and what
went wrong while operating::

    PocketMQError
    ├── UsageError                  the caller's misuse; nothing was sent
    │   ├── IllegalNameError        a topic or group name that RocketMQ refuses
    │   ├── MessageSizeError        a body or properties over the limit
    │   └── ConfigError             a setting that does not exist or does not fit
    ├── PeerError                   the other side broke the protocol
    │   ├── FrameError              the byte stream is unusable: close the connection
    │   └── ContentError            one header or body is unusable: refuse that command
    └── OperatingError              the request was fine, it could not be done now
        └── ResponseError           the peer answered with a code other than success
            ├── TopicMissingError   17
            ├── NoPermissionError   16
            ├── BusyError           2
            ├── UnavailableError    14
            ├── IllegalMessageError 13
            ├── InvalidParameterError 29
            ├── NotFoundError       22
            ├── GroupMissingError   26
            ├── SubscriptionError   23, 24, 25
            └── UnsupportedRequestError 3

`pocketmq.protocol.filters` adds a leaf to the first branch, `pocketmq.transport` and
`pocketmq.client` add leaves to the third.
Data lives on the exception, text is built in ``__str__``.
"""

from __future__ import annotations

import re

from pocketmq.protocol.codes import ResponseCode

_OWN_CODE = re.compile(r"\b31\d{3}\b")
"""A request code of PocketMQ's own, in the words of a peer that does not know it."""


class PocketMQError(Exception):
    """Base of every error that PocketMQ raises on purpose."""


class UsageError(PocketMQError, ValueError):
    """The caller asked for something that can never work; nothing was sent."""


class IllegalNameError(UsageError):
    """A topic or group name that RocketMQ's rules refuse."""

    def __init__(self, kind: str, name: str, reason: str) -> None:
        super().__init__(kind, name, reason)
        self.kind, self.name, self.reason = kind, name, reason

    def __str__(self) -> str:
        return f"The specified {self.kind}: {self.name}, {self.reason}"


class MessageSizeError(UsageError):
    """A message body or its properties are larger than the limit in force."""

    def __init__(self, part: str, size: int, size_max: int) -> None:
        super().__init__(part, size, size_max)
        self.part, self.size, self.size_max = part, size, size_max

    def __str__(self) -> str:
        return (
            f"the message {self.part} has {self.size} bytes, the limit is {self.size_max}: "
            f"send it in parts, compress it, or raise maxMessageSize on client and broker"
        )


class ConfigError(UsageError):
    """A setting that does not exist, has the wrong type, or contradicts another."""


class PeerError(PocketMQError):
    """The other side sent something that the protocol does not allow."""


class FrameError(PeerError):
    """The byte stream cannot be read any further; the connection must be closed."""


class ContentError(PeerError):
    """One header or body cannot be read; the connection is still in step."""


class OperatingError(PocketMQError):
    """The request was fine, but it could not be carried out now."""


class ResponseError(OperatingError):
    """The peer answered with a code other than success.

    Attributes:
        code: the response code of the wire.
        remark: the peer's own words.
        address: who answered, ``host:port``, when known.
    """

    def __init__(self, code: int, remark: str | None = None, address: str | None = None) -> None:
        super().__init__(code, remark, address)
        self.code, self.remark, self.address = code, remark, address

    def __str__(self) -> str:
        try:
            name = ResponseCode(self.code).name
        except ValueError:
            name = "unknown"
        where = f" from {self.address}" if self.address else ""
        return f"code {self.code} ({name}){where}: {self.remark or 'no remark'}"


class TopicMissingError(ResponseError):
    """The topic does not exist where it was looked for (17)."""


class NoPermissionError(ResponseError):
    """The broker, the topic or the group forbids this (16)."""


class BusyError(ResponseError):
    """The broker refuses work for the moment (2); try again later or elsewhere."""


class UnavailableError(ResponseError):
    """The store takes no writes: disk full, slave, or shutting down (14)."""


class IllegalMessageError(ResponseError):
    """The broker refuses this message whatever is tried (13)."""


class InvalidParameterError(ResponseError):
    """A field of the request is out of range (29)."""


class NotFoundError(ResponseError):
    """What was asked for is not there (22)."""


class GroupMissingError(ResponseError):
    """The subscription group does not exist and is not created on first use (26)."""


class SubscriptionError(ResponseError):
    """The group's subscription is unknown, outdated or cannot be parsed (23, 24, 25)."""


class UnsupportedRequestError(ResponseError):
    """The peer has no handler for this request code (3).

    PocketMQ's own codes begin at 31000: the peer is Apache's, or an earlier release.
    """

    def __str__(self) -> str:
        told = super().__str__()
        if not _OWN_CODE.search(self.remark or ""):
            return told
        return (
            f"{told}; it is Apache's, or of a release of PocketMQ that does not know this yet: "
            f"`pocketmq doctor` tells the versions"
        )


ERROR_BY_CODE: dict[int, type[ResponseError]] = {
    ResponseCode.SYSTEM_BUSY: BusyError,
    ResponseCode.REQUEST_CODE_NOT_SUPPORTED: UnsupportedRequestError,
    ResponseCode.MESSAGE_ILLEGAL: IllegalMessageError,
    ResponseCode.SERVICE_NOT_AVAILABLE: UnavailableError,
    ResponseCode.NO_PERMISSION: NoPermissionError,
    ResponseCode.TOPIC_NOT_EXIST: TopicMissingError,
    ResponseCode.QUERY_NOT_FOUND: NotFoundError,
    ResponseCode.SUBSCRIPTION_PARSE_FAILED: SubscriptionError,
    ResponseCode.SUBSCRIPTION_NOT_EXIST: SubscriptionError,
    ResponseCode.SUBSCRIPTION_NOT_LATEST: SubscriptionError,
    ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST: GroupMissingError,
    ResponseCode.INVALID_PARAMETER: InvalidParameterError,
}
"""The one table from wire codes to exceptions; a code that is not here is a `ResponseError`."""


def response_error(code: int, remark: str | None, address: str | None = None) -> ResponseError:
    """The exception for an answer's code."""
    return ERROR_BY_CODE.get(code, ResponseError)(code, remark, address)
