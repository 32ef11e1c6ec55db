"""Tasks of Taskiq as messages of RocketMQ, and what their labels ask for."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from taskiq import BrokerMessage, TaskiqMessage
from taskiq.abc.formatter import TaskiqFormatter

from pocketmq.client.application_code import outcome_of
from pocketmq.client.consumers.priority_topics import topic_of_priority
from pocketmq.protocol.errors import ContentError, UsageError
from pocketmq.protocol.messages.message import Message, ReceivedMessage
from pocketmq.taskiq.options import Options

DELAY = "delay"
"""The label that Taskiq's brokers and retries share: seconds to wait before the task runs."""

DELIVER_AT = "deliver_at_ms"
"""The label of a task that runs at a time: milliseconds since the epoch."""

PRIORITY = "priority"
"""The label of a task's priority, a whole number."""

REDELIVERIES = "redeliveries"
"""The label of a task that comes again: how often a worker has had it before."""


def packed(topic: str, task: BrokerMessage, options: Options) -> Message:
    """Returns what is sent for a task.

    The task's id becomes a key and its name the tag, by which consoles find messages.

    Args:
        topic: of tasks without a priority.
        task: as the formatter has written it.
        options: of the broker.

    Raises:
        UsageError: a label is not of its kind.
    """
    labels = task.labels
    delay_s = _number(labels, DELAY, float)
    deliver_at_ms = _number(labels, DELIVER_AT, int)
    priority = _number(labels, PRIORITY, int)
    has_time = deliver_at_ms > 0
    return Message(
        topic_of_priority(topic, options.priority_steps, priority),
        task.message,
        keys=task.task_id if task.task_id.split() == [task.task_id] else (),
        tags=task.task_name if "||" not in task.task_name else None,
        delay_ms=0 if has_time else math.ceil(delay_s * 1000),
        deliver_at_ms=deliver_at_ms,
    )


def _number(labels: Mapping[str, Any], label: str, kind: Callable[[Any], Any]) -> Any:
    """The value of a label, which Taskiq may have made a text of; 0 if there is none."""
    value = labels.get(label, 0)
    try:
        number = kind(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number) or (number < 0 and label != PRIORITY):
        wanted = "a whole number" if label == PRIORITY else "a number that is not negative"
        raise UsageError(f"the label {label}={value!r} of the task does not fit: it is {wanted}")
    return number


def unpacked(message: ReceivedMessage, formatter: TaskiqFormatter) -> TaskiqMessage:
    """Returns the task of a message.

    Args:
        message: as it came.
        formatter: of the broker.

    Raises:
        ContentError: the message is no task.
    """
    task, error = outcome_of(formatter.loads, bytes(message.body))
    if error is None:
        _, error = outcome_of(task.model_copy(deep=True).parse_labels)
    if error is not None:
        raise ContentError(
            f"message {message.msg_id} is no task of Taskiq: {error}; other producers have to send "
            f"what Taskiq sends, or to another topic"
        ) from error
    assert isinstance(task, TaskiqMessage)
    return task


def body_of(message: ReceivedMessage, task: TaskiqMessage, formatter: TaskiqFormatter) -> bytes:
    """Returns the bytes that Taskiq gets: those of the message, unless it comes again.

    Args:
        message: as it came.
        task: of the message.
        formatter: of the broker.
    """
    if message.reconsume_times == 0:
        return bytes(message.body)
    task.labels[REDELIVERIES] = message.reconsume_times
    return formatter.dumps(task).message
