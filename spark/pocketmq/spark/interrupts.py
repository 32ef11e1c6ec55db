"""Lets Ctrl-C end a Spark job as it ends any Python program."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_LOGGERS = ("root", "py4j.clientserver", "py4j.java_gateway")
_REENTRANT = "reentrant call"
"""PySpark's handler, while a session starts, calls the JVM in the middle of another call."""


@contextmanager
def kept_as_raised() -> Iterator[None]:
    """Lets a Ctrl-C within the block leave it as a `KeyboardInterrupt`.

    Py4j closes the connection that it interrupts; what PySpark and the session's end then ask of
    the JVM may fail with errors of their own, and py4j logs each with a hundred lines around it.

    Raises:
        KeyboardInterrupt: it was pressed, whatever the block raised because of it.
    """
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    for logger in loggers:
        logger.addFilter(_is_other)
    try:
        yield
    except BaseException as error:
        if interruption := interruption_behind(error):
            raise interruption from None
        raise
    finally:
        for logger in loggers:
            logger.removeFilter(_is_other)


def interruption_behind(error: BaseException | None) -> KeyboardInterrupt | None:
    """Finds the Ctrl-C that led to an error; None without one."""
    while error is not None:
        if isinstance(error, KeyboardInterrupt):
            return error
        if str(error).startswith(_REENTRANT):
            return KeyboardInterrupt()
        error = error.__cause__ or error.__context__
    return None


def take_back() -> None:
    """Lets Python handle Ctrl-C again, after a session has started.

    PySpark's own handler asks the JVM to cancel all jobs, in the middle of the call that it has
    interrupted: that fails with a traceback. The end of the session cancels them too.
    """
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _is_other(record: logging.LogRecord) -> bool:
    return interruption_behind(record.exc_info[1] if record.exc_info else None) is None
