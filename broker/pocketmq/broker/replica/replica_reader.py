"""Reads a follower's queues: what is not there yet is the leader's to tell."""

from __future__ import annotations

from collections.abc import Callable

from pocketmq.broker.config.config import BrokerConfig
from pocketmq.broker.groups.offsets import ConsumerOffsets
from pocketmq.broker.reading.catch_up_share import CatchUpShare
from pocketmq.broker.reading.pull_progress import PullProgress
from pocketmq.broker.reading.reader import Found, Reader, ReadQuery
from pocketmq.broker.store.store import MessageStore
from pocketmq.broker.work_share import WorkShare
from pocketmq.protocol.codes import ResponseCode
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.live import Live


class ReplicaReader(Reader):
    """Reads what readers may see of a follower's queues.

    A consumer that has read everything goes back to the leader, which holds its pull. One that is
    beyond the end goes there, too: the leader's records that a follower does not show yet are on
    their way, and an order to go back would repeat messages (`DefaultPullMessageResultHandler`).
    While there is no leader, the follower holds the pulls.

    Args:
        store, clock, offsets, progress, share, catch_up: see `Reader`.
        settings: of the broker.
        has_leader: whether the leader is known and reached.
    """

    def __init__(
        self,
        store: MessageStore,
        clock: Clock,
        offsets: ConsumerOffsets,
        progress: PullProgress,
        share: WorkShare,
        catch_up: CatchUpShare,
        *,
        settings: Live[BrokerConfig],
        has_leader: Callable[[], bool],
    ) -> None:
        super().__init__(store, clock, offsets, progress, share, catch_up)
        self._settings, self._has_leader = settings, has_leader

    def read(self, query: ReadQuery) -> Found:
        """See `Reader`.

        Raises:
            OSError, StoreError: the log cannot be read.
        """
        found = super().read(query)
        is_moved = found.code == ResponseCode.PULL_OFFSET_MOVED
        if is_moved and found.next_offset >= query.offset:
            return found  # the oldest messages are gone for good
        if is_moved and self._settings.now.offset_check_in_slave:
            return found
        if found.code != ResponseCode.PULL_NOT_FOUND and not is_moved:
            return found
        if self._has_leader():
            code = ResponseCode.PULL_RETRY_IMMEDIATELY
            return Found(code, found.status, query.offset)
        return Found(ResponseCode.PULL_NOT_FOUND, found.status, query.offset)
