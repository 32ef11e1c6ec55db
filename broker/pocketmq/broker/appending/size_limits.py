"""The limits of a message's sizes, and how a message that exceeds one is refused."""

from __future__ import annotations

from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import ResponseError, response_error
from pocketmq.protocol.messages.properties import PROPERTIES_SIZE_MAX


def check_body_size(body: bytes, size_max: int) -> None:
    """Refuses a body that has more bytes than maxMessageSize.

    Raises:
        ResponseError: 13.
    """
    if len(body) > size_max:
        raise body_too_large("the message body", len(body), size_max)


def check_properties_size(properties: bytes, size_max: int = PROPERTIES_SIZE_MAX) -> None:
    """Refuses encoded properties that do not fit into a record.

    Raises:
        ResponseError: 13.
    """
    if len(properties) > size_max:
        raise properties_too_large("the message properties", len(properties), size_max)


def body_too_large(subject: str, size: int, size_max: int) -> ResponseError:
    """13 for a body; `subject` says which."""
    return response_error(
        ResponseCode.MESSAGE_ILLEGAL,
        f"{subject} has {size} bytes, the limit maxMessageSize of this broker is {size_max}",
    )


def properties_too_large(
    subject: str,
    size: int,
    size_max: int = PROPERTIES_SIZE_MAX,
    code: int = ResponseCode.MESSAGE_ILLEGAL,
) -> ResponseError:
    """13, or another code, for encoded properties; `subject` says which."""
    return response_error(code, f"{subject} have {size} bytes, the limit is {size_max}")
