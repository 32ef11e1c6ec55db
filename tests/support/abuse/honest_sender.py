"""A sender in a process of its own that sends at a steady rate and times each answer.

    python honest_sender.py HOST PORT SIZE INTERVAL_MS

Prints a line once its first message is stored, and its latencies in milliseconds, sorted, as a line
of JSON when its standard input ends. A send that takes longer than the interval stands for those
that were due meanwhile, too, each with the time that was left: a broker that stands still for a
second delays all sends of that second, not only one.
"""

from __future__ import annotations

import json
import select
import socket
import sys
import time

from pocketmq.protocol.requests.sending import SendMessageResponse, SendMessageV2Request
from pocketmq.protocol.wire import frames
from pocketmq.protocol.wire.command import Command

TOPIC = "HonestTopic"
CHUNK_SIZE = 64 * 1024


class Sender:
    """A blocking connection that sends one message after the other."""

    def __init__(self, host: str, port: int, size: int) -> None:
        self._socket = socket.create_connection((host, port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._parser = frames.FrameParser()
        header = SendMessageV2Request(
            producer_group="honest",
            topic=TOPIC,
            default_topic="TBW102",
            default_topic_queue_nums=1,
            queue_id=0,
            born_timestamp=1_700_000_000_000,
            properties="",
        )
        self._frame = frames.encode(Command(header.code, header=header, body=bytes(size)))

    def send(self) -> None:
        """Sends a message and waits until it is stored."""
        self._socket.sendall(self._frame)
        while (answer := self._parser.next_command()) is None:
            chunk = self._socket.recv(CHUNK_SIZE)
            assert chunk, "the broker has closed the connection"
            self._parser.feed(chunk)
        assert answer.code == 0, answer.remark
        assert answer.read(SendMessageResponse).msg_id


def main() -> None:
    """Sends until standard input ends."""
    host, port, size, interval_ms = sys.argv[1], *map(int, sys.argv[2:])
    sender = Sender(host, port, size)
    sender.send()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    latencies_ms: list[float] = []
    while not select.select([sys.stdin], [], [], interval_ms / 1000)[0]:
        begun_s = time.perf_counter()
        sender.send()
        latency_ms = (time.perf_counter() - begun_s) * 1000
        while latency_ms > 0:
            latencies_ms.append(latency_ms)
            latency_ms -= interval_ms
    sys.stdout.write(json.dumps(sorted(latencies_ms)) + "\n")


if __name__ == "__main__":
    main()
