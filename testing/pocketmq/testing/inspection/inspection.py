"""Reads the messages of topics, dead letters and the lag of groups out of a cluster's brokers.

The brokers' own stores are read, not the wire: nothing is consumed and no offset moves.
"""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Callable
from typing import NamedTuple

from pocketmq.broker import Broker
from pocketmq.client.instance.namespacing import take_out
from pocketmq.protocol.errors import UsageError
from pocketmq.protocol.messages.message import ReceivedMessage
from pocketmq.protocol.messages.records import decode_records
from pocketmq.protocol.names.names import (
    BUILT_IN_GROUPS,
    DLQ_PREFIX,
    RETRY_PREFIX,
    dlq_topic,
    is_system_topic,
    reply_topic,
    retry_topic,
)
from pocketmq.protocol.names.namespaces import Namespace
from pocketmq.runtime.text import counted
from pocketmq.testing.core import Core
from pocketmq.testing.expectation import Expectation
from pocketmq.testing.inspection.progress import Progress
from pocketmq.testing.messages import Messages, listing

MESSAGES_MAX = 100_000
"""Messages of a topic that a test gets; further ones are left out."""

LOOK_PERIOD_S = 0.002
"""Period of checking whether a condition has come true."""

ASK_PERIOD_S = 0.1
"""Period of asking the members of a group what they have handled."""

NAMES_SHOWN_MAX = 20
"""Names that an error lists."""

READ_COUNT, READ_SIZE = 1000, 4 * 1024 * 1024


class Lag(NamedTuple):
    """A queue in which a group is not at the end.

    Attributes:
        committed: the offset that the group has committed; None if it never did.
        end: the offset of the next message to come.
    """

    topic: str
    broker: str
    queue_id: int
    committed: int | None
    begin: int
    end: int

    @property
    def left(self) -> int:
        """The number of messages that the group has not handled."""
        return self.end - max(self.committed or 0, self.begin)

    def __str__(self) -> str:
        where = f"{self.topic} queue {self.queue_id} of {self.broker}"
        said = "nothing committed" if self.committed is None else f"committed {self.committed}"
        return f"{where}: {counted(self.left, 'message')} left ({said}, end {self.end})"


