"""The file of an audit: it begins anew at a size, and only its owner may read it."""

from __future__ import annotations

import io
import logging
import os
import sys
from logging.handlers import RotatingFileHandler
from pathlib import Path

from pocketmq.protocol.errors import ConfigError
from pocketmq.runtime.clock import Clock

log = logging.getLogger("pocketmq.auth")

FILES_MAX = 5
"""Earlier files that are kept: ``audit.log.1`` is the newest of them."""

SILENT_S = 60.0
"""A file that cannot be written is spoken of once in so many seconds."""


class AuditFile:
    """Writes lines to a file.

    Args:
        path: of the file.
        size_max: bytes of one file.
        clock: bounds what is logged when the disk does not take a line.

    Raises:
        ConfigError: the file cannot be written.
    """

    def __init__(self, path: Path, size_max: int, clock: Clock) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            _open_private(path).close()
        except OSError as e:
            raise ConfigError(f"auditLogPath: {path}: {e.strerror}") from e
        self._handler = _PrivateFile(path, size_max)
        self._path, self._clock = path, clock
        self._spoken_s = -SILENT_S

    def write(self, line: bytes) -> None:
        """Writes a line. A disk that does not take it stops no request: it is logged."""
        try:
            self._handler.emit(logging.makeLogRecord({"msg": line.decode()}))
        except OSError as e:
            now_s = self._clock.machine.monotonic()
            if now_s - self._spoken_s >= SILENT_S:
                self._spoken_s = now_s
                log.error("the audit cannot be written to %s: %s", self._path, e)

    def close(self) -> None:
        """Closes the file."""
        try:
            self._handler.close()
        except OSError as e:
            log.error("the end of the audit cannot be written to %s: %s", self._path, e)


class _PrivateFile(RotatingFileHandler):
    def __init__(self, path: Path, size_max: int) -> None:
        super().__init__(
            path, maxBytes=size_max, backupCount=FILES_MAX, encoding="utf-8", delay=True
        )

    def _open(self) -> io.TextIOWrapper:
        return _open_private(Path(self.baseFilename))

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 (logging's name)
        error = sys.exc_info()[1]
        assert error is not None, "logging calls this while it handles one"
        raise error  # to `AuditFile.write`


def _open_private(path: Path) -> io.TextIOWrapper:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    return open(descriptor, "a", encoding="utf-8")
