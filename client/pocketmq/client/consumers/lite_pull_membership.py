"""A lite pull consumer's membership of its group: its queues, and its watch over topics."""

from __future__ import annotations

from collections.abc import Mapping

from pocketmq.client.consumers.inspection import MemberInspection
from pocketmq.client.consumers.member_parts import MemberParts
from pocketmq.client.consumers.polled_queues import PolledQueues
from pocketmq.client.instance.queue_offsets import QueueOffsets
from pocketmq.client.listening.hooked_listener import call_hooks_for_pulled
from pocketmq.client.offsets.offset_store import OffsetStore
from pocketmq.client.rebalance.queue_listeners import TopicQueuesListener, TopicWatch
from pocketmq.client.settings import LitePullSettings
from pocketmq.protocol.messages.message import ReceivedMessage
from pocketmq.runtime.tasks import Tasks, repeat

FIRST_TOPIC_CHECK_S = 10
"""When it is checked for the first time whether a topic's queues have changed, as in RocketMQ."""


class LitePullMembership:
    """Pulls a member's queues and watches topics for it, from joining to leaving.

    Args:
        parts: of the member.
        settings: of the member.

    Attributes:
        queues: the member's queues.
        watch: calls the listeners to topics' queues.
        offsets: where the group stands.
        in_queues: asks brokers for the offsets in queues.
    """

    def __init__(self, parts: MemberParts, settings: LitePullSettings) -> None:
        instance = parts.instance
        self._parts, self._settings = parts, settings
        self.offsets: OffsetStore = parts.offsets
        self.in_queues = QueueOffsets(
            instance.pool, instance.routes, instance.settings.call_timeout_ms
        )
        self.watch = TopicWatch(instance.routes)
        self.queues = PolledQueues(parts, settings)
        self._tasks = Tasks()
        instance.groups.inspections[parts.member.group] = MemberInspection(
            parts.member, settings, self.queues, instance.clock
        )

    async def start(self, topic_listeners: Mapping[str, TopicQueuesListener]) -> None:
        """Takes the member's queues, and watches topics.

        Args:
            topic_listeners: listeners to the queues of topics, by topic.

        Raises:
            NoNameServerError: the name server cannot be asked for the queues of those topics.
            What `MemberQueues.start` raises.
        """
        clock, group = self._parts.instance.clock, self._parts.member.group
        for topic, listener in topic_listeners.items():
            await self.watch.add(topic, listener)
        await self.queues.start()
        check_s = self._settings.topic_metadata_check_interval_ms / 1000
        checks = repeat(clock, check_s, self.watch.check, first_s=FIRST_TOPIC_CHECK_S)
        self._tasks.spawn(checks, f"watch topics {group}")

    async def close(self, *, settles: bool) -> None:
        """Stores the offsets, and gives all queues up.

        Args:
            settles: what was polled counts as handled.
        """
        await self._tasks.close()
        if self._parts.trace is not None:
            await self._parts.trace.close()
        if settles:
            self.queues.settle()
        await self.queues.close()

    def call_hooks(self, messages: list[ReceivedMessage]) -> None:
        """Calls the hooks for messages that were polled."""
        parts = self._parts
        call_hooks_for_pulled(
            parts.hooks, parts.member.group, messages, parts.instance.namespace.name
        )
