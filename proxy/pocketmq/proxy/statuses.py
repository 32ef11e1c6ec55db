"""Statuses of answers, and refusals, which become statuses (`ResponseBuilder`)."""

from __future__ import annotations

from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.wire.command import Command
from pocketmq.proxy.rpc import messaging_pb2 as pb

_OF_CODE: dict[int, pb.Code] = {
    ResponseCode.SYSTEM_BUSY: pb.TOO_MANY_REQUESTS,
    ResponseCode.REQUEST_CODE_NOT_SUPPORTED: pb.NOT_IMPLEMENTED,
    ResponseCode.TOPIC_NOT_EXIST: pb.TOPIC_NOT_FOUND,
    ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST: pb.CONSUMER_GROUP_NOT_FOUND,
    ResponseCode.SUBSCRIPTION_PARSE_FAILED: pb.ILLEGAL_FILTER_EXPRESSION,
    ResponseCode.NO_PERMISSION: pb.FORBIDDEN,
    ResponseCode.FLUSH_DISK_TIMEOUT: pb.MASTER_PERSISTENCE_TIMEOUT,
    ResponseCode.FLUSH_SLAVE_TIMEOUT: pb.SLAVE_PERSISTENCE_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE: pb.HA_NOT_AVAILABLE,
}
"""Where RocketMQ's proxy says INTERNAL_SERVER_ERROR to 16 and 23, this says what is wrong."""


ACCESS_REMARK = "User:"
"""How remarks of access control begin, here and in RocketMQ."""


class Refusal(Exception):
    """A request that is refused; code and message become the answer's status.

    Args:
        code: of `pb.Code`.
        message: says what is wrong, and what helps.
    """

    def __init__(self, code: pb.Code, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message

    @property
    def status(self) -> pb.Status:
        """As the status of an answer."""
        return pb.Status(code=self.code, message=self.message)


def ok(message: str = "OK") -> pb.Status:
    """The status of success."""
    return pb.Status(code=pb.OK, message=message)


def refusal_of(answer: Command) -> Refusal:
    """What a broker's refusal is for the client."""
    code = _OF_CODE.get(answer.code, pb.INTERNAL_SERVER_ERROR)
    if code == pb.FORBIDDEN and (answer.remark or "").startswith(ACCESS_REMARK):
        code = pb.UNAUTHORIZED
    return Refusal(code, f"CODE: {answer.code}  DESC: {answer.remark or ''}")


def succeeded(answer: Command) -> Command:
    """Returns an answer that is one of success.

    Raises:
        Refusal: it is not.
    """
    if answer.code != ResponseCode.SUCCESS:
        raise refusal_of(answer)
    return answer


def overall(statuses: list[pb.Status]) -> pb.Status:
    """The status of an answer with entries: the first, if all have its code, else that they differ.

    SDKs show this one, so it tells a reason.
    """
    if len({status.code for status in statuses}) == 1:
        return statuses[0]
    return pb.Status(code=pb.MULTIPLE_RESULTS, message="the entries say what became of each one")
