"""Numbers queue logs that were never written to: a number in memory, nothing on the disk.

A first message so costs no more than any other while its turn of the loop lasts. What the disk
must know is written for some new logs together, by the commit that begins their files.
"""

from __future__ import annotations

from collections.abc import Iterable

from pocketmq.broker.store.disk.errors import StoreError
from pocketmq.broker.store.log.checkpoint import Checkpoint
from pocketmq.broker.store.log.queue_log import QueueLog
from pocketmq.broker.store.log.segment import LOG_NUMBER_MAX
from pocketmq.broker.store.metadata.metadata import Metadata, QueueLogRow


class NewLogs:
    """Gives numbers to new logs, and knows which logs the metadata does not have yet.

    A number that was never entered may be given away again by a later run: nobody has seen it.

    Args:
        metadata: where the logs are entered.

    Attributes:
        numbers: of the logs that the metadata does not know yet.
    """

    def __init__(self, metadata: Metadata) -> None:
        self._metadata = metadata
        self.numbers: set[int] = set()
        self._next = 0

    def give_number(self) -> int:
        """Returns a number that no log of this data directory ever had.

        Raises:
            StoreError: all numbers were given away.
        """
        number = self._next or self._metadata.last_log_number() + 1
        if number > LOG_NUMBER_MAX:
            raise StoreError(
                f"all {LOG_NUMBER_MAX} numbers of queue logs were given away over the life of this "
                f"data directory: start this broker with a new storePathRootDir"
            )
        self._next = number + 1
        self.numbers.add(number)
        return number

    def renew(self) -> None:
        """Looks again which numbers were given away: another member of the set has given some."""
        self._next = 0

    def enter(self, logs: Iterable[QueueLog]) -> None:
        """Inserts those of the logs that are new into the metadata; all or none.

        Raises:
            WriteFailedError: they are as new as before.
        """
        new = [queue_log for queue_log in logs if queue_log.number in self.numbers]
        self._metadata.add_queue_logs(
            QueueLogRow(q.number, q.topic, q.queue_id, Checkpoint()) for q in new
        )
        self.numbers.difference_update(queue_log.number for queue_log in new)

    def forget(self, numbers: Iterable[int]) -> None:
        """Drops the numbers of logs that will never be written to."""
        self.numbers.difference_update(numbers)
