"""Sending with retries: one deadline for all attempts, another broker for each."""

from __future__ import annotations

from pocketmq.client.errors import (
    Attempt,
    BrokerDownError,
    NoNameServerError,
    NoPermissionRouteError,
    SendFailedError,
    SendTimeoutError,
    UnknownTopicError,
)
from pocketmq.client.fault_strategy import FaultStrategy, LatencyFaultTolerance
from pocketmq.client.instance.instance import ClientInstance
from pocketmq.client.instance.leader_search import is_leader_lost
from pocketmq.client.instance.routes import PublishRoute
from pocketmq.client.results import SEND_STATUS_BY_CODE, SendResult, SendStatus
from pocketmq.client.sending.outgoing import Outgoing
from pocketmq.client.settings import ProducerSettings
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import OperatingError, ResponseError, response_error
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.protocol.requests.sending import SendMessageResponse
from pocketmq.protocol.wire.command import Command
from pocketmq.runtime.clock import within
from pocketmq.transport.connection import Connection
from pocketmq.transport.errors import CallTimeoutError, ConnectError, TooMuchRequestError

RETRY_CODES = frozenset(
    {
        ResponseCode.TOPIC_NOT_EXIST,
        ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.SYSTEM_ERROR,
        ResponseCode.SYSTEM_BUSY,
        ResponseCode.NO_PERMISSION,
        ResponseCode.NO_BUYER_ID,
        ResponseCode.NOT_IN_CURRENT_UNIT,
        ResponseCode.GO_AWAY,
    }
)
"""Answers after which another broker is tried (`DefaultMQProducer`, retryResponseCodes)."""

FINAL_ERRORS = (
    NoNameServerError,
    UnknownTopicError,
    NoPermissionRouteError,
    TooMuchRequestError,
)
"""Errors that another attempt would only repeat."""

CLOSE_TIMEOUT_MS_MIN = 100
"""A call that was given less time than this does not condemn its connection."""


