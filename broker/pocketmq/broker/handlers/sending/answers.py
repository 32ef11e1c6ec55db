"""Answers to requests that store messages."""

from __future__ import annotations

from collections.abc import Callable

from pocketmq.broker.appending.appender import is_stored
from pocketmq.broker.handlers.sending.send_checks import SendSettings
from pocketmq.broker.refusals import store_failure
from pocketmq.broker.store.log.queue_log import OnStored
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import OperatingError
from pocketmq.protocol.requests.sending import SendMessageResponse
from pocketmq.protocol.wire.command import FLAG_ONEWAY, Command
from pocketmq.protocol.wire.header import Header
from pocketmq.protocol.wire.send_answer_frames import send_answer_frames
from pocketmq.runtime.live import Live
from pocketmq.transport.connection import Connection


def answer_when_stored(
    command: Command,
    connection: Connection,
    header: Header | None = None,
    failure: Callable[[OperatingError], tuple[int, str]] = store_failure,
) -> OnStored:
    """The callback of an append that answers the request which the append is for.

    Args:
        command, connection: the request, and where the answer goes.
        header: of the answer when the message is stored.
        failure: makes code and remark of an append's error.
    """

    def on_stored(error: OperatingError | None) -> None:
        if error is None:
            connection.respond(command, Command(ResponseCode.SUCCESS, header=header))
        else:
            connection.refuse(command, *failure(error))

    return on_stored


class SendAnswers:
    """Answers sends.

    Args:
        settings: of sends.
        store_host: the broker's encoded address, with which message ids begin.
    """

    def __init__(self, settings: Live[SendSettings], store_host: bytes) -> None:
        self._settings, self._id_start = settings, store_host.hex().upper()
        self._apply(settings.now)
        settings.follow(self._apply)

    def _apply(self, settings: SendSettings) -> None:
        """Makes the frames of answers anew, which hold the region and whether traces are on."""
        self._frames = send_answer_frames(settings.region, settings.trace_on)

    def id_at(self, physical_offset: int) -> str:
        """The offset message id of the message at a physical offset."""
        return f"{self._id_start}{physical_offset:016X}"

    def answer(
        self,
        command: Command,
        connection: Connection,
        msg_id: str,
        queue_id: int,
        queue_offset: int,
        transaction_id: str | None,
        recall_handle: str | None,
        error: OperatingError | None,
    ) -> None:
        """Answers a send with where its message is, or why it is not stored."""
        if error is None and recall_handle is None and not connection.greeting_due:
            if not command.flag & FLAG_ONEWAY:
                frame = self._frames[command.codec]
                connection.write(
                    frame(command.opaque, msg_id, queue_id, queue_offset, transaction_id)
                )
            return
        header = SendMessageResponse(
            msg_id=msg_id,
            queue_id=queue_id,
            queue_offset=queue_offset,
            transaction_id=transaction_id,
            recall_handle=recall_handle,
            region=self._settings.now.region,
            trace_on=self._settings.now.trace_on,
        )
        if error is None:
            connection.respond(command, Command(ResponseCode.SUCCESS, header=header))
            return
        code, remark = store_failure(error)
        if is_stored(error):
            # The message is stored: clients take this answer's header as a result.
            connection.respond(command, Command(code, remark=remark, header=header))
        else:
            connection.refuse(command, code, remark)
