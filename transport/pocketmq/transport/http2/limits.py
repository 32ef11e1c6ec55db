"""What a peer may ask of one HTTP/2 connection."""

from __future__ import annotations

import msgspec

KIB = 1024
MIB = 1024 * KIB


class Http2Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The bounds of each connection; their defaults are beyond what honest clients do.

    Attributes:
        streams_max: calls that may be open together; a further one is refused.
        header_list_max: bytes of a request's header fields, and of their encoded block.
        continuations_max: CONTINUATION frames of one header block.
        stream_window: bytes that a peer may send of one request before the last ones are consumed.
        connection_window: the same for all requests of the connection.
        output_max: bytes of answers that may wait for a peer; one that lets more wait is cut off.
        resets_max: streams that a peer may reset, or make this side reset, in `flood_window_s`.
        pings_max: PING frames in `flood_window_s` without a request between them.
        settings_max: SETTINGS frames in `flood_window_s`.
        empty_max: DATA frames without data that end nothing, in `flood_window_s`.
        idle_frames_max: WINDOW_UPDATE, PRIORITY and unknown frames in `flood_window_s`, with no
            request and no answer's data among them.
        flood_window_s: the time in which these frames are counted.
    """

    streams_max: int = 1024
    header_list_max: int = 16 * KIB
    continuations_max: int = 8
    stream_window: int = MIB
    connection_window: int = 16 * MIB
    output_max: int = 64 * MIB
    resets_max: int = 2048
    pings_max: int = 2000
    settings_max: int = 100
    empty_max: int = 1000
    idle_frames_max: int = 20_000
    flood_window_s: float = 10.0
