"""A TCP proxy that logs remoting frames and pairs requests with their answers.

The decoding is deliberately not this project's: what it reads is what the codecs are tested with.
"""

from __future__ import annotations

import asyncio
import json
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

FLAG_RESPONSE = 1
FLAG_ONE_WAY = 2
CODECS = {0: "JSON", 1: "ROCKETMQ"}
# RocketMQ's own limit; a larger length means that the proxy lost the frame borders.
FRAME_SIZE_MAX = 16 << 20
LANGUAGES = ("JAVA", "CPP", "DOTNET", "PYTHON", "DELPHI", "ERLANG", "RUBY", "OTHER", "HTTP", "GO")
HEADER_KEYS = ("code", "language", "version", "opaque", "flag", "remark", "extFields")
BINARY_START = struct.Struct(">hbhiii")


@dataclass(frozen=True)
class Frame:
    """One frame as it was on the wire, length prefix included, and its header."""

    raw: bytes
    codec: str
    header: dict[str, Any]
    body_size: int

    @classmethod
    def parse(cls, raw: bytes) -> Frame:
        """Decode the header of a complete frame."""
        word = int.from_bytes(raw[4:8], "big")
        codec, header_size = CODECS[word >> 24], word & 0xFFFFFF
        text = raw[8 : 8 + header_size]
        header = _json_header(text) if codec == "JSON" else _binary_header(text)
        return cls(raw, codec, header, len(raw) - 8 - header_size)

    @property
    def is_response(self) -> bool:
        """Whether the frame answers another."""
        return bool(self.header["flag"] & FLAG_RESPONSE)

    @property
    def is_one_way(self) -> bool:
        """Whether nobody answers the frame."""
        return bool(self.header["flag"] & FLAG_ONE_WAY)


@dataclass
class Exchange:
    """A request and, unless it was one-way or nobody answered, its response.

    ``is_from_server`` says that the side asks that was connected to, as brokers ask clients.
    """

    link: str
    request: Frame
    response: Frame | None = None
    is_from_server: bool = False


@dataclass
class FrameLog:
    """All exchanges that passed through the proxies, in the order of the requests."""

    exchanges: list[Exchange] = field(default_factory=list)

    async def listen(self, link: str, port: int, target: tuple[str, int]) -> asyncio.Server:
        """Start a proxy on 127.0.0.1 (port 0: the system chooses) in front of ``target``."""
        return await asyncio.start_server(
            partial(self._connection, link, target), "127.0.0.1", port
        )

    async def _connection(
        self,
        link: str,
        target: tuple[str, int],
        near_reader: asyncio.StreamReader,
        near_writer: asyncio.StreamWriter,
    ) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection(*target)
        except OSError:
            near_writer.close()
            return
        near, far = _Pending(self, link), _Pending(self, link, is_server=True)
        await asyncio.gather(
            _pump(near_reader, far_writer, partial(_log, asked=near, answered=far)),
            _pump(far_reader, near_writer, partial(_log, asked=far, answered=near)),
        )


class _Pending:
    """Requests that one side of a connection sent and the other has not answered."""

    def __init__(self, log: FrameLog, link: str, *, is_server: bool = False) -> None:
        self._log = log
        self._link = link
        self._is_server = is_server
        self._by_opaque: dict[int, Exchange] = {}

    def request(self, frame: Frame) -> None:
        exchange = Exchange(self._link, frame, is_from_server=self._is_server)
        self._log.exchanges.append(exchange)
        if not frame.is_one_way:
            self._by_opaque[frame.header["opaque"]] = exchange

    def response(self, frame: Frame) -> None:
        if exchange := self._by_opaque.pop(frame.header["opaque"], None):
            exchange.response = frame


def _log(raw: bytes, asked: _Pending, answered: _Pending) -> None:
    """Note a frame: requests belong to the side they come from, answers to the other side."""
    frame = Frame.parse(raw)
    if frame.is_response:
        answered.response(frame)
    else:
        asked.request(frame)


async def _pump(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, log: Callable[[bytes], None]
) -> None:
    """Pass frames on unchanged until either side closes."""
    try:
        while True:
            prefix = await reader.readexactly(4)
            size = int.from_bytes(prefix, "big")
            if size > FRAME_SIZE_MAX:
                raise ValueError(f"frame of {size} bytes: no frame begins here")
            raw = prefix + await reader.readexactly(size)
            log(raw)
            writer.write(raw)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        return
    finally:
        writer.close()


def _json_header(text: bytes) -> dict[str, Any]:
    header = json.loads(text)
    return {key: header.get(key) for key in HEADER_KEYS}


def _binary_header(data: bytes) -> dict[str, Any]:
    code, language, version, opaque, flag, remark_size = BINARY_START.unpack_from(data)
    at = BINARY_START.size
    remark = data[at : at + remark_size].decode() or None
    at += remark_size
    end = at + 4 + int.from_bytes(data[at : at + 4], "big")
    at += 4
    fields: dict[str, str] = {}
    while at < end:
        key, at = _sized_text(data, at, 2)
        fields[key], at = _sized_text(data, at, 4)
    values = (code, LANGUAGES[language], version, opaque, flag, remark, fields or None)
    return dict(zip(HEADER_KEYS, values, strict=True))


def _sized_text(data: bytes, at: int, prefix_size: int) -> tuple[str, int]:
    """A text after its length; returns it and where the next item begins."""
    begin = at + prefix_size
    end = begin + int.from_bytes(data[at:begin], "big")
    return data[begin:end].decode(), end
