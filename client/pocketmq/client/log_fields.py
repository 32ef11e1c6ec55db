"""The subject of a log record as fields of the record: for logs that machines read.

A record's text says the same to people. The fields are attributes of the `LogRecord`, by the
``extra`` of the standard library, so any formatter that writes JSON has them::

    handler.addFilter(lambda record: getattr(record, "group", None) == "billing")
"""

from __future__ import annotations

from pocketmq.protocol.messages.message import MessageQueue, ReceivedMessage

LOG_FIELDS = (
    "group",
    "topic",
    "broker_name",
    "queue_id",
    "queue_offset",
    "msg_id",
    "reconsume_times",
)
"""All fields; a record has those of its subject."""


def log_fields(
    group: str | None = None,
    queue: MessageQueue | None = None,
    message: ReceivedMessage | None = None,
) -> dict[str, object]:
    """Returns the ``extra`` of a log record.

    Args:
        group: the consumer group.
        queue: the queue; not needed with a message.
        message: the message.
    """
    fields: dict[str, object] = {} if group is None else {"group": group}
    if message is not None:
        queue = message.queue
        fields["queue_offset"], fields["msg_id"] = message.queue_offset, message.msg_id
        fields["reconsume_times"] = message.reconsume_times
    if queue is not None:
        fields["topic"], fields["broker_name"], fields["queue_id"] = queue
    return fields
