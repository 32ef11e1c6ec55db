"""Request and reply: a message that is answered by another, sent straight to the requester."""

from __future__ import annotations

import asyncio
import logging
from random import Random

from pocketmq.client.errors import RequestTimeoutError
from pocketmq.client.instance.heartbeat import Heartbeats
from pocketmq.client.instance.routes import RouteCache
from pocketmq.protocol import flags
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import UsageError
from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.messages.compression import decompress
from pocketmq.protocol.messages.message import Message, ReceivedMessage
from pocketmq.protocol.names.names import reply_topic
from pocketmq.protocol.requests.sending import PushReplyRequest
from pocketmq.protocol.wire.command import Command
from pocketmq.runtime.clock import Clock, within
from pocketmq.transport.connection import Connection
from pocketmq.transport.permits import Permits
from pocketmq.transport.pool import ConnectionPool

log = logging.getLogger("pocketmq.client")

REQUESTS_MAX = 65_535
"""Requests of one instance that may wait for their replies together."""

CORRELATION_ID_BITS = 128


def reply_message(request: Message, body: bytes | str) -> Message:
    """Makes the reply to a request; send it with any producer (`MessageUtil`).

    Args:
        request: as a consumer got it.
        body: of the reply.

    Raises:
        UsageError: the message is no request: it does not name its requester and the reply topic.
    """
    kept = (props.CORRELATION_ID, props.REPLY_TO_CLIENT, props.TTL)
    properties = {k: request.properties[k] for k in kept if k in request.properties}
    cluster = request.properties.get(props.CLUSTER)
    if cluster is None or len(properties) < len(kept):
        missing = {props.CLUSTER, *kept} - request.properties.keys()
        raise UsageError(
            f"this message cannot be replied to, it is not a request: it lacks the properties "
            f"{', '.join(sorted(missing))}, which `Producer.request` and the broker set"
        )
    properties[props.MESSAGE_TYPE] = props.REPLY
    return Message(reply_topic(cluster), body, properties=properties)


class RequestTable:
    """The requests of an instance that wait for their replies (`RequestFutureHolder`).

    Args:
        client_id: by which brokers find this instance.
        clock: for the deadlines.
        random: names the requests.
    """

    def __init__(self, client_id: str, clock: Clock, random: Random) -> None:
        self._client_id, self._clock, self._random = client_id, clock, random
        self._waiting: dict[str, asyncio.Future[ReceivedMessage]] = {}
        self._permits = Permits("request", REQUESTS_MAX)

    def __len__(self) -> int:
        return len(self._waiting)

    def open(self, message: Message, timeout_ms: float) -> Request:
        """Makes a message a request, and waits for its reply from now on.

        Raises:
            TooMuchRequestError: too many wait.
        """
        self._permits.acquire()
        correlation_id = f"{self._random.getrandbits(CORRELATION_ID_BITS):032x}"
        message.properties[props.CORRELATION_ID] = correlation_id
        message.properties[props.REPLY_TO_CLIENT] = self._client_id
        message.properties[props.TTL] = str(int(timeout_ms))
        future = self._waiting[correlation_id] = asyncio.get_running_loop().create_future()
        return Request(self, self._clock, message.topic, correlation_id, future)

    def close(self, correlation_id: str) -> None:
        """Stops waiting for a reply."""
        del self._waiting[correlation_id]
        self._permits.release()

    def take(self, command: Command, connection: Connection) -> Command:
        """Takes a reply that a broker brings (326)."""
        pushed = command.read(PushReplyRequest)
        message = self._message(pushed, command.body)
        correlation_id = message.properties.get(props.CORRELATION_ID, "")
        future = self._waiting.get(correlation_id)
        if future is None:
            log.warning(
                "a reply from %s came too late or was not asked for: correlation id %s",
                message.born_host,
                correlation_id,
            )
        elif not future.done():
            future.set_result(message)
        return Command(ResponseCode.SUCCESS)

    def _message(self, pushed: PushReplyRequest, body: bytes) -> ReceivedMessage:
        m = ReceivedMessage()
        m.topic = pushed.topic
        m.flag, m.sys_flag = pushed.flag, pushed.sys_flag
        is_packed = pushed.sys_flag & flags.COMPRESSED
        m.body = decompress(body, pushed.sys_flag) if is_packed else body
        m.properties = props.decode(pushed.properties or "")
        m.properties[props.ARRIVE_TIME] = str(self._clock.now_ms())
        m.broker_name = ""
        m.queue_id, m.queue_offset, m.physical_offset = pushed.queue_id, -1, -1
        m.born_timestamp, m.store_timestamp = pushed.born_timestamp, pushed.store_timestamp
        m.born_host, m.store_host = pushed.born_host, pushed.store_host
        m.reconsume_times = pushed.reconsume_times or 0
        m.prepared_transaction_offset = m.body_crc = m.store_size = 0
        m.offset_msg_id = ""
        return m


class Request:
    """One request that waits for its reply; use it in a ``with`` block."""

    def __init__(
        self,
        table: RequestTable,
        clock: Clock,
        topic: str,
        correlation_id: str,
        future: asyncio.Future[ReceivedMessage],
    ) -> None:
        self._table, self._clock, self._topic = table, clock, topic
        self._correlation_id, self._future = correlation_id, future

    def __enter__(self) -> Request:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._table.close(self._correlation_id)

    async def reply(self, left_ms: float, timeout_ms: float) -> ReceivedMessage:
        """Waits for the reply.

        Args:
            left_ms: how long it may still take.
            timeout_ms: how long all of it might, for the error.

        Raises:
            RequestTimeoutError: it did not come in time.
        """
        try:
            return await within(self._clock, left_ms / 1000, self._future)
        except TimeoutError:
            raise RequestTimeoutError(self._topic, timeout_ms) from None


class Announcement:
    """Makes sure that brokers know this client before they have to deliver replies to it.

    A broker looks for a requester among those whose heartbeat came over a connection that is still
    open; one heartbeat a connection is enough, the periodic ones keep it up.

    Args:
        pool, routes, heartbeats: of the instance.
    """

    def __init__(self, pool: ConnectionPool, routes: RouteCache, heartbeats: Heartbeats) -> None:
        self._pool, self._routes, self._heartbeats = pool, routes, heartbeats
        self._told: dict[str, Connection | None] = {}

    async def announce(self) -> None:
        """Sends a heartbeat if a broker of the routes in use has not had one yet.

        One that is down is left out: it cannot take the request either.
        """
        addresses = self._routes.addresses(masters_only=True)
        if all(self._is_announced(address) for address in addresses):
            return
        reached = await self._heartbeats.send()
        self._told = {a: self._pool.peek(a) if a in reached else None for a in addresses}

    def _is_announced(self, address: str) -> bool:
        """Whether a broker took a heartbeat, or still cannot be reached after one failed."""
        return address in self._told and self._told[address] is self._pool.peek(address)
