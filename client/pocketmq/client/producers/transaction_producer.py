"""The producer of messages that are delivered only if the application's transaction succeeds."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Any, NamedTuple

import msgspec

from pocketmq.client.application_code import ApplicationFunction, Raised
from pocketmq.client.errors import BrokerDownError, ClosedError
from pocketmq.client.hooks import SendHooks
from pocketmq.client.instance.instance import ClientInstance, NamesrvList
from pocketmq.client.producers.producer import Producer
from pocketmq.client.producers.transactions import (
    LocalTransactionState,
    TransactionListener,
    TransactionProducerSettings,
    TransactionSendResult,
)
from pocketmq.client.results import SendResult, SendStatus
from pocketmq.client.settings import InstanceSettings, ProducerSettings, take_settings
from pocketmq.client.tracing.tracing import trace_end
from pocketmq.protocol import flags
from pocketmq.protocol.errors import ConfigError, OperatingError, PocketMQError, UsageError
from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.messages.ids import parse_offset_msg_id
from pocketmq.protocol.messages.message import Message, ReceivedMessage
from pocketmq.protocol.names.names import HALF_TOPIC
from pocketmq.protocol.requests.transactions import (
    CheckTransactionStateRequest,
    EndTransactionRequest,
)
from pocketmq.protocol.wire.command import Command
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.tasks import Tasks
from pocketmq.transport.connection import Connection

log = logging.getLogger("pocketmq.client")

_DELAYS = (props.DELAY, *props.TIMER_PROPERTIES)
_OF_HALF_MESSAGES = (props.TRANSACTION_PREPARED, props.PRODUCER_GROUP)


class Question(NamedTuple):
    """A broker's newest question about a transaction, and the connection for the answer."""

    header: CheckTransactionStateRequest
    connection: Connection


