"""Message traces as hooks of producers and consumers."""

from __future__ import annotations

from collections.abc import Iterator

from pocketmq.client.hooks import (
    ConsumeHooks,
    ConsumeMessageContext,
    SendHooks,
    SendMessageContext,
)
from pocketmq.client.results import SendStatus
from pocketmq.client.tracing.trace_dispatcher import TraceDispatcher
from pocketmq.protocol import flags
from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.messages.message import Message, ReceivedMessage
from pocketmq.protocol.messages.trace import (
    ConsumeReturnType,
    EndTransactionTrace,
    PubTrace,
    SubAfterTrace,
    SubBeforeTrace,
    TraceRecord,
    TransactionState,
)
from pocketmq.protocol.requests.transactions import EndTransactionRequest
from pocketmq.runtime.clock import Clock

DEFAULT_REGION = "DefaultRegion"
STATES = {
    flags.TRANSACTION_COMMIT: TransactionState.COMMIT_MESSAGE,
    flags.TRANSACTION_ROLLBACK: TransactionState.ROLLBACK_MESSAGE,
}


class ProducerTrace:
    """Traces each send that a broker answered (`client/trace/hook/SendMessageTraceHookImpl`).

    Each message of a batch is traced, so that it can be found.

    Args:
        dispatcher: takes the records.
        clock: measures.
    """

    def __init__(self, dispatcher: TraceDispatcher, clock: Clock) -> None:
        self._dispatcher, self._clock = dispatcher, clock
        self.hooks = SendHooks(before=[self._before], after=[self._after])

    def _before(self, context: SendMessageContext) -> None:
        context.notes[self] = self._clock.now_ms()

    def _after(self, context: SendMessageContext) -> None:
        result = context.result
        if result is None or not result.trace_on:
            return
        if context.queue.topic.startswith(self._dispatcher.topic):
            return  # a trace of the trace
        self._dispatcher.append(self._records(context))

    def _records(self, context: SendMessageContext) -> Iterator[TraceRecord]:
        result = context.result
        assert result is not None
        begun_ms: int = context.notes[self]
        offset_ids = result.offset_msg_id.split(",")
        for number, message in enumerate(context.messages):
            yield PubTrace(
                time_ms=begun_ms,
                region=result.region or DEFAULT_REGION,
                group=context.group,
                topic=context.queue.topic,
                msg_id=message.unique_key or result.msg_id,
                tags=message.tags,
                keys=_keys(message),
                store_host=context.broker_addr,
                body_length=len(message.body),
                cost_ms=self._clock.now_ms() - begun_ms,
                message_type=context.message_type,
                offset_msg_id=offset_ids[number] if number < len(offset_ids) else None,
                is_success=result.status is SendStatus.SEND_OK,
            )


class ConsumerTrace:
    """Traces when a listener gets messages, and how it ended (`ConsumeMessageTraceHookImpl`).

    Messages of batches, to which brokers give no region, are traced as well.

    Args:
        dispatcher: takes the records.
        clock: measures.
    """

    def __init__(self, dispatcher: TraceDispatcher, clock: Clock) -> None:
        self._dispatcher, self._clock = dispatcher, clock
        self._unique_keys = dispatcher.instance.unique_keys
        self.hooks = ConsumeHooks(before=[self._before], after=[self._after])

    def _before(self, context: ConsumeMessageContext) -> None:
        traced = [m for m in context.messages if self._is_traced(m)]
        if not traced:
            return
        now_ms, request_id = self._clock.now_ms(), self._unique_keys.next()
        context.notes[self] = (now_ms, request_id, traced)
        self._dispatcher.append(
            SubBeforeTrace(
                time_ms=now_ms,
                region=m.properties.get(props.MSG_REGION, DEFAULT_REGION),
                group=context.consumer_group,
                request_id=request_id,
                msg_id=m.msg_id,
                retry_times=m.reconsume_times,
                keys=_keys(m),
            )
            for m in traced
        )

    def _after(self, context: ConsumeMessageContext) -> None:
        noted: tuple[int, str, list[ReceivedMessage]] | None = context.notes.get(self)
        if noted is None:
            return
        begun_ms, request_id, traced = noted
        now_ms = self._clock.now_ms()
        return_type = context.return_type
        self._dispatcher.append(
            SubAfterTrace(
                request_id=request_id,
                msg_id=m.msg_id,
                cost_ms=(now_ms - begun_ms) // len(context.messages),
                is_success=context.success,
                keys=_keys(m),
                return_type=ConsumeReturnType.SUCCESS if return_type is None else return_type,
                time_ms=now_ms,
                group=context.consumer_group,
            )
            for m in traced
        )

    def _is_traced(self, message: ReceivedMessage) -> bool:
        properties = message.properties
        return properties.get(props.TRACE_ON) != "false" and not message.topic.startswith(
            self._dispatcher.topic
        )


def trace_end(
    dispatcher: TraceDispatcher,
    group: str,
    message: Message,
    request: EndTransactionRequest,
    state: int,
    broker_addr: str,
) -> None:
    """Traces that a producer ends a transaction (`EndTransactionTraceHookImpl`).

    Args:
        dispatcher: takes the record.
        group: the producer group.
        message: as it was sent, or as the broker knows it.
        request: as it goes to the broker.
        state: bits of `flags.TRANSACTION_MASK`; 0 when the producer does not know.
        broker_addr: ``host:port``.
    """
    record = EndTransactionTrace(
        time_ms=dispatcher.instance.clock.now_ms(),
        region=message.properties.get(props.MSG_REGION, DEFAULT_REGION),
        group=group,
        topic=message.topic,
        msg_id=request.msg_id,
        tags=message.tags,
        keys=_keys(message),
        store_host=broker_addr,
        transaction_id=request.transaction_id,
        state=STATES.get(state, TransactionState.UNKNOW),
        is_from_check=bool(request.from_transaction_check),
    )
    dispatcher.append([record])


def _keys(message: Message) -> str | None:
    return message.properties.get(props.KEYS)
