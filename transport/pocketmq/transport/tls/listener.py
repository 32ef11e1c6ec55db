"""Accepts connections of which the first byte says whether they speak TLS.

A TLS handshake begins with 0x16; a plain frame with the high byte of its size, which is 0 or 1.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable, Sequence

from pocketmq.protocol.messages.hosts import join_address
from pocketmq.runtime.clock import Clock, Timer
from pocketmq.runtime.tasks import Tasks, repeat
from pocketmq.transport.peer_log import PeerLog
from pocketmq.transport.tls.contexts import handshake_failure
from pocketmq.transport.tls.reloaded import LOOK_PERIOD_S, ReloadedContext
from pocketmq.transport.tls.settings import ServerTls, TlsMode

log = logging.getLogger("pocketmq.transport")

HANDSHAKE_BYTE = b"\x16"

HANDSHAKE_TIMEOUT_S = 10.0
"""From the connection to the end of its handshake, or to its first byte if it is plain."""

PENDING_MAX = 1024
"""Connections without a first byte or in a handshake."""

PENDING_GRACE_S = 1.0
"""When `PENDING_MAX` are pending, the oldest makes room for a new one if it is older than this."""

FULL_PAUSE_S = 0.05
"""So long nothing is accepted when none of those that are pending is old enough to make room."""

OUT_OF_FILES_PAUSE_S = 1.0

ACCEPTS_AT_ONCE = 64
"""Connections that are accepted in one turn of the loop."""

_LOOPS_TIMEOUT_S = 3600.0
"""For asyncio's own timer, which knows nothing of our clock: ours ends the handshake before."""


