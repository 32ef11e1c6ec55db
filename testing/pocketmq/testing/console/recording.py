"""Records what is done in a console's session, as a test that does it again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from pocketmq.console.web.operations import Call
from pocketmq.protocol.errors import UsageError
from pocketmq.protocol.messages.message_json import document_of_line
from pocketmq.protocol.names.namespaces import Namespace
from pocketmq.testing.console import steps
from pocketmq.testing.control.jumps import Jump
from pocketmq.testing.control.models import Fault
from pocketmq.testing.core import Core
from pocketmq.testing.inspection.inspection import Inspection

STEPS_MAX = 500
"""Steps of a recording; it stops there."""

SIZE_MAX = 1024 * 1024
"""Characters of all steps together."""


class Step(NamedTuple):
    """A step.

    Attributes:
        elapsed_ms: the cluster's time since the begin of the recording.
        lines: of Python; empty for one that only sets the clock forward.
        needs_time: whether what happens depends on when it is done.
    """

    elapsed_ms: int
    lines: list[str]
    needs_time: bool = False


class Sent(NamedTuple):
    """A message that was sent: into which topic, and its id."""

    topic: str
    msg_id: str


class Recording:
    """What was done in a console since it was started, or since the recording began anew.

    Args:
        core: the cluster.

    Attributes:
        steps: in their order.
        is_cut: whether further steps were left out.
        topics, groups: those that the steps need and that were there: numbers of queues by name.
    """

    def __init__(self, core: Core) -> None:
        self._core = core
        self._translations: dict[str, Callable[[Call, Any], Step | None]] = {
            "MessageCalls.send": self._sent,
            "LineCalls.send": self._sent_lines,
            "TopicChanges.create": self._topic,
            "TopicChanges.change": self._topic,
            "TopicChanges.delete": self._topic_deleted,
            "GroupChanges.create": self._group,
            "GroupChanges.change": self._group,
            "GroupChanges.delete": self._group_deleted,
            "OffsetCalls.reset": self._reset,
            "ClockPages.jump": self._jump,
            "FaultPages.order": self._ordered,
            "FaultPages.remove": self._removed,
            "FaultPages.remove_all": self._all_removed,
        }
        self.begin()

    def begin(self) -> None:
        """Begins anew."""
        self.steps: list[Step] = []
        self.is_cut = False
        self._size = 0
        self._began_ms = self._core.clock.now_ms()
        self._sends: list[Sent] = []
        self._made: set[str] = set()
        self.topics: dict[str, int] = {}
        self.groups: list[str] = []
        self._faults: list[str] = []

    @property
    def elapsed_ms(self) -> int:
        """The cluster's time since the begin."""
        return self._core.clock.now_ms() - self._began_ms

    def heard(self, function: str, call: Call, found: Any) -> None:
        """Records a change that was carried out.

        Args:
            function: that has carried it out.
            call: what was asked.
            found: what the change gave.
        """
        translation = self._translations.get(function)
        if translation is None:
            step = self._step(f"# {function} was carried out, too: a test does that otherwise.")
        else:
            made = translation(call, found)
            if made is None:
                return
            step = made
        size = sum(map(len, step.lines))
        if self.is_cut or len(self.steps) >= STEPS_MAX or self._size + size > SIZE_MAX:
            self.is_cut = True
            return
        self._size += size
        self.steps.append(step)

    def _step(self, *lines: str, needs_time: bool = False) -> Step:
        return Step(self.elapsed_ms, list(lines), needs_time)

    # -- what was there -----------------------------------------------------------------------

    def _need_topic(self, name: str) -> None:
        if name in self._made or name in self.topics:
            return
        configs = (broker.topics.get(name) for broker in self._core.brokers())
        self.topics[name] = max((c.write_queue_nums for c in configs if c), default=4) or 1

    def _need_group(self, name: str) -> None:
        if name not in self._made and name not in self.groups:
            self.groups.append(name)

    # -- translations -------------------------------------------------------------------------

    def _sent(self, call: Call, found: Any) -> Step:
        topic = call.path["topic"]
        self._need_topic(topic)
        lines, has_delay = [], False
        for new, sent in zip(call.body.messages, found.messages, strict=True):
            text = steps.message_text(topic, new, self._began_ms)
            queue = (
                ""
                if new.broker is None
                else f", queue=MessageQueue({topic!r}, {new.broker!r}, {new.queue})"
            )
            lines.append(f"producer.send({text}{queue})")
            has_delay |= bool(new.delay_level or new.delay_ms or new.deliver_at_ms)
            self._sends.append(Sent(topic, sent.msg_id))
        return self._step(*lines, needs_time=has_delay)

    def _sent_lines(self, call: Call, found: Any) -> Step | None:
        topic, texts = call.path["topic"], call.body.lines.split("\n")
        lines = []
        for result in found.lines:
            if result.sent is None:
                continue
            try:
                message = document_of_line(texts[result.line - 1].encode()).message(topic)
            except UsageError:  # the operation has read the line otherwise
                continue
            lines.append(f"producer.send({steps.sent_text(message)})")
            self._sends.append(Sent(topic, result.sent.msg_id))
        if not lines:
            return None
        self._need_topic(topic)
        return self._step(*lines, needs_time=True)

    def _topic(self, call: Call, found: Any) -> Step:
        self._made.add(found.name)
        return self._step(steps.topic_text(found.name, found.settings))

    def _topic_deleted(self, call: Call, found: Any) -> Step:
        self._need_topic(found.deleted)
        return self._step(f"admin.delete_topic(names.wrap({found.deleted!r}))")

    def _group(self, call: Call, found: Any) -> Step:
        self._made.add(found.group)
        return self._step(steps.group_text(found.group, found.brokers))

    def _group_deleted(self, call: Call, found: Any) -> Step:
        self._need_group(found.deleted)
        return self._step(f"admin.delete_group(names.wrap({found.deleted!r}), clean_offset=True)")

    def _reset(self, call: Call, found: Any) -> Step:
        group, topic = call.path["group"], call.body.topic
        self._need_topic(topic)
        self._need_group(group)
        rows = [(row.broker, row.queue, row.after) for row in found.queues]
        to = call.body.to if call.body.queue is None else None
        return self._step(steps.reset_text(group, topic, to, rows))

    def _jump(self, call: Call, found: Jump) -> Step:
        return self._step(needs_time=True)

    def _ordered(self, call: Call, found: Fault) -> Step:
        order = call.body
        given = {
            one.name: value
            for one in msgspec.structs.fields(order)
            if (value := getattr(order, one.name)) != one.default
        }
        if "topic" in given:
            self._need_topic(given["topic"])
        kind = order.__struct_config__.tag
        name = f"fault_{found.id}"
        self._faults.append(name)
        arguments = ", ".join(f"{key}={value!r}" for key, value in given.items())
        return self._step(f"{name} = cluster.faults.{kind}({arguments})")

    def _removed(self, call: Call, found: Fault) -> Step | None:
        name = f"fault_{found.id}"
        if name not in self._faults:
            return None
        self._faults.remove(name)
        return self._step(f"{name}.remove()")

    def _all_removed(self, call: Call, found: Any) -> Step | None:
        lines = [f"{name}.remove()" for name in reversed(self._faults)]
        self._faults.clear()
        return self._step(*lines) if lines else None

    # -- what came of it ----------------------------------------------------------------------

    def held(self) -> dict[str, int]:
        """Counts how many of the sent messages their topics hold now."""
        found: dict[str, int] = {}
        inspection = Inspection(self._core, Namespace(""))
        known = self._core.names()[0]
        for topic in dict.fromkeys(sent.topic for sent in self._sends):
            if topic in known:
                ids = {message.msg_id for message in inspection.stored(topic)}
                wanted = {sent.msg_id for sent in self._sends if sent.topic == topic}
                found[topic] = len(ids & wanted)
        return found
