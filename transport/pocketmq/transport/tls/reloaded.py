"""A server's TLS context that follows its files."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Sequence
from pathlib import Path

from pocketmq.protocol.errors import ConfigError
from pocketmq.runtime.certificates import days_left
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.private_files import is_readable_by_others
from pocketmq.transport.tls.contexts import server_context
from pocketmq.transport.tls.settings import ServerTls

log = logging.getLogger("pocketmq.transport")

LOOK_PERIOD_S = 5.0
"""How often it is looked whether the files have changed."""

WARN_DAYS, ERROR_DAYS = 30.0, 7.0
"""So long before its end a certificate is warned of, and is an error."""

_DAY_S = 86_400
_DAY_MS = 1000 * _DAY_S

_Stamp = tuple[tuple[int, int, int] | None, ...]


class ReloadedContext:
    """The context for new connections: made anew when one of its files changes.

    A certificate and a key that do not fit together, as while they are being replaced, leave the
    context as it is. Connections that are open go on with what they began with.

    Args:
        settings: name the files.
        clock: tells how long the certificate is valid.
        alpn: protocols of the application that it offers.

    Attributes:
        context: for the next connection.
        expires_ms: when its certificate expires, in milliseconds since the epoch.

    Raises:
        ConfigError: a file cannot be read or does not fit, or the certificate has expired.
    """

    def __init__(self, settings: ServerTls, clock: Clock, alpn: Sequence[str] = ()) -> None:
        self._settings, self._clock, self._alpn = settings, clock, alpn
        self._stamp = self._files_stamp()
        self.context: ssl.SSLContext = server_context(settings, alpn)
        self.expires_ms = self._expiry_ms()
        self._told_s: float | None = None
        self._look_at_expiry()
        if is_readable_by_others(Path(settings.key_path).expanduser()):
            log.warning("TLS: others may read the key %s: chmod 600 it", settings.key_path)

    def look(self) -> None:
        """Makes the context anew if a file has changed; logs why if that is not possible."""
        stamp = self._files_stamp()
        if stamp != self._stamp:
            self._stamp = stamp  # a bad pair is told once
            try:
                context = server_context(self._settings, self._alpn)
                self.expires_ms = self._expiry_ms()
            except ConfigError as e:
                log.error("%s; new connections get the certificate from before", e)
            else:
                self.context, self._told_s = context, None
                log.info("new connections get the certificate of %s as it is now", self._path)
        self._look_at_expiry()

    @property
    def _path(self) -> str:
        return self._settings.cert_path

    def _files_stamp(self) -> _Stamp:
        settings = self._settings
        return tuple(map(_stamp, (settings.cert_path, settings.key_path, settings.trust_cert_path)))

    def _look_at_expiry(self) -> None:
        now_s = self._clock.monotonic()
        if self._told_s is not None and now_s - self._told_s < _DAY_S:
            return
        self._told_s = now_s
        left = (self.expires_ms - self._clock.now_ms()) / _DAY_MS
        if left < 0:
            log.error("TLS: the certificate %s has expired %.1f days ago", self._path, -left)
        elif left < WARN_DAYS:
            level = logging.ERROR if left < ERROR_DAYS else logging.WARNING
            log.log(level, "TLS: the certificate %s expires in %.1f days", self._path, left)

    def _expiry_ms(self) -> float:
        """When the certificate of the file expires; one that has expired is an error."""
        try:
            left = days_left(Path(self._path).expanduser().read_bytes(), self._clock)
        except (OSError, ValueError) as e:
            raise ConfigError(f"TLS: {self._path} is no certificate ({e})") from None
        if left < 0:
            raise ConfigError(
                f"TLS: the certificate {self._path} has expired {-left:.1f} days ago: renew it"
            )
        return self._clock.now_ms() + left * _DAY_MS


def _stamp(path: str) -> tuple[int, int, int] | None:
    try:
        status = Path(path).expanduser().stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
