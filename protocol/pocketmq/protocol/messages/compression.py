"""Compressed bodies: bit 0 of the message's flags, the method in bits 8 to 10 (wire.md §3.1)."""

from __future__ import annotations

import zlib

import lz4.frame
import zstandard

from pocketmq.protocol import flags
from pocketmq.protocol.errors import ContentError

BODY_SIZE_MAX = 64 * 1024 * 1024
"""Bytes to which a compressed body may unpack: a small frame must not fill the memory."""

LEVEL = 5
"""RocketMQ's default compression level."""


def compress(body: bytes, level: int = LEVEL) -> tuple[bytes, int]:
    """Compresses a body with zlib; returns it and the bits to set in the message's flags."""
    return zlib.compress(body, level), flags.COMPRESSED | flags.COMPRESSION_ZLIB


def decompress(body: bytes, sys_flag: int, size_max: int = BODY_SIZE_MAX) -> bytes:
    """Unpacks a compressed body.

    Raises:
        ContentError: it is damaged, of an unknown method, or larger than `size_max` bytes.
    """
    method = sys_flag & flags.COMPRESSION_MASK
    try:
        if method in (0, flags.COMPRESSION_ZLIB):
            inflater = zlib.decompressobj()
            out = inflater.decompress(body, size_max + 1)
            whole = inflater.eof
        elif method == flags.COMPRESSION_LZ4:
            reader = lz4.frame.LZ4FrameDecompressor()
            out = reader.decompress(body, size_max + 1)
            whole = reader.eof
        elif method == flags.COMPRESSION_ZSTD:
            whole = _is_whole_zstd_frame(body)
            with zstandard.ZstdDecompressor().stream_reader(body) as stream:
                out = stream.read(size_max + 1)
        else:
            raise ContentError(f"unknown compression method {method:#x}")
    except (zlib.error, RuntimeError, zstandard.ZstdError) as e:
        raise ContentError(f"a compressed body cannot be unpacked: {e}") from e
    if len(out) > size_max:
        raise ContentError(f"a compressed body unpacks to more than {size_max} bytes")
    if not whole:
        raise ContentError("a compressed body is cut off")
    return bytes(out)


def _is_whole_zstd_frame(body: bytes) -> bool:
    """Checks block by block that a frame is complete, which the library's reader does not."""
    at, is_last = zstandard.frame_header_size(body), False
    while not is_last and at + 3 <= len(body):
        block = int.from_bytes(body[at : at + 3], "little")
        is_last, is_run, size = bool(block & 1), block >> 1 & 3 == 1, block >> 3
        at += 3 + (1 if is_run else size)  # a run is one byte, to be repeated `size` times
    if zstandard.get_frame_parameters(body).has_checksum:
        at += 4
    return is_last and at <= len(body)
