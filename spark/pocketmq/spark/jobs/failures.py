"""Finds the reason of a failed Spark job among Spark's hundred lines."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

from pocketmq.spark.errors import JobError
from pocketmq.spark.interrupts import interruption_behind
from pocketmq.spark.plain_errors import SHOW_VARIABLE

_OWN_ERROR = re.compile(r"^(?:.*?: |\s*)(pocketmq(?:\.\w+)+): (.+)$", re.MULTILINE)
_MARKS = re.compile(r"^\s*\[[A-Z0-9_.]+\] | SQLSTATE: \w+\s*$")
REASON_LENGTH_MAX = 2000
CAUSES_MAX = 20
"""How deep a chain of causes is followed."""


def reason_of(error: BaseException) -> str:
    """Returns the reason in an error of Spark: what this project raised, in a task or planning.

    Without that, Spark's own sentence, and that of its cause.
    """
    own = _OWN_ERROR.findall(str(error))
    if own:
        # Causes stand before what they led to, so the last one says it from the job's view.
        return str(own[-1][1])[:REASON_LENGTH_MAX]
    said = [_sentence(text) for text in java_messages(error) or [str(error)]]
    said = [sentence for sentence in said if sentence] or [type(error).__name__]
    reason = said[0] if said[0] == said[-1] else f"{said[0]} ({said[-1]})"
    return reason[:REASON_LENGTH_MAX]


def java_messages(error: BaseException) -> list[str]:
    """Returns the messages of an exception of the JVM and of its causes, the outermost first."""
    messages: list[str] = []
    java = getattr(error, "java_exception", None)
    while java is not None and len(messages) < CAUSES_MAX:
        messages.append(java.getMessage() or "")
        java = java.getCause()
    return messages


def _sentence(text: str) -> str:
    """The first line of a text that is not blank, without Spark's marks around it."""
    first = next((line for line in text.splitlines() if line.strip()), "")
    return _MARKS.sub("", first).strip()


@contextmanager
def job(what: str) -> Iterator[None]:
    """Turns the failure of a Spark job within the block into a `JobError` with the reason.

    Args:
        what: the job in words, for the error's text.

    Raises:
        JobError: Spark failed.
        KeyboardInterrupt: it failed because of Ctrl-C.
    """
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as e:
        if interruption := interruption_behind(e):
            raise interruption from None
        shown = e if os.environ.get(SHOW_VARIABLE) else None  # the context keeps it all the same
        raise JobError(what, reason_of(e)) from shown
