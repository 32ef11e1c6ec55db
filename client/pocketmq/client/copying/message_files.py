"""Files and streams of messages: lines with their numbers, in bounded memory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from pocketmq.protocol.errors import ConfigError, UsageError
from pocketmq.protocol.messages.message_json import MessageDocument, document_of_line

LINE_SIZE_MAX = 32 * 1024 * 1024
"""A message of RocketMQ's largest size, each byte of it escaped, and its properties."""

CHUNK_SIZE = 64 * 1024


class LineSplitter:
    """Cuts a stream of bytes into lines.

    Args:
        delimiter: ends each line; the last one may go without.

    Attributes:
        number: of the line that came last; the first is 1.
    """

    def __init__(self, delimiter: bytes = b"\n") -> None:
        self._delimiter = delimiter
        self._rest: list[bytes] = []
        self._rest_size = 0
        self._overlap = len(delimiter) - 1
        self.number = 0

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Yields the lines that are complete now; take them all before the next call.

        Raises:
            UsageError: a line is longer than `LINE_SIZE_MAX`.
        """
        chunk = self._tail() + chunk
        first, *others = chunk.split(self._delimiter)
        self._keep(first)
        for line in others:
            yield self._take()
            self._keep(line)

    def finish(self) -> Iterator[bytes]:
        """Returns the last line, if it has no delimiter."""
        if self._rest_size:
            yield self._take()

    def _tail(self) -> bytes:
        """Keeps the end of a chunk that may be the beginning of a delimiter."""
        tail = b""
        while self._rest and len(tail) < self._overlap:
            tail = self._rest.pop() + tail
        cut = max(0, len(tail) - self._overlap)
        self._rest_size -= len(tail) - cut
        if cut:
            self._rest.append(tail[:cut])
        return tail[cut:]

    def _keep(self, part: bytes) -> None:
        self._rest.append(part)
        self._rest_size += len(part)
        if self._rest_size > LINE_SIZE_MAX:
            raise UsageError(
                f"line {self.number + 1} is longer than {LINE_SIZE_MAX} bytes: is the delimiter "
                f"the right one?"
            )

    def _take(self) -> bytes:
        line = b"".join(self._rest)
        self._rest, self._rest_size = [], 0
        self.number += 1
        return line


def file_lines(path: str | os.PathLike[str], first: int = 1) -> Iterator[tuple[int, bytes]]:
    """Yields the lines of a file with their numbers; blank ones are left out.

    Args:
        path: the file.
        first: the line to begin with.

    Raises:
        ConfigError: it cannot be read, or a line is too long.
    """
    splitter = LineSplitter()

    def lines() -> Iterator[bytes]:
        with Path(path).open("rb") as file:
            while chunk := file.read(CHUNK_SIZE):
                yield from splitter.feed(chunk)
        yield from splitter.finish()

    try:
        for line in lines():
            if splitter.number >= first and line.strip():
                yield splitter.number, line
    except OSError as e:
        raise ConfigError(f"{path} cannot be read: {e.strerror or e}") from e
    except UsageError as e:
        raise ConfigError(f"{path}: {e}") from e


def file_documents(path: str | os.PathLike[str]) -> Iterator[tuple[int, MessageDocument]]:
    """Yields the messages of a file of JSON lines with their line numbers.

    Raises:
        ConfigError: it cannot be read, or a line is no message; names file and line.
    """
    for number, line in file_lines(path):
        try:
            document = document_of_line(line)
            _ = document.message("any")  # so that nothing is sent before all is looked at
        except UsageError as e:
            raise ConfigError(f"{path}:{number}: {e}") from e
        yield number, document