class Sender:
    """Sends requests to brokers, with retries.

    Args:
        instance: the connections, the routes and the clock; it must be running.
        settings: of the producer.
    """

    def __init__(self, instance: ClientInstance, settings: ProducerSettings) -> None:
        self._pool, self._routes, self._clock = instance.pool, instance.routes, instance.clock
        self._monotonic = instance.clock.monotonic
        self._search = instance.leader_search
        self._close_on_timeout = instance.settings.close_connection_on_timeout
        self._retry_not_ok = settings.retry_another_broker_when_not_store_ok
        self._strategy = FaultStrategy(
            LatencyFaultTolerance(instance.clock.monotonic),
            settings.fault_table,
            enabled=settings.send_latency_fault_enable,
        )

    async def route(self, topic: str, timeout_ms: float) -> PublishRoute:
        """Returns the route for sending to a topic; asks a name server if need be.

        Raises:
            NoNameServerError, UnknownTopicError, NoPermissionRouteError, BrokerDownError.
        """
        known = self._routes.known_publish_route(topic)
        if known is not None:
            return known
        try:
            return await within(self._clock, timeout_ms / 1000, self._routes.publish_route(topic))
        except TimeoutError:
            reason = f"no answer within the send timeout of {timeout_ms:.0f} ms"
            raise NoNameServerError(dict.fromkeys(self._routes.namesrv_addresses, reason)) from None

    async def send(
        self,
        outgoing: Outgoing,
        timeout_ms: float,
        retries: int,
        queue: MessageQueue | None = None,
    ) -> SendResult:
        """Sends a request until a broker has stored the message.

        Args:
            outgoing: the request.
            timeout_ms: for all attempts together.
            retries: further attempts after the first.
            queue: where to send; then there are no further attempts.

        Raises:
            SendFailedError, SendTimeoutError: no attempt succeeded.
            ResponseError: a broker refused the message, and another one would do the same.
            RouteError, NoNameServerError: there is nowhere to send to.
            TooMuchRequestError: too many calls are under way.
        """
        monotonic = self._monotonic
        topic = outgoing.header.topic
        started = begun = monotonic()
        deadline = started + timeout_ms / 1000
        attempts: list[Attempt] = []
        failed_broker: str | None = None
        attempts_left = 1 if queue is not None else 1 + retries
        not_ok: SendResult | None = None
        while attempts_left and (begun < deadline or begun == started):
            attempts_left -= 1
            chosen = queue
            try:
                if chosen is None:
                    route = self._routes.known_publish_route(topic) or await self.route(
                        topic, (deadline - begun) * 1000
                    )
                    chosen = self._select(route, failed_broker)
                if chosen.broker_name in self._search.silent:
                    await self._search.find(chosen.broker_name, deadline)
                result = await self._attempt(outgoing, chosen, deadline)
            except FINAL_ERRORS:
                raise
            except OperatingError as e:
                if (
                    queue is None and self._is_elsewhere(topic, chosen, e)
                ) or await self._is_led_again(topic, chosen, e, deadline):
                    attempts_left += 1
                    begun = monotonic()
                    continue
                if chosen is None:
                    raise
                ended = monotonic()
                self._strategy.observe(chosen.broker_name, (ended - begun) * 1000, isolate=True)
                if isinstance(e, ResponseError) and e.code not in RETRY_CODES:
                    raise
                attempts.append(Attempt(chosen.broker_name, e))
            else:
                ended = monotonic()
                self._strategy.observe(chosen.broker_name, (ended - begun) * 1000)
                if result.status is SendStatus.SEND_OK or not self._retry_not_ok:
                    return result
                not_ok = result
            failed_broker = chosen.broker_name
            begun = ended
        if not_ok is not None:
            return not_ok
        failure = SendTimeoutError if begun >= deadline else SendFailedError
        cause = attempts[-1].error if attempts else None
        raise failure(topic, attempts, (begun - started) * 1000) from cause

    def _select(self, route: PublishRoute, failed_broker: str | None) -> MessageQueue:
        """Chooses a queue; of another broker than one that has failed or has no leader, if any."""
        chosen = self._strategy.select(route.ring, failed_broker)
        if chosen.broker_name in self._search.searches:
            return route.ring.next_where(self._is_there) or chosen
        return chosen

    def _is_there(self, broker_name: str) -> bool:
        return broker_name not in self._search.searches

    def _is_elsewhere(self, topic: str, queue: MessageQueue | None, error: OperatingError) -> bool:
        """Whether a broker set has lost its leader, and the message may go to another broker."""
        if queue is None or not (is_leader_lost(error) or isinstance(error, BrokerDownError)):
            return False
        route = self._routes.known_publish_route(topic)
        return (
            self._search.begin(queue.broker_name)
            and route is not None
            and any(self._is_there(name) for name in route.ring.broker_names)
        )

    async def _is_led_again(
        self, topic: str, queue: MessageQueue | None, error: OperatingError, deadline: float
    ) -> bool:
        """Waits for the new leader of a broker set, if its old one is lost."""
        if isinstance(error, BrokerDownError):
            return await self._search.find_any(topic, deadline)
        return (
            queue is not None
            and is_leader_lost(error)
            and await self._search.find(queue.broker_name, deadline)
        )

    async def _attempt(
        self, outgoing: Outgoing, queue: MessageQueue, deadline: float
    ) -> SendResult:
        address = self._routes.master_address(queue.broker_name)
        if address is None:
            address = await self.address(queue, deadline)
        connection = self._pool.peek(address) or await self._connect(address, deadline)
        header = outgoing.header
        _, header.broker_name, header.queue_id = queue
        left_ms = max(0.0, (deadline - self._monotonic()) * 1000)
        try:
            answer = await connection.call(
                Command(header.code, header=header, body=outgoing.body), left_ms
            )
        except CallTimeoutError:
            if self._close_on_timeout and left_ms >= CLOSE_TIMEOUT_MS_MIN:
                self._pool.drop(address, "a send was not answered in time")
                self._search.is_silent(queue.broker_name)
            raise
        status = SEND_STATUS_BY_CODE.get(answer.code)
        if status is None:
            if answer.code == ResponseCode.GO_AWAY:
                self._pool.drop(address, "the broker asked to reconnect")
            raise response_error(answer.code, answer.remark, address)
        stored = answer.read(SendMessageResponse)
        if stored.queue_id != queue.queue_id:
            queue = queue._replace(queue_id=stored.queue_id)
        return SendResult(
            status,
            outgoing.msg_id,
            stored.msg_id,
            queue,
            stored.queue_offset,
            stored.transaction_id,
            stored.region,
            stored.recall_handle,
            outgoing.count,
            stored.trace_on is not False,
        )

    async def send_oneway(
        self, outgoing: Outgoing, timeout_ms: float, queue: MessageQueue | None = None
    ) -> None:
        """Sends a request without waiting for an answer; it may get lost.

        Raises:
            RouteError, NoNameServerError, ConnectError, ConnectionClosedError, TooMuchRequestError.
        """
        deadline = self._clock.monotonic() + timeout_ms / 1000
        if queue is None:
            route = await self.route(outgoing.header.topic, timeout_ms)
            queue = self._select(route, None)
        await self._attempt_oneway(outgoing, queue, deadline)

    async def _attempt_oneway(
        self, outgoing: Outgoing, queue: MessageQueue, deadline: float
    ) -> None:
        address = await self.address(queue, deadline)
        connection = self._pool.peek(address) or await self._connect(address, deadline)
        header = outgoing.header
        header.queue_id, header.broker_name = queue.queue_id, queue.broker_name
        await connection.oneway(Command(header.code, header=header, body=outgoing.body))

    async def address(self, queue: MessageQueue, deadline: float) -> str:
        """Returns the address of a queue's master.

        Args:
            queue: of the topic and broker.
            deadline: of the clock's `monotonic`.

        Raises:
            NoNameServerError, UnknownTopicError, NoPermissionRouteError, BrokerDownError.
        """
        address = self._routes.master_address(queue.broker_name)
        if address is None:
            # A queue that the caller named may be of a topic that was not used yet.
            left_ms = max(0.0, (deadline - self._clock.monotonic()) * 1000)
            await self.route(queue.topic, left_ms)
            address = self._routes.master_address(queue.broker_name)
        if address is None:
            raise BrokerDownError(queue.topic, f"the master of {queue.broker_name}")
        return address

    async def _connect(self, address: str, deadline: float) -> Connection:
        left_s = max(0.0, deadline - self._clock.monotonic())
        try:
            return await within(self._clock, left_s, self._pool.get(address))
        except TimeoutError:
            raise ConnectError(address, "no connection within the send timeout") from None