async def bind(host: str, port: int, backlog: int) -> list[socket.socket]:
    """Binds the addresses of a host, and listens.

    Raises:
        OSError: one cannot be bound.
    """
    loop = asyncio.get_running_loop()
    infos = await loop.getaddrinfo(
        host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    sockets: list[socket.socket] = []
    try:
        for family, _, _, _, address in dict.fromkeys(infos):
            one = socket.socket(family, socket.SOCK_STREAM)
            sockets.append(one)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            one.bind(address)
            one.listen(backlog)
            one.setblocking(False)
    except OSError:
        for one in sockets:
            one.close()
        raise
    return sockets


class _Pending:
    """A connection that is none yet.

    Attributes:
        since_s: when it was accepted.
        timer: ends it.
        task: its handshake; None before its first byte.
    """

    __slots__ = ("since_s", "task", "timer")

    def __init__(self, since_s: float, timer: Timer) -> None:
        self.since_s, self.timer = since_s, timer
        self.task: asyncio.Task[None] | None = None


class TlsListener:
    """Listens, and gives each connection a protocol when its first byte or its handshake is there.

    Args:
        protocol: makes the protocol of a plain connection.
        tls_protocol: that of one over TLS.
        settings: permissive or enforcing, and the files.
        clock: for time limits, and to look at the files now and then.
        peer_log: of the server.
        pending_max: connections that may be without a first byte or in a handshake.
        alpn: protocols of the application that it offers.

    Raises:
        ConfigError: a file cannot be read or does not fit; the text names the file.
    """

    def __init__(
        self,
        protocol: Callable[[], asyncio.Protocol],
        tls_protocol: Callable[[], asyncio.Protocol],
        settings: ServerTls,
        clock: Clock,
        peer_log: PeerLog,
        pending_max: int = PENDING_MAX,
        alpn: Sequence[str] = (),
    ) -> None:
        self._protocol, self._tls_protocol = protocol, tls_protocol
        self._is_enforcing = settings.mode is TlsMode.ENFORCING
        self._clock, self._peer_log, self._pending_max = clock, peer_log, pending_max
        self._reloaded = ReloadedContext(settings, clock, alpn)
        self._loop = asyncio.get_running_loop()
        self._tasks = Tasks()
        self._tasks.spawn(repeat(clock, LOOK_PERIOD_S, self._reloaded.look), "look at certificates")
        self._sockets: list[socket.socket] = []
        self._pending: dict[socket.socket, _Pending] = {}  # the oldest first
        self._pause: Timer | None = None

    async def listen(self, host: str, port: int, backlog: int) -> tuple[str, int]:
        """Binds an address, and returns it; further calls add addresses.

        Raises:
            OSError: it cannot be bound.
        """
        sockets = await bind(host, port, backlog)
        self.listen_on(sockets)
        bound_host, bound_port = sockets[0].getsockname()[:2]
        return bound_host, bound_port

    def listen_on(self, sockets: Sequence[socket.socket]) -> None:
        """Accepts from sockets that listen already."""
        self._sockets += sockets
        if self._pause is None:
            for one in sockets:
                self._loop.add_reader(one, self._accept, one)

    @property
    def certificate_expires_ms(self) -> float:
        """When the certificate for new connections expires, in milliseconds since the epoch."""
        return self._reloaded.expires_ms

    @property
    def pending_count(self) -> int:
        """Connections without a first byte or in a handshake."""
        return len(self._pending)

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(ACCEPTS_AT_ONCE):
            is_full = len(self._pending) >= self._pending_max
            if is_full and self._oldest_s < PENDING_GRACE_S:
                self._pause_for(FULL_PAUSE_S)
                return
            try:
                accepted, _ = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as e:  # no file handles are left
                log.error("no connection can be accepted: %s", e)
                self._pause_for(OUT_OF_FILES_PAUSE_S)
                return
            if is_full:
                self._give_up(next(iter(self._pending)))
            accepted.setblocking(False)
            timer = self._clock.call_later(HANDSHAKE_TIMEOUT_S, self._give_up, accepted)
            self._pending[accepted] = _Pending(self._clock.monotonic(), timer)
            self._loop.add_reader(accepted, self._look, accepted)

    @property
    def _oldest_s(self) -> float:
        """How long the oldest of those that are pending has been so."""
        return self._clock.monotonic() - next(iter(self._pending.values())).since_s

    def _pause_for(self, seconds: float) -> None:
        for one in self._sockets:
            self._loop.remove_reader(one)
        self._pause = self._clock.call_later(seconds, self._resume)

    def _resume(self) -> None:
        self._pause = None
        for one in self._sockets:
            self._loop.add_reader(one, self._accept, one)

    def _forget(self, accepted: socket.socket) -> _Pending | None:
        pending = self._pending.pop(accepted, None)
        if pending is not None:
            pending.timer.cancel()
            if pending.task is None:
                self._loop.remove_reader(accepted)
        return pending

    def _give_up(self, accepted: socket.socket) -> None:
        """Closes a connection that is none yet."""
        pending = self._forget(accepted)
        if pending is None or pending.task is None:
            accepted.close()
        else:
            peer = _peer(accepted)
            self._peer_log.warning(peer, "%s does not end its TLS handshake in time", peer)
            pending.task.cancel()

    def _look(self, accepted: socket.socket) -> None:
        try:
            first = accepted.recv(1, socket.MSG_PEEK)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            first = b""
        is_tls = first == HANDSHAKE_BYTE
        if not first:
            self._give_up(accepted)
        elif self._is_enforcing and not is_tls:
            peer = _peer(accepted)
            self._peer_log.warning(peer, "%s does not speak TLS, and gets no answer", peer)
            self._give_up(accepted)
        else:
            self._loop.remove_reader(accepted)
            connecting = self._connect(accepted, self._reloaded.context if is_tls else None)
            task = self._tasks.spawn(connecting, "a connection's handshake")
            self._pending[accepted].task = task
            task.add_done_callback(lambda _: self._forget(accepted))

    async def _connect(self, accepted: socket.socket, context: ssl.SSLContext | None) -> None:
        peer = _peer(accepted)
        try:
            await self._loop.connect_accepted_socket(
                self._protocol if context is None else self._tls_protocol,
                accepted,
                ssl=context,
                ssl_handshake_timeout=None if context is None else _LOOPS_TIMEOUT_S,
            )
        except OSError as e:  # TLS's errors are among them
            reason = handshake_failure(e) or str(e) or "it has closed the connection"
            self._peer_log.warning(peer, "no TLS connection with %s: %s", peer, reason)
            accepted.close()
        except asyncio.CancelledError:
            accepted.close()
            raise

    async def close(self) -> None:
        """Stops listening, and ends what is not a connection yet. Idempotent."""
        if self._pause is not None:
            self._pause.cancel()
        for one in self._sockets:
            self._loop.remove_reader(one)
            one.close()
        self._sockets = []
        for accepted, pending in list(self._pending.items()):
            if pending.task is None:
                self._give_up(accepted)
        await self._tasks.close()


def _peer(accepted: socket.socket) -> str:
    try:
        host, port = accepted.getpeername()[:2]
    except OSError:
        return "a client that has gone"
    return join_address(host, port)