class TransactionProducer(Producer):
    """Sends transactional messages (`client/producer/TransactionMQProducer`)::

        class Orders:
            async def execute_local_transaction(self, message, arg):
                await save(arg)
                return LocalTransactionState.COMMIT

            async def check_local_transaction(self, message):
                known = await is_saved(message.unique_key)
                return LocalTransactionState.COMMIT if known else LocalTransactionState.ROLLBACK

        async with TransactionProducer("orders", "127.0.0.1:9876", listener=Orders()) as producer:
            result = await producer.send_in_transaction(Message("Orders", b"hello"), order)

    It sends ordinary messages as well.

    Args:
        group: the producer group. Brokers ask any of its members about open transactions, so all
            of them must be able to tell.
        namesrv: the name servers, as ``"a:9876;b:9876"`` or a list; by default NAMESRV_ADDR.
        listener: executes and checks the application's transactions.
        hooks: functions to call at each send.
        instance: a shared instance instead of one of the producer's own.
        clock: the source of time.
        random: the source of randomness.
        settings: fields of `TransactionProducerSettings`, `ProducerSettings` and, without
            `instance`, `InstanceSettings`.

    Raises:
        IllegalNameError, ConfigError.
    """

    def __init__(
        self,
        group: str,
        namesrv: NamesrvList = None,
        *,
        listener: TransactionListener,
        hooks: SendHooks | None = None,
        instance: ClientInstance | None = None,
        clock: Clock | None = None,
        random: Random | None = None,
        **settings: Any,
    ) -> None:
        _check_listener(listener)
        self._transaction_settings, rest = take_settings(
            TransactionProducerSettings, settings, ProducerSettings, InstanceSettings
        )
        super().__init__(
            group, namesrv, hooks=hooks, instance=instance, clock=clock, random=random, **rest
        )
        self._listener = listener
        self._is_closing = False

    async def start(self) -> None:
        """Makes the producer usable. Idempotent.

        Raises:
            UsageError: the shared instance has a producer of this group already.
        """
        if self._sender is not None:
            return
        await super().start()
        settings = self._transaction_settings
        self._execute = ApplicationFunction(
            self._listener.execute_local_transaction, settings.local_transaction_threads
        )
        self._check = ApplicationFunction(
            self._listener.check_local_transaction, settings.check_concurrency
        )
        self._is_closing = False
        self._tasks = Tasks()
        self._check_permits = asyncio.Semaphore(settings.check_concurrency)
        self._asked: dict[str, Question] = {}
        self._at_work = 0
        self._quiet = asyncio.Event()
        self._quiet.set()
        self.instance.groups.checkers[self.group] = self

    async def _close(self) -> None:
        """Waits for the transactions and checks at work, then closes as `Producer` does."""
        if self._sender is None:
            return
        self._is_closing = True
        self.instance.groups.checkers.pop(self.group, None)
        timeout_s = self._transaction_settings.close_timeout_ms / 1000
        timer = self.instance.clock.call_later(timeout_s, self._quiet.set)
        await self._quiet.wait()
        timer.cancel()
        await self._tasks.close()
        self._execute.close()
        self._check.close()
        await super()._close()

    @contextmanager
    def _work(self) -> Iterator[None]:
        self._at_work += 1
        self._quiet.clear()
        try:
            yield
        finally:
            self._at_work -= 1
            if not self._at_work:
                self._quiet.set()

    # -- sending ------------------------------------------------------------------------------

    async def send_in_transaction(
        self, message: Message, arg: Any = None, timeout_ms: float | None = None
    ) -> TransactionSendResult:
        """Sends a message, has the listener execute its transaction, and ends it in the broker.

        If the end cannot be sent, or the listener does not know it, the broker asks later.

        Args:
            message: gets a `UNIQ_KEY` if it has none.
            arg: for the listener.
            timeout_ms: for sending; by default `send_timeout_ms`.

        Raises:
            UsageError: the message cannot be used; nothing was sent.
            SendFailedError, SendTimeoutError, ResponseError, RouteError, NoNameServerError: it was
                not stored for sure, and the listener was not called.
        """
        if self._is_closing:
            raise ClosedError(f"producer of group {self.group}")
        self._running()
        delays = [name for name in _DELAYS if message.properties.get(name, "0") != "0"]
        if delays:
            raise UsageError(
                f"a transactional message cannot be delayed, and this one for {message.topic} has "
                f"the property {delays[0]}: send it without"
            )
        with self._work():
            result = await self._send_half(message, timeout_ms)
            state, error = LocalTransactionState.ROLLBACK, None
            if result.status is SendStatus.SEND_OK:
                outcome = await self._execute.call(message, arg)
                state, error = _state_of(outcome, "execute_local_transaction", message)
            await self._end_sent(message, result, state, error)
        fields = msgspec.structs.asdict(result)
        return TransactionSendResult(**fields, local_state=state)

    async def _send_half(self, message: Message, timeout_ms: float | None) -> SendResult:
        sender, settings = self._running(), self.settings
        message.properties[props.TRANSACTION_PREPARED] = "true"
        message.properties[props.PRODUCER_GROUP] = self.instance.namespace.wrap(self.group)
        try:
            outgoing = self._packer.pack(message)
            outgoing.header.sys_flag |= flags.TRANSACTION_PREPARED
            timeout = settings.send_timeout_ms if timeout_ms is None else timeout_ms
            return await sender.send(outgoing, timeout, settings.retry_times_when_send_failed)
        finally:  # so that the message can be sent again as an ordinary one
            for name in _OF_HALF_MESSAGES:
                message.properties.pop(name, None)

    async def _end_sent(
        self,
        message: Message,
        result: SendResult,
        state: LocalTransactionState,
        error: Exception | None,
    ) -> None:
        broker_name = result.queue.broker_name
        try:
            physical_offset = parse_offset_msg_id(result.offset_msg_id).physical_offset
            address = self.instance.routes.master_address(broker_name)
            if address is None:
                raise BrokerDownError(message.topic, f"the master of {broker_name}")
            connection = await self.instance.pool.get(address)
        except (OperatingError, UsageError) as e:  # the latter of what the broker answered
            _log_untold(result.msg_id, state, e)
            return
        request = EndTransactionRequest(
            topic=message.topic,
            producer_group=self.group,
            tran_state_table_offset=result.queue_offset,
            commit_log_offset=physical_offset,
            commit_or_rollback=state.value,
            from_transaction_check=False,
            msg_id=result.msg_id,
            transaction_id=result.transaction_id,
            broker_name=broker_name,
        )
        await self._end(message, request, state, error, connection)

    async def _end(
        self,
        message: Message,
        request: EndTransactionRequest,
        state: LocalTransactionState,
        error: Exception | None,
        connection: Connection,
    ) -> None:
        """Sends the end of a transaction to its broker: every end passes here, once.

        Args:
            message: as it was sent, or as the broker knows it.
            request: as it goes to the broker; it says whether the broker had asked.
            state: the same for people.
            error: what the listener raised.
            connection: to the broker.
        """
        if self._trace is not None:
            trace_end(
                self._trace, self.group, message, request, state.value, connection.remote_address
            )
        remark = None if error is None else f"{type(error).__name__}: {error}"
        try:
            await connection.oneway(Command(request.code, header=request, remark=remark))
        except OperatingError as e:
            _log_untold(request.msg_id, state, e)

    # -- checks -------------------------------------------------------------------------------

    def check_transaction(
        self, header: CheckTransactionStateRequest, message: ReceivedMessage, connection: Connection
    ) -> None:
        """Answers a broker's question about an open transaction in the background.

        One that is being checked already is not checked twice: the answer is to the newest
        question.
        """
        msg_id, hold_max = message.msg_id, self._transaction_settings.check_request_hold_max
        is_at_work = msg_id in self._asked
        if not is_at_work and len(self._asked) >= hold_max:
            log.warning(
                "group %s: a question about the transaction of message %s is dropped, since %d "
                "others wait; brokers ask again",
                self.group, msg_id, hold_max,
            )  # fmt: skip
            return
        self._asked[msg_id] = Question(header, connection)
        if not is_at_work:
            self._tasks.spawn(self._answer(message), f"check {msg_id}")

    async def _answer(self, message: ReceivedMessage) -> None:
        with self._work():
            async with self._check_permits:
                outcome = await self._check.call(message)
            state, error = _state_of(outcome, "check_local_transaction", message)
            header, connection = self._asked.pop(message.msg_id)
            request = EndTransactionRequest(
                topic=header.topic or HALF_TOPIC,
                producer_group=self.group,
                tran_state_table_offset=header.tran_state_table_offset,
                commit_log_offset=header.commit_log_offset,
                commit_or_rollback=state.value,
                from_transaction_check=True,
                msg_id=message.msg_id,
                transaction_id=header.transaction_id,
                broker_name=header.broker_name,
            )
            await self._end(message, request, state, error, connection)


def _state_of(
    outcome: object, function: str, message: Message
) -> tuple[LocalTransactionState, Exception | None]:
    """Returns the state that a listener's outcome means; logs what is no state."""
    if isinstance(outcome, LocalTransactionState):
        return outcome, None
    error = outcome.error if isinstance(outcome, Raised) else None
    how = "failed" if error else f"returned {outcome!r}, which is no LocalTransactionState"
    log.warning(
        "the transaction of message %s is unknown: %s %s",
        message.unique_key, function, how, exc_info=error,
    )  # fmt: skip
    return LocalTransactionState.UNKNOWN, error


def _log_untold(msg_id: str, state: LocalTransactionState, error: PocketMQError) -> None:
    log.warning(
        "the broker could not be told that the transaction of %s is %s, it will ask: %s",
        msg_id, state.name, error,
    )  # fmt: skip


def _check_listener(listener: TransactionListener) -> None:
    for name in ("execute_local_transaction", "check_local_transaction"):
        if not callable(getattr(listener, name, None)):
            raise ConfigError(
                f"listener={listener!r} has no method {name}: see TransactionListener"
            )
