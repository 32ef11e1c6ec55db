"""The load of growth.py: raw connections that send and pull, as Java's client writes it."""

from __future__ import annotations

import asyncio
import itertools
import struct
import time
from collections.abc import Iterator
from typing import NamedTuple, cast

from pocketmq.protocol.messages.records import BODY_SIZE_AT_V4
from pocketmq.protocol.requests.pulling import (
    PULL_SUBSCRIPTION,
    PULL_SUSPEND,
    PullMessageRequest,
    PullMessageResponse,
)
from pocketmq.protocol.requests.sending import SendMessageV2Request
from pocketmq.protocol.wire import frames
from pocketmq.protocol.wire.command import Command

HOLD_MS = 15_000
STOP_TIMEOUT_S = 15.0
FOUND, NOT_FOUND, RETRY_AT_ONCE, OFFSET_MOVED = 0, 19, 20, 21
_STAMP = struct.Struct(">d")
_BODY_AT = BODY_SIZE_AT_V4 + 4

Queue = tuple[str, int]
"""A topic and a queue id."""


class Load(NamedTuple):
    """What the connections have done so far.

    Attributes:
        sent_s: how long each send took, if a connection has one under way.
        delivered_s: how old the first message of each answer to a pull was.
        counts: messages and bytes that were delivered.
        refused: what was not answered as it should be.
    """

    sent_s: list[float]
    delivered_s: list[float]
    counts: dict[str, int]
    refused: list[str]

    def clear(self) -> None:
        """Forgets what is done."""
        self.sent_s.clear()
        self.delivered_s.clear()
        self.counts.update(messages=0, bytes=0)

    def copy(self) -> Load:
        """What is done now."""
        return Load(self.sent_s[:], self.delivered_s[:], dict(self.counts), self.refused[:])


def no_load() -> Load:
    """A load of which nothing is done yet."""
    return Load([], [], {"messages": 0, "bytes": 0}, [])


class Template(NamedTuple):
    """A send whose body begins with the time at which it is sent."""

    head: bytes
    rest: bytes

    def stamped(self) -> bytes:
        """The frame, as it is sent now."""
        return self.head + _STAMP.pack(time.perf_counter()) + self.rest


def template(queue: Queue, body_size: int) -> Template:
    """One send, as the Java client writes it."""
    topic, queue_id = queue
    frame = frames.encode(
        Command(
            310,
            opaque=1,
            header=SendMessageV2Request(
                producer_group="bench-growth",
                topic=topic,
                default_topic="TBW102",
                default_topic_queue_nums=4,
                queue_id=queue_id,
                born_timestamp=1_700_000_000_000,
                properties="UNIQ_KEY\x017F0000012A9F18B4AAC200000000000A\x02WAIT\x01true\x02",
            ),
            body=b"x" * body_size,
        )
    )
    return Template(frame[:-body_size], frame[len(frame) - body_size + _STAMP.size :])


class Peer(asyncio.Protocol):
    """A connection to a broker."""

    def __init__(self, load: Load) -> None:
        self.load = load
        self._parser = frames.FrameParser()
        self.running = True
        self.closed = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed.set_result(None)

    def data_received(self, data: bytes) -> None:
        self._parser.feed(data)
        while (answer := self._parser.next_command()) is not None:
            self.answered(answer)

    def begin(self) -> None:
        """Sends the first requests."""
        raise NotImplementedError

    def answered(self, answer: Command) -> None:
        """Counts an answer, and sends the next request."""
        raise NotImplementedError

    def stop(self) -> None:
        """Sends nothing more, and closes."""
        self.running = False
        self._transport.close()


class Sender(Peer):
    """Keeps so many sends under way; with a pace it sends one message each so many seconds."""

    def __init__(
        self, load: Load, templates: Iterator[Template], window: int = 1, pace_s: float = 0.0
    ) -> None:
        super().__init__(load)
        self._templates, self._window, self._pace_s = templates, window, pace_s
        self._sent_s = 0.0
        self._under_way = 0

    def begin(self) -> None:
        for _ in range(self._window):
            self._send()

    def _send(self) -> None:
        if not self.running:
            return
        self._sent_s = time.perf_counter()
        self._under_way += 1
        self._transport.write(next(self._templates).stamped())
        if self._pace_s:
            asyncio.get_running_loop().call_later(self._pace_s, self._send)

    def answered(self, answer: Command) -> None:
        self._under_way -= 1
        if answer.code == 0:
            self.load.sent_s.append(time.perf_counter() - self._sent_s)
        else:
            self.load.refused.append(f"code {answer.code}: {answer.remark}")
        if self.running and not self._pace_s:
            self._send()
        elif not self.running and not self._under_way:
            self._transport.close()

    def stop(self) -> None:
        """Sends nothing more, and closes when everything is answered."""
        self.running = False
        if not self._under_way:
            self._transport.close()


class Puller(Peer):
    """A consumer that pulls some queues, each from where it is on.

    Args:
        load: what is done.
        group: the consumer group.
        queues: with the offset at which each is pulled first.
        again_at: if it is not 0, a queue whose offset has come there is read again from 0.
    """

    def __init__(self, load: Load, group: str, queues: dict[Queue, int], again_at: int = 0) -> None:
        super().__init__(load)
        self._group, self._queues, self._again_at = group, list(queues), again_at
        self._offsets = list(queues.values())

    def begin(self) -> None:
        for number in range(len(self._queues)):
            self._pull(number)

    def _pull(self, number: int) -> None:
        topic, queue_id = self._queues[number]
        header = PullMessageRequest(
            consumer_group=self._group, topic=topic, queue_id=queue_id,
            queue_offset=self._offsets[number], sys_flag=PULL_SUBSCRIPTION | PULL_SUSPEND,
            suspend_timeout_millis=HOLD_MS, subscription="*",
        )  # fmt: skip
        self._transport.write(frames.encode(Command(11, opaque=number, header=header)))

    def answered(self, answer: Command) -> None:
        number = answer.opaque
        if answer.code not in (FOUND, NOT_FOUND, RETRY_AT_ONCE, OFFSET_MOVED):
            self.load.refused.append(f"code {answer.code}: {answer.remark}")
        else:
            following = answer.read(PullMessageResponse).next_begin_offset
            if answer.code == FOUND:
                (sent_s,) = _STAMP.unpack_from(answer.body, _BODY_AT)
                self.load.delivered_s.append(time.perf_counter() - sent_s)
                self.load.counts["messages"] += following - self._offsets[number]
                self.load.counts["bytes"] += len(answer.body)
            is_over = self._again_at and following >= self._again_at
            self._offsets[number] = 0 if is_over else following
        if self.running:
            self._pull(number)


async def connect(address: str, peers: list[Peer]) -> None:
    """Connects peers one after the other, then lets all of them begin."""
    host, port = address.split(":")
    loop = asyncio.get_running_loop()
    for peer in peers:
        await loop.create_connection(lambda peer=peer: peer, host, int(port))  # type: ignore[misc]
    for peer in peers:  # all are there: a thousand take a while to come
        peer.begin()


async def stop(peers: list[Peer]) -> None:
    """Stops peers, and waits a while for those that have something under way."""
    for peer in peers:
        peer.stop()
    await asyncio.wait([peer.closed for peer in peers], timeout=STOP_TIMEOUT_S)


def templates(queues: list[Queue], body_size: int) -> Iterator[Template]:
    """Sends to queues in turn."""
    return itertools.cycle([template(queue, body_size) for queue in queues])
