"""Asks producers what became of their transactions (`TransactionalMessageServiceImpl#check`)."""

from __future__ import annotations

import logging
import math
from enum import Enum, auto
from functools import partial

import msgspec

from pocketmq.broker.appending.appender import Appender
from pocketmq.broker.appending.stored_message import StoredMessage, stored_in
from pocketmq.broker.config.config import BrokerConfig
from pocketmq.broker.groups.clients import ProducerTable
from pocketmq.broker.store.log.queue_log import WRITTEN, QueueLog
from pocketmq.broker.store.store import MessageStore
from pocketmq.broker.topics.topics import TopicTable
from pocketmq.broker.transactions.half import check_times, immunity_ms, with_check_times
from pocketmq.broker.transactions.half_states import GIVEN_UP
from pocketmq.broker.transactions.transactions import Transactions, origin_of
from pocketmq.protocol.errors import OperatingError
from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.messages.ids import offset_msg_id
from pocketmq.protocol.names import names
from pocketmq.protocol.requests.transactions import CheckTransactionStateRequest
from pocketmq.protocol.wire.command import Command
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.live import Live

log = logging.getLogger("pocketmq.broker")

EXAMINED_PER_TURN_MAX = 64
"""Half messages that one turn of the loop looks at, so that sends and pulls get theirs."""

SIZE_PER_READ_MAX = 4 * 1024 * 1024

ROUND_MS_MAX = 60_000
"""After so long a round ends wherever it is (MAX_PROCESS_TIME_LIMIT); the next one goes on."""

COPIES_MAX = 1_000_000
"""Open half messages that were checked; while there are so many no further ones are."""

HALF_STATES_MAX = 16 * 1024 * 1024
"""While the oldest open half message has so many behind it, those that wait are moved as well."""

GIVEN_UP_QUEUE_NUMS = 1


class CheckSettings(msgspec.Struct, frozen=True):
    """When producers are asked, and how often.

    Attributes:
        broker_name: goes into the requests.
        timeout_ms: how long a half message is left alone (transactionTimeOut).
        check_max: how often producers are asked (transactionCheckMax).
        reserved_ms: the age at which a half message is given up in any case (fileReservedTime).
    """

    broker_name: str
    timeout_ms: int
    check_max: int
    reserved_ms: int

    @classmethod
    def of(cls, config: BrokerConfig) -> CheckSettings:
        """The part of a broker's settings that checks depend on."""
        return cls(
            broker_name=config.broker_name,
            timeout_ms=config.transaction_time_out,
            check_max=config.transaction_check_max,
            reserved_ms=config.reserved_ms,
        )


class Verdict(Enum):
    """What a round does with an open half message."""

    LEAVE = auto()
    MOVE = auto()
    CHECK = auto()
    GIVE_UP = auto()
    TOO_NEW = auto()
    """So are all behind it: the round is over."""


