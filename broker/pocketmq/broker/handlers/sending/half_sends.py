"""Sends of transactional messages, which wait as half messages for their producer's decision."""

from __future__ import annotations

from functools import partial

from pocketmq.broker.appending.appender import Appender
from pocketmq.broker.appending.size_limits import check_properties_size
from pocketmq.broker.handlers.sending.answers import SendAnswers
from pocketmq.broker.handlers.sending.send_checks import durability_of
from pocketmq.broker.handlers.sending.send_properties import SendProperties
from pocketmq.broker.transactions.half import HALF_PROPERTIES_SIZE_MAX, half_properties
from pocketmq.broker.transactions.transactions import Transactions
from pocketmq.protocol import flags
from pocketmq.protocol.requests.sending import SendMessageRequest
from pocketmq.protocol.wire.command import Command
from pocketmq.transport.connection import Connection


class HalfSends:
    """Stores half messages.

    Args:
        properties, answers: of sends.
        appender, transactions: of the broker.
        store_host: goes into records.
    """

    def __init__(
        self,
        properties: SendProperties,
        answers: SendAnswers,
        appender: Appender,
        transactions: Transactions,
        store_host: bytes,
    ) -> None:
        self._properties, self._answers = properties, answers
        self._appender, self._transactions = appender, transactions
        self._store_host = store_host

    def store(
        self, command: Command, request: SendMessageRequest, connection: Connection, queue_id: int
    ) -> None:
        """Stores a half message for a queue; its sender is answered when that is done.

        Raises:
            ResponseError: it may not be stored.
        """
        given = request.properties or ""
        unique, text = self._properties.renew(given)
        properties = half_properties(text, request.topic, queue_id, unique).encode()
        queue_log = self._transactions.half_queue()
        check_properties_size(properties, HALF_PROPERTIES_SIZE_MAX)
        physical_offset = queue_log.next_physical_offset
        on_stored = partial(
            self._answers.answer, command, connection, self._answers.id_at(physical_offset),
            queue_id, queue_log.next_offset, unique, None,
        )  # fmt: skip
        self._appender.append_sent(
            queue_log, physical_offset, request, command.body, connection.remote_host,
            request.sys_flag & ~flags.TRANSACTION_MASK, properties, 0, self._store_host, on_stored,
            durability_of(given),
        )  # fmt: skip
