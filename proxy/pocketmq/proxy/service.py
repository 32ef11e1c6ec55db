"""The service as a table of rpcs: bytes in, bytes out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from google.protobuf.message import DecodeError, Message

from pocketmq.proxy.acknowledging import Acknowledging
from pocketmq.proxy.backend import Backend
from pocketmq.proxy.calls import Call
from pocketmq.proxy.clients import Clients
from pocketmq.proxy.questions import Questions
from pocketmq.proxy.receiving import Receiving
from pocketmq.proxy.routing import Routing
from pocketmq.proxy.rpc import messaging_pb2 as pb
from pocketmq.proxy.sending import Sending, Transactions
from pocketmq.proxy.statuses import Refusal
from pocketmq.proxy.telemetry import Telemetry
from pocketmq.runtime.tasks import Tasks, repeat

PREFIX = "/apache.rocketmq.v2.MessagingService/"

RENEW_PERIOD_S = 5.0
EXPIRE_PERIOD_S = 10.0

NO_LITE_TOPICS = (
    "there are no lite topics here: use ordinary topics, which cost nothing while they are idle"
)

RequestT = TypeVar("RequestT", bound=Message)

Unary = Callable[[Call, bytes], Awaitable[bytes]]
Streaming = Callable[[Call, bytes], Awaitable["Sequence[bytes] | None"]]
Bidirectional = Callable[[Call], Awaitable[None]]


class MessagingService:
    """RocketMQ's MessagingService before a cluster.

    Args:
        backend: the cluster.

    Attributes:
        unary, streaming, bidirectional: the rpcs by path.
        clients: who is connected.
    """

    def __init__(self, backend: Backend) -> None:
        transactions = Transactions()
        questions = Questions(backend, transactions)
        clients = self.clients = questions.clients = Clients(backend, questions.ask)
        routing = Routing(backend, clients)
        sending = Sending(backend, clients, routing, transactions)
        acknowledging = self._acknowledging = Acknowledging(backend, clients)
        receiving = Receiving(backend, clients, routing, acknowledging)
        telemetry = Telemetry(backend, clients, questions)
        clients.forgotten = acknowledging.give_back
        self._clock = backend.clock
        self.unary: dict[str, Unary] = {
            f"{PREFIX}{name}": handler
            for name, handler in (
                ("QueryRoute", unary(
                    pb.QueryRouteRequest, pb.QueryRouteResponse, routing.query_route)),
                ("QueryAssignment", unary(
                    pb.QueryAssignmentRequest, pb.QueryAssignmentResponse,
                    routing.query_assignment)),
                ("SendMessage", unary(
                    pb.SendMessageRequest, pb.SendMessageResponse, sending.send)),
                ("RecallMessage", unary(
                    pb.RecallMessageRequest, pb.RecallMessageResponse, sending.recall)),
                ("EndTransaction", unary(
                    pb.EndTransactionRequest, pb.EndTransactionResponse,
                    sending.end_transaction)),
                ("AckMessage", unary(
                    pb.AckMessageRequest, pb.AckMessageResponse, acknowledging.ack)),
                ("ChangeInvisibleDuration", unary(
                    pb.ChangeInvisibleDurationRequest, pb.ChangeInvisibleDurationResponse,
                    acknowledging.change_invisible_duration)),
                ("ForwardMessageToDeadLetterQueue", unary(
                    pb.ForwardMessageToDeadLetterQueueRequest,
                    pb.ForwardMessageToDeadLetterQueueResponse, acknowledging.forward)),
                ("Heartbeat", unary(
                    pb.HeartbeatRequest, pb.HeartbeatResponse, telemetry.heartbeat)),
                ("NotifyClientTermination", unary(
                    pb.NotifyClientTerminationRequest, pb.NotifyClientTerminationResponse,
                    telemetry.terminate)),
                ("SyncLiteSubscription", unary(
                    pb.SyncLiteSubscriptionRequest, pb.SyncLiteSubscriptionResponse,
                    no_lite_topics)),
            )
        }  # fmt: skip
        self.streaming: dict[str, Streaming] = {f"{PREFIX}ReceiveMessage": streaming(receiving)}
        self.bidirectional: dict[str, Bidirectional] = {f"{PREFIX}Telemetry": telemetry.telemetry}
        self._tasks = Tasks()

    def start(self) -> None:
        """Starts what is done from time to time."""
        renewal = repeat(
            self._clock,
            RENEW_PERIOD_S,
            self._acknowledging.renew_due,
            idle_s=self._acknowledging.next_due_s,
        )
        self._tasks.spawn(renewal, "renew invisible times")
        expiry = repeat(self._clock.machine, EXPIRE_PERIOD_S, self.clients.expire)
        self._tasks.spawn(expiry, "forget clients")

    async def close(self) -> None:
        """Ends all sessions."""
        await self._tasks.close()
        await self.clients.close()


def unary(
    request_class: type[RequestT],
    response_class: type[Message],
    handler: Callable[[Call, RequestT], Awaitable[Message]],
) -> Unary:
    """Makes an rpc of a handler; its refusals become statuses of answers."""

    async def rpc(call: Call, data: bytes) -> bytes:
        try:
            request = request_class()
            request.ParseFromString(data)
            return (await handler(call, request)).SerializeToString()
        except DecodeError as e:
            refusal = Refusal(pb.BAD_REQUEST, f"the request cannot be read: {e}")
        except Refusal as e:
            refusal = e
        return response_class(status=refusal.status).SerializeToString()

    return rpc


def streaming(receiving: Receiving) -> Streaming:
    """Makes the rpc of receives."""

    # No coroutine of its own: many receives wait, and each frame takes memory.
    def rpc(call: Call, data: bytes) -> Awaitable[Sequence[bytes]]:
        try:
            request = pb.ReceiveMessageRequest.FromString(data)
        except DecodeError as e:
            return receiving.refuse(Refusal(pb.BAD_REQUEST, f"the request cannot be read: {e}"))
        return receiving.receive(call, request)

    return rpc


async def no_lite_topics(
    _: Call, __: pb.SyncLiteSubscriptionRequest
) -> pb.SyncLiteSubscriptionResponse:
    """Refuses subscriptions to lite topics."""
    raise Refusal(pb.NOT_IMPLEMENTED, NO_LITE_TOPICS)
