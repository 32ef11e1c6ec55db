"""What brokers ask clients, over their telemetry calls: half messages without an outcome (39),
one message to handle (309), what their threads do (307).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from itertools import count

from pocketmq.protocol.bodies.groups import ConsumeDirectlyResult, RunningInfo
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.messages.message import ReceivedMessage
from pocketmq.protocol.messages.records import decode_records
from pocketmq.protocol.requests.groups import RunningInfoRequest
from pocketmq.protocol.requests.transactions import CheckTransactionStateRequest
from pocketmq.protocol.wire.command import Command
from pocketmq.proxy.backend import Backend
from pocketmq.proxy.clients import Client, Clients
from pocketmq.proxy.messages import received
from pocketmq.proxy.rpc import messaging_pb2 as pb
from pocketmq.proxy.sending import HalfMessage, Transactions
from pocketmq.runtime.clock import within

ANSWER_TIMEOUT_S = 5.0
"""So long a client has for an answer (`ProxyRelayServiceImpl`)."""

QUESTIONS_MAX = 1000
"""Questions that may wait for answers; further ones are refused."""

_CONSUMED = {
    pb.OK: "CR_SUCCESS",
    pb.FAILED_TO_CONSUME_MESSAGE: "CR_LATER",
    pb.MESSAGE_CORRUPTED: "CR_RETURN_NULL",
}


class Questions:
    """Passes questions of brokers on to clients.

    Args:
        backend: its clock.
        transactions: remembers half messages that clients are asked about.
    """

    def __init__(self, backend: Backend, transactions: Transactions) -> None:
        self._backend, self._transactions = backend, transactions
        self._nonces = count(1)
        self._waiting: dict[str, tuple[Client, asyncio.Future[pb.TelemetryCommand]]] = {}
        self.clients: Clients

    def ask(self, client: Client, command: Command) -> Awaitable[Command | None] | None:
        """Passes a question on; None if nobody waits for an answer."""
        if command.code == RequestCode.CHECK_TRANSACTION_STATE:
            self._recover(client, command)
            return None
        if command.code == RequestCode.CONSUME_MESSAGE_DIRECTLY:
            return self._verify(client, command)
        if command.code == RequestCode.GET_CONSUMER_RUNNING_INFO:
            return self._running_info(client, command)
        return None

    def answered(self, client: Client, nonce: str, command: pb.TelemetryCommand) -> None:
        """Takes a client's answer to a question."""
        asked, answer = self._waiting.get(nonce, (None, None))
        if asked is client and answer is not None and not answer.done():
            answer.set_result(command)

    # -- half messages ------------------------------------------------------------------------

    def _recover(self, client: Client, command: Command) -> None:
        header = command.read(CheckTransactionStateRequest)
        (message,) = decode_records(command.body)
        topic = message.properties.get(props.REAL_TOPIC) or message.topic
        transaction_id = header.transaction_id or message.msg_id
        half = HalfMessage(
            header.broker_name or "",
            header.tran_state_table_offset,
            header.commit_log_offset,
        )
        self._transactions.note(topic, transaction_id, half)
        told = pb.TelemetryCommand()
        asked = told.recover_orphaned_transaction_command
        asked.transaction_id = transaction_id
        asked.message.CopyFrom(self._shown(message, topic))
        asked.message.system_properties.message_type = pb.TRANSACTION
        for one in (client, *self.clients):
            is_producer = one.settings is not None and any(
                resource.name == topic for resource in one.settings.publishing.topics
            )
            if is_producer and one.tell(told):
                return

    def _shown(self, message: ReceivedMessage, topic: str) -> pb.Message:
        return received(message, topic, "", self._backend.clock.now_ms())

    # -- messages and threads -----------------------------------------------------------------

    async def _verify(self, client: Client, command: Command) -> Command:
        (message,) = decode_records(command.body)
        told = pb.TelemetryCommand()
        told.verify_message_command.message.CopyFrom(self._shown(message, message.topic))
        begin_ms = self._backend.clock.machine.now_ms()
        answer = await self._answer_of(client, told, told.verify_message_command)
        if answer is None:
            return _unanswered(client)
        result = ConsumeDirectlyResult(
            consume_result=_CONSUMED.get(answer.status.code, "CR_THROW_EXCEPTION"),
            remark=answer.status.message or "from gRPC client",
            spent_time_mills=self._backend.clock.machine.now_ms() - begin_ms,
        )
        return Command(ResponseCode.SUCCESS, body=result.encode())

    async def _running_info(self, client: Client, command: Command) -> Command:
        settings = client.settings
        info = RunningInfo(
            properties={
                "PROP_CLIENT_VERSION": settings.user_agent.version if settings else "",
                "language": client.language,
                "clientType": pb.ClientType.Name(settings.client_type) if settings else "",
            },
            user_consumer_info={"protocol": "gRPC"},
        )
        if command.read(RunningInfoRequest).jstack_enable:
            told = pb.TelemetryCommand()
            answer = await self._answer_of(client, told, told.print_thread_stack_trace_command)
            if answer is None:
                return _unanswered(client)
            info.jstack = answer.thread_stack_trace.thread_stack_trace
        return Command(ResponseCode.SUCCESS, body=info.encode())

    async def _answer_of(
        self,
        client: Client,
        told: pb.TelemetryCommand,
        question: pb.VerifyMessageCommand | pb.PrintThreadStackTraceCommand,
    ) -> pb.TelemetryCommand | None:
        """A client's answer to a question, which gets its nonce here; None without one."""
        if len(self._waiting) >= QUESTIONS_MAX:
            return None
        nonce = question.nonce = str(next(self._nonces))
        answer: asyncio.Future[pb.TelemetryCommand] = asyncio.get_running_loop().create_future()
        self._waiting[nonce] = client, answer
        try:
            if not client.tell(told):
                return None
            return await within(self._backend.clock.machine, ANSWER_TIMEOUT_S, answer)
        except TimeoutError:
            return None
        finally:
            del self._waiting[nonce]


def _unanswered(client: Client) -> Command:
    return Command(
        ResponseCode.SYSTEM_BUSY,
        remark=f"call remote timeout: the client {client.client_id} does not answer over its "
        f"telemetry call",
    )
