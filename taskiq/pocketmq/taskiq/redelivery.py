"""Tasks that failed and come again from the broker, in the place of new messages."""

from __future__ import annotations

from collections.abc import Iterable
from contextvars import ContextVar
from typing import Any, NamedTuple

from taskiq import TaskiqMessage, TaskiqMiddleware, TaskiqResult
from taskiq.exceptions import NoResultError

from pocketmq.protocol.messages.delay_levels import retry_delay_s
from pocketmq.taskiq.messages import REDELIVERIES


class Failure(NamedTuple):
    """Why a task is not acknowledged.

    Attributes:
        error: what the task raised.
        delay_ms: until the task comes again; None for a dead letter.
    """

    error: BaseException
    delay_ms: int | None


failure: ContextVar[Failure | None] = ContextVar("pocketmq_taskiq_failure", default=None)
"""Of the task that runs: Taskiq acknowledges a task where it has run it, in one context."""


class RedeliveryMiddleware(TaskiqMiddleware):
    """Has the broker deliver a task again that failed, and makes it a dead letter in the end.

    In place of Taskiq's `SimpleRetryMiddleware` and `SmartRetryMiddleware`, which acknowledge the
    task and send another: here it is one message throughout, which the broker counts. A task that
    is acknowledged before it has run (``ack_type``) is not delivered again.

    Args:
        default_retry_count: how often a task runs at most, if it has no label ``max_retries``.
        default_retry_label: whether tasks without a label ``retry_on_error`` come again.
        no_result_on_retry: no result is kept of a run after which the task comes again.
        types_of_exceptions: after other errors tasks do not come again, and are no dead letters;
            the label of the same name counts before; by default all errors.
        delay_s: seconds until a task comes again; by default as RocketMQ has it, longer from time
            to time: 10 s, 30 s, 1 minute and so on, up to 2 hours.
    """

    def __init__(
        self,
        default_retry_count: int = 3,
        default_retry_label: bool = True,
        no_result_on_retry: bool = True,
        types_of_exceptions: Iterable[type[BaseException]] | None = None,
        delay_s: float | None = None,
    ) -> None:
        super().__init__()
        self._retry_count, self._is_retried = default_retry_count, default_retry_label
        self._no_result_on_retry, self._delay_s = no_result_on_retry, delay_s
        self._types = None if types_of_exceptions is None else tuple(types_of_exceptions)

    def pre_execute(self, message: TaskiqMessage) -> TaskiqMessage:
        """Notes that the task has not failed yet."""
        failure.set(None)
        return message

    def on_error(
        self, message: TaskiqMessage, result: TaskiqResult[Any], exception: BaseException
    ) -> None:
        """Decides what becomes of a task that failed."""
        if isinstance(exception, NoResultError) or not self._comes_again(message, exception):
            return
        redeliveries = int(message.labels.get(REDELIVERIES, 0))
        if redeliveries + 1 >= int(message.labels.get("max_retries", self._retry_count)):
            failure.set(Failure(exception, None))
            return
        delay_s = retry_delay_s(redeliveries) if self._delay_s is None else self._delay_s
        failure.set(Failure(exception, round(delay_s * 1000)))
        if self._no_result_on_retry:
            result.error = NoResultError()

    def _comes_again(self, message: TaskiqMessage, exception: BaseException) -> bool:
        is_retried = message.labels.get("retry_on_error", self._is_retried)
        if isinstance(is_retried, str):
            is_retried = is_retried.lower() == "true"
        task = self.broker.find_task(message.task_name)
        types = None if task is None else task.labels.get("types_of_exceptions")
        types = self._types if types is None else tuple(types)
        return bool(is_retried) and (types is None or isinstance(exception, types))