class CheckBack:
    """Goes over the open half messages in rounds, from the oldest on.

    Args:
        transactions: of the broker.
        producers: who can be asked.
        store, appender, topics: of the broker.
        settings: when and how often.
        store_host: the broker's encoded address.
    """

    def __init__(
        self,
        transactions: Transactions,
        producers: ProducerTable,
        store: MessageStore,
        clock: Clock,
        appender: Appender,
        topics: TopicTable,
        settings: Live[CheckSettings],
        store_host: bytes,
    ) -> None:
        self._transactions, self._producers = transactions, producers
        self._store, self._clock, self._topics = store, clock, topics
        self._append = appender.append_message
        self._settings, self._store_host = settings, store_host
        self._room = 0
        self._damaged: set[int] = set()

    async def run(self) -> int:
        """One round; returns how many half messages it looked at.

        Those that are stored while it runs are left to the next one.

        Raises:
            OSError, StoreError: a log cannot be read or written; the next round tries again.
        """
        half = self._transactions.half_log
        if half is None:
            return 0
        self._transactions.grow()
        self._transactions.note_round()
        offset, end, total = 0, half.end_offset, 0
        began_s = self._clock.monotonic()
        while self._store.refusal is None:
            next_offset, count = self._turn(half, offset, end)
            self._store.commit()
            total += count
            if next_offset is None or self._clock.monotonic() - began_s > ROUND_MS_MAX / 1000:
                break
            offset = next_offset
            await self._clock.sleep(0)
        self._transactions.save()
        return total

    def idle_s(self) -> float:
        """Returns for how many seconds rounds find nothing: for ever without open half messages."""
        self._transactions.grow()
        return 0.0 if self._transactions.half_states.open_count() else math.inf

    def _turn(self, half: QueueLog, offset: int, end: int) -> tuple[int | None, int]:
        """Examines some half messages; returns where to go on (None: nowhere) and their number."""
        states, count = self._transactions.half_states, 0
        self._room = COPIES_MAX - len(self._transactions.copies)
        while count < EXAMINED_PER_TURN_MAX:
            run = states.next_open(offset, end, EXAMINED_PER_TURN_MAX - count)
            if run is None:
                return None, count
            part = half.read(run.start, run.end - run.start, SIZE_PER_READ_MAX)
            offset = run.start
            for message in stored_in(part, offset):
                offset += 1
                count += 1
                verdict = self._verdict(message)
                if verdict is Verdict.TOO_NEW:
                    return None, count
                self._execute(half, message, verdict)
            if offset < part.next_offset:
                self._note_damaged(offset)
                offset += 1
                count += 1
        return offset, count

    def _note_damaged(self, offset: int) -> None:
        """Logs a half message that cannot be read, once; it stays open."""
        if offset not in self._damaged:
            log.error("the half message at %d is damaged on the disk: nobody is asked", offset)
            self._damaged.add(offset)

    def _verdict(self, message: StoredMessage) -> Verdict:
        settings, text = self._settings.now, message.text
        # A producer whose clock is ahead must not make its messages immune, nor asked about early.
        birth_ms = min(message.born_timestamp, message.store_timestamp)
        age_ms = self._clock.now_ms() - birth_ms
        if check_times(text) >= settings.check_max or age_ms > settings.reserved_ms:
            return Verdict.GIVE_UP
        immunity = immunity_ms(text)
        if immunity is None:
            if 0 <= age_ms <= settings.timeout_ms:
                return Verdict.TOO_NEW
        elif age_ms <= immunity:
            states = self._transactions.half_states
            too_many = states.end - states.base > HALF_STATES_MAX
            return Verdict.MOVE if too_many else Verdict.LEAVE
        if origin_of(message) not in self._transactions.copies:
            if self._room <= 0:
                return Verdict.LEAVE
            self._room -= 1
        return Verdict.CHECK

    def _execute(self, half: QueueLog, message: StoredMessage, verdict: Verdict) -> None:
        if verdict is Verdict.GIVE_UP:
            self._give_up(message)
        elif verdict is Verdict.MOVE:
            self._move(half, message, is_check=False)
        elif verdict is Verdict.CHECK:
            times = check_times(message.text) + 1
            self._move(half, with_check_times(message, times), is_check=True)

    def _move(self, half: QueueLog, message: StoredMessage, *, is_check: bool) -> None:
        """Puts a half message to the end of its queue, and perhaps asks about it then."""
        origin = origin_of(message)
        copy = message._replace(
            queue_offset=half.next_offset, physical_offset=half.next_physical_offset
        )

        def on_stored(error: OperatingError | None) -> None:
            if error is not None:
                return  # it stays where it is, and the next round tries again
            self._transactions.moved(message.queue_offset, origin, copy.queue_offset)
            if is_check:
                self._ask(copy)

        self._append(half, message, on_stored, WRITTEN, prepared_transaction_offset=origin)

    def _ask(self, half: StoredMessage) -> None:
        """Sends 39 to one living producer of the message's group."""
        text = half.text
        group = props.value_of(text, props.PRODUCER_GROUP) or ""
        unique_key = props.value_of(text, props.UNIQ_KEY)
        member = self._producers.next_member(group)
        if member is None:
            log.warning("nobody of producer group %s can be asked about %s", group, unique_key)
            return
        header = CheckTransactionStateRequest(
            topic=names.HALF_TOPIC,
            tran_state_table_offset=half.queue_offset,
            commit_log_offset=half.physical_offset,
            msg_id=unique_key,
            transaction_id=unique_key,
            offset_msg_id=offset_msg_id(self._store_host, half.physical_offset),
            broker_name=self._settings.now.broker_name,
        )
        body = as_real_message(half)
        member.connection.notify(Command(header.code, header=header, body=body))

    def _give_up(self, message: StoredMessage) -> None:
        """Appends a half message to the topic of given-up ones (`resolveDiscardMsg`)."""
        self._topics.create_for_group(names.CHECK_MAX_TIME_TOPIC, GIVEN_UP_QUEUE_NUMS)
        target = self._store.queue_log(names.CHECK_MAX_TIME_TOPIC, 0)
        self._append(target, message, partial(self._given_up, message), WRITTEN)

    def _given_up(self, message: StoredMessage, error: OperatingError | None) -> None:
        if error is not None:
            return  # it stays open, and the next round tries again
        text = message.text
        log.warning(
            "the transaction of message %s for %s is given up after %d checks: it is in %s now",
            props.value_of(text, props.UNIQ_KEY), props.value_of(text, props.REAL_TOPIC),
            check_times(text), names.CHECK_MAX_TIME_TOPIC,
        )  # fmt: skip
        self._transactions.given_up(message.queue_offset, origin_of(message), GIVEN_UP)


def as_real_message(half: StoredMessage) -> bytes:
    """The half message as a record under the topic and queue that it is for."""
    text = half.text
    queue_id = props.value_of(text, props.REAL_QUEUE_ID) or ""
    topic = props.value_of(text, props.REAL_TOPIC) or ""
    real = half._replace(topic=topic, prepared_transaction_offset=0)
    return real.record(int(queue_id) if queue_id.isascii() and queue_id.isdecimal() else 0)
