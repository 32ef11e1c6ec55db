"""What senders are told when their messages are stored, or could not be."""

from __future__ import annotations

from pocketmq.broker.handlers.sending.send_checks import SendSettings
from pocketmq.broker.refusals import store_failure
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import OperatingError
from pocketmq.protocol.requests.sending import SendMessageResponse
from pocketmq.protocol.wire.command import FLAG_ONEWAY, Command
from pocketmq.protocol.wire.send_answer_frames import send_answers
from pocketmq.runtime.live import Live
from pocketmq.transport.connection import Connection


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
        self._frames = send_answers(settings.region, settings.trace_on)

    def id_at(self, place: int) -> str:
        """The offset message id of a message, from its physical offset."""
        return f"{self._id_start}{place:016X}"

    def answer(
        self,
        command: Command,
        connection: Connection,
        error: OperatingError | None,
        msg_id: str,
        queue_id: int,
        queue_offset: int,
        transaction_id: str | None = None,
        recall_handle: str | None = None,
    ) -> None:
        """Tells a sender where its message is, or why it is not stored."""
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
        if code == ResponseCode.FLUSH_DISK_TIMEOUT:
            # The message is stored: clients take this answer's header as a result.
            connection.respond(command, Command(code, remark=remark, header=header))
        else:
            connection.refuse(command, code, remark)
