from __future__ import annotations

import pytest
from support.peers.transport import Stage, until

from pocketmq.protocol.wire.command import Command
from pocketmq.testing.clock import VirtualClock, settle
from pocketmq.transport.connection import CLIENT_ID, Connection
from pocketmq.transport.limits import Limits
from pocketmq.transport.slow_readers import (
    PAUSE_SIZE_MIN,
    SLOW_READER_TIMEOUT_S,
    UNSENT_SIZE_MAX,
    SlowReaders,
)

SOON_PAUSED = Limits(write_pause_size=64 * 1024)


class Peer:
    """Somebody who may leave bytes unread."""

    def __init__(self, name: str, unsent_size: int) -> None:
        self.peer_name, self.unsent_size = name, unsent_size
        self.aborted = ""

    def cut_off(self, reason: str) -> None:
        self.aborted = reason


async def test_a_peer_that_reads_nothing_is_cut_off(clock: VirtualClock) -> None:
    slow_readers, peer = SlowReaders(clock), Peer("1.2.3.4:5 (client me)", 1000)
    slow_readers.begin(peer)
    slow_readers.begin(peer)
    assert slow_readers.size == 1000
    await clock.advance(SLOW_READER_TIMEOUT_S - 0.1)
    assert slow_readers.count == 1
    await clock.advance(0.1)
    assert peer.aborted == "it read 0 bytes in 30 s and left 1000 unread"
    assert (slow_readers.count, slow_readers.size) == (0, 0)


async def test_one_that_reads_a_share_is_waited_for(clock: VirtualClock) -> None:
    slow_readers, peer = SlowReaders(clock), Peer("a", 1600)
    slow_readers.begin(peer)
    for _ in range(5):
        peer.unsent_size -= 100
        await clock.advance(SLOW_READER_TIMEOUT_S)
    assert (peer.aborted, slow_readers.size) == ("", 1100)
    peer.unsent_size -= 60
    await clock.advance(SLOW_READER_TIMEOUT_S)
    assert peer.aborted.startswith("it read 60 bytes")


async def test_what_is_added_does_not_hide_what_is_read(clock: VirtualClock) -> None:
    slow_readers, peer = SlowReaders(clock), Peer("a", 1600)
    slow_readers.begin(peer)
    peer.unsent_size = 2000  # it has read 100, and 500 were written
    slow_readers.wrote(peer, 500)
    assert slow_readers.size == 2000
    await clock.advance(SLOW_READER_TIMEOUT_S)
    assert not peer.aborted
    peer.unsent_size = 2500  # nothing read
    slow_readers.wrote(peer, 500)
    await clock.advance(SLOW_READER_TIMEOUT_S)
    assert peer.aborted.startswith("it read 0 bytes")


async def test_one_that_keeps_up_again_is_forgotten(clock: VirtualClock) -> None:
    slow_readers, peer = SlowReaders(clock), Peer("a", 1000)
    slow_readers.wrote(peer, 1)
    assert slow_readers.size == 0
    slow_readers.begin(peer)
    slow_readers.end(peer)
    slow_readers.end(peer)
    assert (slow_readers.size, clock.pending_timers) == (0, 0)


async def test_too_much_for_all_cuts_off_who_left_the_most(clock: VirtualClock) -> None:
    slow_readers = SlowReaders(clock, size_max=2000)
    small, large, last = Peer("small", 300), Peer("large", 600), Peer("last", 200)
    for peer in (small, large, last):
        slow_readers.begin(peer)
    assert not small.aborted
    assert not last.aborted
    assert large.aborted == (
        "it left 600 bytes unread, the most of 3 slow readers, who may leave 1000 in all"
    )
    assert slow_readers.size == 500


async def test_what_was_read_meanwhile_counts_before_anybody_is_cut_off(
    clock: VirtualClock,
) -> None:
    slow_readers = SlowReaders(clock, size_max=2000)
    first, second = Peer("first", 900), Peer("second", 200)
    slow_readers.begin(first)
    first.unsent_size = 100
    slow_readers.begin(second)
    assert not first.aborted + second.aborted
    assert slow_readers.size == 300


def test_with_many_connections_each_may_leave_less(clock: VirtualClock) -> None:
    slow_readers, most = SlowReaders(clock), 1024 * 1024
    assert slow_readers.pause_size(0, most) == slow_readers.pause_size(256, most) == most
    assert slow_readers.pause_size(10_000, most) == UNSENT_SIZE_MAX // 2 // 10_000
    assert slow_readers.pause_size(10**6, most) == PAUSE_SIZE_MIN


async def test_of_many_deaf_peers_so_many_stay_as_there_is_room_for(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    """Over real sockets: the others are served, and the log names who was cut off."""
    body = bytes(12 * 1024 * 1024)  # more than the system's own buffers take

    def answer(request: Command, connection: Connection) -> Command:
        connection.attributes[CLIENT_ID] = f"deaf-{request.opaque}"
        return Command(0, body=body if request.opaque else b"")

    slow_readers = SlowReaders(stage.clock, size_max=4 * len(body))
    server = await stage.serve({1: answer}, limits=SOON_PAUSED, slow_readers=slow_readers)
    for number in range(1, 9):
        deaf = await stage.dial(server)
        deaf.transport.pause_reading()
        deaf.send(Command(1, number))
        connection = stage.connection_of(server, deaf)
        assert connection is not None
        await until(lambda c=connection: c.unsent_size > 0 or c.is_closing)  # type: ignore[misc]
    await until(lambda: len(server.connections) < 8)
    assert slow_readers.size <= 2 * len(body)
    assert slow_readers.count >= 2
    assert "(client deaf-" in caplog.text
    assert "the most of" in caplog.text
    other = await stage.dial(server)
    other.send(Command(1, 0))
    await other.got(1)


async def test_shares_shrink_with_more_connections_and_grow_again(stage: Stage) -> None:
    """Over real sockets: what each may leave unread depends on how many there are."""
    body = bytes(300 * 1024)
    slow_readers = SlowReaders(stage.clock, size_max=4 * 1024 * 1024)
    server = await stage.serve({1: lambda _, __: Command(0, body=body)}, slow_readers=slow_readers)
    peers = [await stage.dial(server) for _ in range(32)]
    first = peers[0]
    first.transport.pause_reading()
    connection = stage.connection_of(server, first)
    assert connection is not None
    first.send(*(Command(1, number) for number in range(200)))
    await until(lambda: slow_readers.count == 1)
    await settle()
    share = slow_readers.pause_size(32, 1024 * 1024)
    assert connection.unsent_size <= share + len(body)
    for peer in peers[1:]:
        peer.transport.abort()
    await until(lambda: len(server.connections) == 1)
    assert server._pause_size > share
