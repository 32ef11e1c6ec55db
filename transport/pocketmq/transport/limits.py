"""The limits of one connection."""

from __future__ import annotations

import msgspec

from pocketmq.protocol.errors import UsageError
from pocketmq.protocol.wire import frames


class Limits(msgspec.Struct, frozen=True):
    """The limits of one connection.

    Attributes:
        frame_size_max: bytes of one frame, either way in.
        idle_timeout_s: a connection without traffic for so long is closed.
        write_pause_size: unsent bytes from which on no further requests are read.
        write_buffer_max: unsent bytes at which a peer that does not read is cut off.
        close_timeout_s: how long a peer may take to read its last answers after `close`.
        tasks_max: requests of the peer that may wait for their handlers together.
    """

    frame_size_max: int = frames.FRAME_SIZE_MAX
    idle_timeout_s: float = 120.0
    write_pause_size: int = 1024 * 1024
    write_buffer_max: int = 64 * 1024 * 1024
    close_timeout_s: float = 3.0
    tasks_max: int = 16_384

    def __post_init__(self) -> None:
        """Checks that the limits do not contradict each other.

        Raises:
            UsageError: a peer would be cut off before writing to it pauses.
        """
        if self.write_buffer_max < self.write_pause_size:
            raise UsageError(
                f"write_buffer_max is {self.write_buffer_max}: it must not be below "
                f"write_pause_size, {self.write_pause_size}"
            )