class Inspection:
    """Reads the state of the brokers of a cluster, with names in a namespace.

    Args:
        core: the cluster.
        namespace: the namespace of the names in calls.
    """

    def __init__(self, core: Core, namespace: Namespace) -> None:
        self._core, self._namespace = core, namespace

    def stored(self, topic: str, *, missing_ok: bool = True) -> Messages:
        """Returns the messages that a topic holds now, in the order in which they were stored.

        Raises:
            UsageError: there is no such topic, and `missing_ok` is false.
        """
        if not missing_ok:
            self.check_topic(topic)
        found = Messages()
        name = self._namespace.wrap(topic)
        for broker in self._core.brokers():
            for queue_id in broker.store.queue_ids(name):
                self._read(broker, name, queue_id, found)
        found.sort(key=lambda m: (m.store_timestamp, m.broker_name, m.queue_id, m.queue_offset))
        return found

    def _read(self, broker: Broker, topic: str, queue_id: int, found: Messages) -> None:
        queue_log = broker.store.find_log(topic, queue_id)
        if queue_log is None:
            return
        offset = queue_log.min_offset
        while offset < queue_log.max_offset and len(found) < MESSAGES_MAX:
            part = queue_log.read(offset, READ_COUNT, READ_SIZE)
            for message in decode_records(part.data, broker.config.broker_name):
                take_out(self._namespace, message)
                found.append(message)
            offset = part.next_offset

    def dead_letters(self, group: str, *, missing_ok: bool) -> Messages:
        """Returns the dead letters of a group.

        Raises:
            UsageError: there is no such group, and `missing_ok` is false.
        """
        if not missing_ok:
            self.check_group(group)
        return self.stored(dlq_topic(group))

    async def published(
        self, topic: str, count: int | None, timeout_s: float, *, missing_ok: bool
    ) -> Messages:
        """Waits until a topic holds a number of messages, or until nothing moves any more.

        Raises:
            AssertionError: the topic holds too few in time; the text shows its messages.
            UsageError: there is no such topic, no count is waited for, and `missing_ok` is false.
        """
        if count is None:
            await self._core.settling.wait()
            return self.stored(topic, missing_ok=missing_ok)
        if not await self.comes_true(lambda: len(self.stored(topic)) >= count, timeout_s):
            found = self.stored(topic)
            raise AssertionError(
                f"topic {topic} should hold {counted(count, 'message')} and holds "
                f"{len(found)}, after {timeout_s:g} s:{listing(found)}{self._surroundings()}"
            )
        return self.stored(topic)

    async def expect(
        self, topic: str, wanted: Expectation, count: int, timeout_s: float
    ) -> Messages:
        """Waits until a topic holds a number of messages that fit; for none, until nothing moves.

        Raises:
            AssertionError: there are fewer in time, or any although none is expected.
            UsageError: nothing is expected, or there is no such topic.
        """
        wanted.check()
        if not count:
            await self._core.settling.wait()
            found = wanted.of(self.stored(topic, missing_ok=False))
            if found:
                raise AssertionError(
                    f"topic {topic} should hold no message with {wanted}, and holds "
                    f"{len(found)}:{listing(found)}"
                )
            return found
        if not await self.comes_true(
            lambda: len(wanted.of(self.stored(topic))) >= count, timeout_s
        ):
            messages = self.stored(topic, missing_ok=False)
            raise AssertionError(
                f"topic {topic} should hold {counted(count, 'message')} with {wanted}, and "
                f"{len(wanted.of(messages))} of its {len(messages)} fit after {timeout_s:g} s; the "
                f"nearest:{wanted.nearest(messages)}{self._surroundings()}"
            )
        return wanted.of(self.stored(topic))

    async def drain(self, group: str, timeout_s: float) -> None:
        """Waits until a group has handled all that its topics hold, retries included.

        Messages that wait for their time are not in the group's topics yet.

        Raises:
            AssertionError: the group has not in time; the text shows what is left, and the members.
        """
        progress = Progress(self._core, self._namespace.wrap(group))
        asking = asyncio.ensure_future(self._ask(progress))
        try:
            if await self.comes_true(
                lambda: self._knows(group) and not self.lags(group, progress), timeout_s
            ):
                return
        finally:
            asking.cancel()
        if not self._knows(group):
            known = ", ".join(self.groups()) or "none"
            raise AssertionError(
                f"nobody has consumed as group {group}, so it cannot be drained; groups with "
                f"members or offsets: {known}"
            )
        lags = self.lags(group, progress)
        lines = "".join(f"\n  {lag}" for lag in lags)
        left = Messages(m for lag in lags for m in self._left(lag))
        raise AssertionError(
            f"group {group} has {counted(len(left), 'message')} left after {timeout_s:g} s and "
            f"{counted(len(self.members(group)), 'member')}:{lines}\nthese are:{listing(left)}"
            f"{self._surroundings()}"
        )

    async def _ask(self, progress: Progress) -> None:
        while True:
            await self._core.machine.sleep(ASK_PERIOD_S)
            await progress.ask()

    def lags(self, group: str, progress: Progress | None = None) -> list[Lag]:
        """Returns the queues in which a group is not at the end.

        Args:
            group: the group.
            progress: knows more than what the group has committed.
        """
        name = self._namespace.wrap(group)
        found = []
        for broker in self._core.brokers():
            for topic in sorted(self._topics_of(broker, name)):
                for queue_id in broker.store.queue_ids(topic):
                    queue_log = broker.store.find_log(topic, queue_id)
                    if queue_log is None:
                        continue
                    committed = broker.offsets.get(name, topic, queue_id)
                    if progress is not None:
                        committed = progress.position(broker, queue_log, committed) or committed
                    lag = Lag(
                        self._namespace.unwrap(topic),
                        broker.config.broker_name,
                        queue_id,
                        committed,
                        queue_log.min_offset,
                        queue_log.max_offset,
                    )
                    if lag.left > 0:
                        found.append(lag)
        return found

    def _topics_of(self, broker: Broker, group: str) -> set[str]:
        topics = {retry_topic(group), *broker.offsets.topics_of(group)}
        if (members := broker.parts.members.consumers.get(group)) is not None:
            topics.update(members.subscriptions)
        return topics

    def _left(self, lag: Lag) -> list[ReceivedMessage]:
        return [
            message
            for message in self.stored(lag.topic)
            if (message.broker_name, message.queue_id) == (lag.broker, lag.queue_id)
            and message.queue_offset >= max(lag.committed or 0, lag.begin)
        ]

    def _knows(self, group: str) -> bool:
        return bool(self.members(group)) or group in self.groups()

    def members(self, group: str) -> list[str]:
        """Returns the client ids of a group's connected consumers."""
        name = self._namespace.wrap(group)
        of_brokers = [broker.parts.members.consumers.get(name) for broker in self._core.brokers()]
        found = (member for of in of_brokers if of is not None for member in of.members.values())
        return sorted({member.client_id for member in found})

    def topics_of(self, group: str) -> list[str]:
        """Returns the topics that a group subscribes to or has offsets in, except its retries."""
        name = self._namespace.wrap(group)
        of_brokers = (self._topics_of(broker, name) for broker in self._core.brokers())
        found = {topic for topics in of_brokers for topic in topics} - {retry_topic(name)}
        return sorted(map(self._namespace.unwrap, found))

    def count(self, topic: str) -> int:
        """Counts the messages of a topic."""
        name = self._namespace.wrap(topic)
        logs = (
            broker.store.find_log(name, queue_id)
            for broker in self._core.brokers()
            for queue_id in broker.store.queue_ids(name)
        )
        return sum(log.max_offset - log.min_offset for log in logs if log is not None)

    def groups(self) -> list[str]:
        """Returns the groups that have members or offsets."""
        found = set()
        for broker in self._core.brokers():
            found |= {group for group, _ in broker.parts.members.consumers}
            found |= {group for group, _, _ in broker.offsets}
        if self._namespace:
            found = {g for g in found if self._namespace.unwrap(g) != g}
        return sorted(self._namespace.unwrap(group) for group in found)

    def check_topic(self, topic: str) -> None:
        """Refuses a topic that does not exist; those of a group's retries and dead letters may.

        Raises:
            UsageError: the text names the nearest topic that exists.
        """
        for prefix in (RETRY_PREFIX, DLQ_PREFIX):
            if topic.startswith(prefix):
                self.check_group(topic.removeprefix(prefix))
                return
        name = self._namespace.wrap(topic)
        if not any(name in broker.topics for broker in self._core.brokers()):
            made = {broker.config.broker_name for broker in self._core.brokers()}
            made |= {broker.config.broker_cluster_name for broker in self._core.brokers()}
            made |= {reply_topic(name) for name in made}
            known = self._visible(self._core.names()[0] - made)
            known = {name for name in known if not (name[0] == "%" or is_system_topic(name))}
            raise _unknown("topic", topic, known)

    def check_group(self, group: str) -> None:
        """Refuses a group that nobody has heard of.

        Raises:
            UsageError: the text names the nearest group that exists.
        """
        known = self._visible(self._core.names()[1]) | set(self.groups())
        if group not in known:
            raise _unknown("group", group, known - set(BUILT_IN_GROUPS))

    def _visible(self, names: set[str]) -> set[str]:
        if not self._namespace:
            return names
        return {bare for name in names if (bare := self._namespace.unwrap(name)) != name}

    def _surroundings(self) -> str:
        """Describes what may explain a failure: topics with messages, and messages that wait."""
        counts: dict[str, int] = {}
        for broker in self._core.brokers():
            for topic in sorted(topic.topic_name for topic in broker.topics):
                bare = self._namespace.unwrap(topic)
                if bare != topic if self._namespace else not topic.startswith(SYSTEM_PREFIXES):
                    counts[bare] = len(self.stored(bare))
        lines = [
            f"{topic} ({counted(count, 'message')})" for topic, count in counts.items() if count
        ]
        text = f"\ntopics with messages: {', '.join(lines) or 'none'}"
        if waiting := self._core.waiting():
            text += (
                f"\nwaiting for its time, in the cluster: {counted(waiting, 'message')} (delays, "
                "timers, open transactions); clock.advance() brings it"
            )
        return text

    async def comes_true(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        """Checks a condition again and again; returns whether it came true within the real time."""
        machine = self._core.machine
        end_s = machine.monotonic() + timeout_s
        while not condition():
            if machine.monotonic() >= end_s:
                return False
            await machine.sleep(LOOK_PERIOD_S)
        return True


SYSTEM_PREFIXES = ("SCHEDULE_TOPIC_XXXX", "rmq_sys_", "RMQ_SYS_")
"""Prefixes of the topics that brokers make for themselves."""


def _unknown(kind: str, name: str, known: set[str]) -> UsageError:
    near = difflib.get_close_matches(name, known, 1)
    there = ", ".join(sorted(known)[:NAMES_SHOWN_MAX]) or "none"
    hint = f"did you mean {near[0]!r}?" if near else f"{kind}s: {there}"
    return UsageError(
        f"no {kind} is called {name!r} ({hint}); where it may be missing, pass missing_ok=True, "
        f"over HTTP missingOk=true"
    )
