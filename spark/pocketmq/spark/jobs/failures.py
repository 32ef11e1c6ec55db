"""Why a Spark job failed, without Spark's hundred lines around it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from pocketmq.spark.errors import JobError

_OWN_ERROR = re.compile(r"^\s*(?:\S*: )?(pocketmq(?:\.\w+)+): (.+)$", re.MULTILINE)
_ERROR_CLASS = re.compile(r"^\[[A-Z_.]+\] (.+)$", re.MULTILINE)
REASON_LENGTH_MAX = 2000


def reason_of(error: BaseException) -> str:
    """The reason in an error of Spark: what this project raised in a task or while planning.

    Without that, Spark's own sentence.
    """
    text = str(error)
    own = _OWN_ERROR.findall(text)
    if own:
        # Causes stand before what they led to, so the last one says it from the job's view.
        return str(own[-1][1])[:REASON_LENGTH_MAX]
    sentence = _ERROR_CLASS.search(text)
    if sentence is not None:
        return sentence.group(1)[:REASON_LENGTH_MAX]
    first = next((line for line in text.splitlines() if line.strip()), type(error).__name__)
    return first.strip()[:REASON_LENGTH_MAX]


@contextmanager
def job(what: str) -> Iterator[None]:
    """Runs a Spark job; its failure becomes a `JobError` with the reason.

    Args:
        what: the job in words, for the error's text.

    Raises:
        JobError: Spark failed.
    """
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as e:
        raise JobError(what, reason_of(e)) from e
