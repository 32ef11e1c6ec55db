"""One stream of an HTTP/2 connection."""

from __future__ import annotations

from collections import deque
from typing import Any


class Stream:
    """One request and its answer.

    Attributes:
        id: its number.
        context: whatever the owner of the connection keeps with it.
        send_window: bytes of data that the peer takes now.
        receive_window: bytes that the peer may send now.
        uncredited: consumed bytes that the peer has not been told of.
        length_left: bytes that its content-length still promises; None without one.
        is_remote_closed: the request is complete.
        queue: data of the answer that waits for a window or for the peer to read.
        queued_size: its bytes.
        trailers: the encoded block that ends the answer; None while it goes on.
    """

    __slots__ = (
        "context",
        "id",
        "is_remote_closed",
        "length_left",
        "queue",
        "queued_size",
        "receive_window",
        "send_window",
        "trailers",
        "uncredited",
    )

    def __init__(self, number: int, send_window: int, receive_window: int) -> None:
        self.id = number
        self.context: Any = None
        self.send_window, self.receive_window = send_window, receive_window
        self.uncredited = 0
        self.length_left: int | None = None
        self.is_remote_closed = False
        self.queue: deque[bytes | memoryview] | None = None
        self.queued_size = 0
        self.trailers: bytes | None = None
