"""Records the queues that are not served because their files are damaged; the others go on."""

from __future__ import annotations

import errno
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from pocketmq.broker.store.disk.errors import DamagedQueueError, FormatError, WriteFailedError
from pocketmq.broker.store.metadata.metadata import Metadata
from pocketmq.protocol.names import names

log = logging.getLogger("pocketmq.store")

REQUIRED_TOPICS = frozenset(
    {names.HALF_TOPIC, names.OP_HALF_TOPIC, names.SCHEDULE_TOPIC, names.TIMER_TOPIC}
)
"""Without these a broker does not start: it would forget transactions, delays and timers."""

LASTING_ERRORS = frozenset(
    {errno.EACCES, errno.EPERM, errno.EIO, errno.EISDIR, errno.ENOTDIR, errno.ENOENT, errno.ELOOP}
)
"""What the system says of files that cannot be used as they are; other errors may pass.

After an error of the disk (EIO) nobody knows what it has of a log that was half recovered: the next
start does all of that again, and takes the queue back into service if it can.
"""

_STATE = "damaged_queues"

QueueKey = tuple[str, int]


class DamagedQueues:
    """Keeps which queues are damaged, and why, so that the next start looks at them first.

    Args:
        directory: the data directory, which the remedy names.
        metadata: where they are kept.
    """

    def __init__(self, directory: Path, metadata: Metadata) -> None:
        self._directory, self._metadata = directory, metadata
        self._errors: dict[QueueKey, DamagedQueueError] = {}
        self._in_service: set[QueueKey] = set()

    def __len__(self) -> int:
        return len(self._errors)

    def __iter__(self) -> Iterator[DamagedQueueError]:
        return iter(self._errors.values())

    def of_topic(self, topic: str) -> list[DamagedQueueError]:
        """Returns the errors of a topic's damaged queues."""
        return [error for (name, _), error in self._errors.items() if name == topic]

    def get(self, topic: str, queue_id: int) -> DamagedQueueError | None:
        """Returns the error of a damaged queue; None if the queue is sound."""
        return self._errors.get((topic, queue_id))

    def known_before(self) -> list[QueueKey]:
        """Returns the queues that were damaged when the last run ended."""
        text = self._metadata.state(_STATE)
        return [] if text is None else msgspec.json.decode(text, type=list[QueueKey])

    @contextmanager
    def recording_damage(self, topic: str, queue_id: int) -> Iterator[None]:
        """Wraps the opening of a queue's log: damage is recorded, and the queue refused from then
        on.

        Raises:
            DamagedQueueError: the log is damaged, or was found so before.
        """
        error = self.get(topic, queue_id)
        if error is not None and (topic, queue_id) not in self._in_service:
            raise error.with_traceback(None)
        try:
            yield
        except FormatError as e:
            raise self.record(topic, queue_id, e) from e
        except OSError as e:
            if e.errno not in LASTING_ERRORS:
                raise
            raise self.record(topic, queue_id, e) from e

    def record(
        self,
        topic: str,
        queue_id: int,
        error: FormatError | OSError,
        *,
        stays_in_service: bool = False,
    ) -> DamagedQueueError:
        """Records that a queue cannot be read, and returns the error to raise.

        With `stays_in_service` only a part of it cannot: it may be opened again.
        """
        if stays_in_service:
            self._in_service.add((topic, queue_id))
        found = DamagedQueueError(topic, queue_id, error, self._directory)
        if (topic, queue_id) not in self._errors:
            log.error("%s", found)
            self._errors[topic, queue_id] = found
            try:
                self.save()
            except WriteFailedError as e:
                log.warning("the next start may look at this queue only when it is used: %s", e)
        return found

    def forget_topic(self, topic: str) -> None:
        """Forgets the damaged queues of a topic that was deleted."""
        known = len(self._errors)
        self._errors = {p: error for p, error in self._errors.items() if p[0] != topic}
        self._in_service = {p for p in self._in_service if p[0] != topic}
        if len(self._errors) != known:
            self.save()

    def forget(self, topic: str, queue_id: int) -> None:
        """Forgets a damaged queue, whose files are replaced.

        Raises:
            WriteFailedError: the next start looks at it first.
        """
        self._errors.pop((topic, queue_id), None)
        self._in_service.discard((topic, queue_id))
        self.save()

    def save(self) -> None:
        """Writes the damaged queues to the metadata.

        Raises:
            WriteFailedError: they are not kept.
        """
        self._metadata.set_state(_STATE, msgspec.json.encode(sorted(self._errors)).decode())
