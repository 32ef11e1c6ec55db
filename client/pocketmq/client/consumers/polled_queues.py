"""The queues of a lite pull consumer: pulled ahead, polled by the application."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from pocketmq.client.consumers.member_parts import MemberParts
from pocketmq.client.consumers.member_queues import MemberQueues
from pocketmq.client.queues.poll_buffer import PollBuffer
from pocketmq.client.queues.process_queue import ProcessQueue
from pocketmq.client.queues.pulling import Puller
from pocketmq.client.queues.queue_locks import NoLocks
from pocketmq.client.queues.queue_loop import QueueLoop
from pocketmq.client.rebalance.allocators import Allocation
from pocketmq.client.rebalance.queue_listeners import MessageQueueListeners
from pocketmq.client.settings import LitePullSettings
from pocketmq.protocol.bodies.clients import Subscription
from pocketmq.protocol.messages.message import MessageQueue, ReceivedMessage
from pocketmq.runtime.clock import Clock

REFUSAL_LOOK_S = 3.0
"""How often a poll without a time limit looks whether brokers refuse the user."""


class PolledMessages(ProcessQueue):
    """The messages of one queue, and up to where the application has handled them.

    Args:
        queue: which queue this is.
        next_offset: where to pull next.
        is_auto: a poll says that what came before it was handled.
    """

    __slots__ = ("_handled", "_is_auto", "_unhandled_from")

    def __init__(self, queue: MessageQueue, next_offset: int, *, is_auto: bool) -> None:
        super().__init__(queue, next_offset)
        self._is_auto = is_auto
        self._handled = next_offset
        self._unhandled_from: int | None = None

    @property
    def commit_offset(self) -> int:
        """The offset behind the last message that counts as handled.

        What the subscription does not want is passed as well, unless that is left to `settle`.
        """
        if not self._is_auto:
            return self._handled
        return super().commit_offset if self._unhandled_from is None else self._unhandled_from

    def polled(self, batch: Sequence[ReceivedMessage]) -> None:
        """Notes that the application has polled messages."""
        if self._unhandled_from is None:
            self._unhandled_from = batch[0].queue_offset

    def settle(self, offset: int | None = None) -> None:
        """Marks all polled messages, or all before an offset, as handled."""
        self._unhandled_from = offset
        self._handled = super().commit_offset if offset is None else offset

    def moved_to(self, offset: int) -> PolledMessages:
        """Returns the successor of this queue's messages at another offset.

        Without automatic commits what was handled stays as it was.
        """
        moved = PolledMessages(self.queue, offset, is_auto=self._is_auto)
        moved._handled = self._handled
        return moved


class PolledQueue(QueueLoop):
    """The pull loop of one queue, which may be paused alone.

    Args:
        queue, offset, subscription, puller, settings, clock, offer, on_moved: as of `QueueLoop`.
        has_room_in_all: whether all queues together may hold more.
    """

    messages: PolledMessages

    def __init__(
        self,
        queue: MessageQueue,
        offset: int,
        subscription: Subscription,
        puller: Puller,
        settings: LitePullSettings,
        clock: Clock,
        offer: Callable[[ProcessQueue], object],
        has_room_in_all: Callable[[], bool],
        on_moved: Callable[[MessageQueue], object],
    ) -> None:
        self._has_room_in_all = has_room_in_all
        process_queue = partial(PolledMessages, is_auto=settings.auto_commit)
        super().__init__(
            queue,
            offset,
            subscription,
            puller,
            settings,
            clock,
            offer,
            process_queue,
            on_moved=on_moved,
        )
        self._commits = False  # as RocketMQ: offsets never travel with these pulls
        self.is_paused = False

    @property
    def has_room(self) -> bool:
        """Whether more may be pulled."""
        return super().has_room and self._has_room_in_all()

    def seek(self, offset: int) -> None:
        """Continues at an offset without the pulled messages. Cancel a pull under way before."""
        self.messages.dropped = True
        self.messages = self.messages.moved_to(offset)

    def pause(self) -> None:
        """Begins no further pull. Idempotent."""
        self.is_paused = True
        super().pause()

    def resume(self) -> None:
        """Begins pulls again. Idempotent."""
        self.is_paused = False
        super().resume()


class PolledQueues(MemberQueues):
    """Pulls the queues that are allocated to a member, and hands out their messages.

    Args:
        parts: of the member.
        settings: of the member.

    Attributes:
        listeners: to the queues that are this member's.
    """

    _loops: dict[MessageQueue, PolledQueue]  # type: ignore[assignment]

    def __init__(self, parts: MemberParts, settings: LitePullSettings) -> None:
        super().__init__(parts, NoLocks(0), self._offered)
        self._lite_settings = settings
        self._buffer = PollBuffer(self._instance.clock, self._gives_nothing)
        self._unsettled: set[MessageQueue] = set()
        self._was_full = False
        self.listeners = MessageQueueListeners()

    # -- polling ------------------------------------------------------------------------------

    async def poll(self, count_max: int, timeout_ms: float | None) -> list[ReceivedMessage]:
        """Returns the next messages of one queue, at least one unless the time is over.

        Args:
            count_max: how many at the most.
            timeout_ms: how long to wait for the first one; None for ever.

        Raises:
            NoPermissionError: nothing came, and brokers do not let the user consume.
        """
        if self._lite_settings.auto_commit:
            self._settle_polled()
        clock = self._instance.clock
        end_s = None if timeout_ms is None else clock.monotonic() + timeout_ms / 1000
        while not self._buffer.is_closed:
            taken = self._buffer.take(count_max)
            if taken is not None:
                messages, batch = taken
                self._loops[messages.queue].messages.polled(batch)
                self._unsettled.add(messages.queue)
                self.finished(messages)
                self._use_room()
                return batch
            left_s = None if end_s is None else end_s - clock.monotonic()
            if left_s is not None and left_s <= 0:
                break
            await self._buffer.wait(REFUSAL_LOOK_S if left_s is None else left_s)
            if left_s is None:
                self.check_refusal()
        if not self._buffer.is_closed:
            self.check_refusal()
        return []

    def _settle_polled(self) -> None:
        for queue in self._unsettled:
            loop = self._loops.get(queue)
            if loop is not None:
                loop.messages.settle()
        self._unsettled.clear()

    def settle(self) -> None:
        """Marks all polled messages as handled, and what lies between as not wanted."""
        for loop in self._loops.values():
            loop.messages.settle()
        self._unsettled.clear()

    def settle_at(self, queue: MessageQueue, offset: int) -> bool:
        """Marks all before an offset as handled; False if the queue is not this member's."""
        loop = self._loops.get(queue)
        if loop is not None:
            loop.messages.settle(offset)
        return loop is not None

    async def stop(self) -> None:
        """Ends all pulls and polls."""
        self._buffer.close()
        await super().stop()

    def _offered(self, messages: ProcessQueue) -> None:
        self._buffer.offer(messages)

    def _gives_nothing(self, messages: ProcessQueue) -> bool:
        loop = self._loops.get(messages.queue)
        return loop is None or loop.is_paused

    # -- flow control -------------------------------------------------------------------------

    def _has_room(self) -> bool:
        # What a paused queue holds is bounded by its own limit, and must not stop the others.
        held = sum(loop.messages.count for loop in self._loops.values() if not loop.is_paused)
        is_full = held >= self._lite_settings.pull_threshold_for_all
        self._was_full |= is_full
        return not is_full

    def _use_room(self) -> None:
        """Lets the queues pull again that waited for room in all queues together."""
        if self._was_full and self._has_room():
            self._was_full = False
            for loop in self._loops.values():
                loop.finished(loop.messages)

    # -- single queues ------------------------------------------------------------------------

    def holds(self, queue: MessageQueue) -> bool:
        """Whether a queue is this member's now."""
        return queue in self._loops

    def seek(self, queue: MessageQueue, offset: int) -> bool:
        """Continues at an offset; False if the queue is not this member's."""
        loop = self._loops.get(queue)
        if loop is None:
            return False
        loop.seek(offset)
        self._pull_anew(queue, loop)
        self._use_room()
        return True

    def pause_some(self, queues: Iterable[MessageQueue]) -> None:
        """Pauses those of the queues that are this member's."""
        for queue in queues:
            if queue in self._loops:
                self._loops[queue].pause()
        self._use_room()

    def resume_some(self, queues: Iterable[MessageQueue]) -> None:
        """Resumes those of the queues that are this member's."""
        for queue in queues:
            loop = self._loops.get(queue)
            if loop is not None:
                loop.resume()
                self._buffer.offer(loop.messages)

    # -- allocation  --------------------------------------------------------------------------

    async def _take(self, allocations: Mapping[str, Allocation]) -> bool:
        is_settled = await super()._take(allocations)
        self._use_room()
        await self.listeners.allocated(allocations)
        return is_settled

    def _make_loop(
        self, queue: MessageQueue, offset: int, subscription: Subscription
    ) -> PolledQueue:
        return PolledQueue(
            queue,
            offset,
            subscription,
            self._puller,
            self._lite_settings,
            self._instance.clock,
            self._offer,
            self._has_room,
            self._offsets.moved,
        )
