"""What must hold of a message before it is stored."""

from __future__ import annotations

import msgspec

from pocketmq.broker.appending.size_limits import body_too_large, properties_too_large
from pocketmq.broker.config.config import BrokerConfig
from pocketmq.broker.delay.levels import delay_level_of
from pocketmq.broker.handlers.sending.special_properties import (
    delay_property,
    holds_special,
    is_special,
)
from pocketmq.broker.refusals import no_permission
from pocketmq.broker.store.log.queue_log import AS_CONFIGURED, WRITTEN, Durability
from pocketmq.broker.transactions.half import asks_for_transaction
from pocketmq.protocol import flags
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import ResponseError, response_error
from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.requests.sending import SendMessageRequest
from pocketmq.runtime.live import Live


class SendSettings(msgspec.Struct, frozen=True):
    """What sends need to know of their broker.

    Attributes:
        cluster, region: go into the messages' properties.
        body_size_max: bytes of one body.
        permission: of the whole broker, bits of `pocketmq.protocol.flags`.
        queue_nums_max: most queues of a topic made on its first message.
        trace_on: whether clients' traces are wanted.
        rejects_transactions: rejectTransactionMessage.
    """

    cluster: str
    region: str
    body_size_max: int
    permission: int
    queue_nums_max: int
    trace_on: bool
    rejects_transactions: bool

    @classmethod
    def of(cls, config: BrokerConfig) -> SendSettings:
        """The part of a broker's settings that sends depend on."""
        return cls(
            cluster=config.broker_cluster_name,
            region=config.region_id,
            body_size_max=config.max_message_size,
            permission=config.broker_permission,
            queue_nums_max=config.default_topic_queue_nums,
            trace_on=config.trace_on,
            rejects_transactions=config.reject_transaction_message,
        )


class SendChecks:
    """Refuses messages that may not be stored.

    Args:
        settings: of sends.
    """

    def __init__(self, settings: Live[SendSettings]) -> None:
        self._settings = settings

    def check_body(self, body: bytes) -> None:
        """Refuses a body that is empty or too large."""
        if not body:
            raise _illegal("the message has no body")
        size_max = self._settings.now.body_size_max
        if len(body) > size_max:  # not by `check_body_size`: each send comes here
            raise body_too_large("the message body", len(body), size_max)

    def is_half(self, request: SendMessageRequest, properties: str) -> bool:
        """Whether a message waits for its producer's decision; refuses what could not end well."""
        is_retry = bool(request.reconsume_times) and delay_level_of(properties) > 0
        if is_retry or not asks_for_transaction(properties):
            check_sys_flag(request.sys_flag)
            return False
        if self._settings.now.rejects_transactions:
            raise no_permission(
                "the broker sending transaction message is forbidden: its "
                "rejectTransactionMessage is true"
            )
        delay = delay_property(properties)
        if delay is not None:  # RocketMQ would take it and drop it when it is due
            raise _illegal(
                f"a transactional message (TRAN_MSG) cannot be delayed: leave {delay} out"
            )
        if props.value_of(properties, props.PRODUCER_GROUP) is None:
            raise _illegal(
                "a transactional message must name its producer group in the property PGROUP: "
                "nobody else can be asked about it"
            )
        return True


def check_batch_kind(sys_flag: int, properties: str) -> None:
    """Refuses a batch, or a message of it, that asks for what only single messages can have."""
    delay = delay_property(properties)
    if delay is not None:
        raise _illegal(
            f"a batch cannot hold messages with the property {delay}: send delayed messages "
            f"one by one"
        )
    if asks_for_transaction(properties):
        raise _illegal(
            "a batch cannot hold transactional messages (TRAN_MSG): send them one by one"
        )
    check_sys_flag(sys_flag)


def check_batch_request(request: SendMessageRequest) -> None:
    """Refuses a batch whose request asks for what only single messages can have."""
    given = request.properties or ""
    if is_special(given):
        check_batch_kind(request.sys_flag, given)
    else:
        check_sys_flag(request.sys_flag)


def check_batch(messages: list[tuple[int, bytes, bytes]], first: int = 0) -> None:
    """Refuses a batch if anything is wrong with the properties of any of its messages.

    Args:
        messages: a portion of the batch.
        first: the number of the portion's first message.
    """
    together = b"".join([properties for _, _, properties in messages])
    is_special = holds_special(together)
    if together.isascii() and not is_special and len(together) <= props.PROPERTIES_SIZE_MAX:
        return
    for index, (_, _, properties) in enumerate(messages, first):
        subject = f"the properties of message {index} of the batch"
        if len(properties) > props.PROPERTIES_SIZE_MAX:
            raise properties_too_large(subject, len(properties))
        try:
            text = properties.decode()
        except UnicodeDecodeError as e:
            raise _illegal(f"{subject} are no UTF-8: {e}") from e
        if is_special:
            check_batch_kind(0, text)


def check_sys_flag(sys_flag: int) -> None:
    """Refuses the flag of transactions on a message whose properties ask for none."""
    if sys_flag & flags.TRANSACTION_MASK == flags.TRANSACTION_PREPARED:
        raise _illegal(
            "the sysFlag says that the message is transactional, its properties do not: set "
            "TRAN_MSG to true"
        )


def durability_of(properties: str) -> Durability:
    """How safe a message must be before its sender is answered (the property WAIT)."""
    # The quick look spares most messages the exact one: "WAIT" may end another property's name.
    if "WAIT\x01false" in properties and props.value_of(properties, props.WAIT) == "false":
        return WRITTEN
    return AS_CONFIGURED


def _illegal(remark: str) -> ResponseError:
    return response_error(ResponseCode.MESSAGE_ILLEGAL, remark)
