"""The page that puts a group elsewhere: a preview first, then the form that does it."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from pocketmq.console.api.bodies.groups import Group
from pocketmq.console.api.bodies.offsets import (
    OffsetChange,
    OffsetReset,
    OffsetResets,
    QueueOffset,
)
from pocketmq.console.api.callers import Clients
from pocketmq.console.api.changes.offsets import OffsetCalls
from pocketmq.console.api.group_calls import GroupCalls
from pocketmq.console.pages.forms import Done, Form, Names
from pocketmq.console.pages.rendering import count_text, path_text
from pocketmq.console.pages.typed import Typed
from pocketmq.console.pages.visits import Notice
from pocketmq.console.web.operations import Call
from pocketmq.console.web.problems import ProblemError
from pocketmq.protocol.errors import UsageError

WAYS = {
    "earliest": "at the oldest message",
    "latest": "behind the newest message",
    "time": "at the first message stored at a time or later",
    "shift": "so many messages further on, or back if negative",
    "offsets": "at an offset of each queue",
}
"""How one says where a group goes on."""

UNDO = "undo"

SAMPLE = 20
"""Messages that the preview shows."""

QUEUES_MAX = 300
"""Queues whose offsets are fields of the page."""

_OFFSET, _EXPECTED = "offset-", "expected-"
"""Before the names of queues in the names of fields."""


class OffsetPage(Struct):
    """What the page shows.

    Attributes:
        group: with the offsets of all queues.
        topic: the chosen one; empty for none.
        ways: how one says where it goes on.
        changes: that can be undone.
        is_many: whether there are more queues than fields for their offsets.
        preview: what would be done; None while nothing was chosen.
        trouble: why there is no preview; empty for none.
    """

    group: Group
    topic: str
    ways: dict[str, str]
    changes: list[OffsetChange]
    is_many: bool = False
    preview: OffsetResets | None = None
    trouble: str = ""


class OffsetForm:
    """Resets offsets.

    Args:
        groups, offsets: carry the operations out.
    """

    def __init__(self, groups: GroupCalls, offsets: OffsetCalls) -> None:
        self._groups, self._offsets = groups, offsets

    def form(self) -> Form:
        """Returns the form."""
        return Form(
            path="/groups/{group}/offsets",
            template="offsets.html",
            operation=self._offsets.reset,
            read=lambda typed, _names: reset_of(typed, preview=False),
            done=_done,
            show=self._show,
            prefill=_prefill,
        )

    async def _show(self, clients: Clients, call: Call) -> OffsetPage:
        typed = call.query
        assert isinstance(typed, Typed)
        group = await self._groups.one(clients, Call(call.path))
        found = await self._offsets.changes(clients, Call(call.path))
        page = OffsetPage(group, typed["topic"], WAYS, found.changes)
        page.is_many = sum(each.topic == page.topic for each in group.queues) > QUEUES_MAX
        if page.topic and "way" in typed:
            try:
                wanted = reset_of(typed, preview=True)
                page.preview = await self._offsets.reset(
                    clients, Call(call.path, None, wanted, call.caller)
                )
            except (UsageError, ProblemError) as e:
                page.trouble = str(e)
        return page


def _prefill(found: Any, typed: Typed) -> Typed:
    """Writes the committed offsets into the fields of the queues."""
    assert isinstance(found, OffsetPage)
    return typed.with_defaults(
        {
            f"{_OFFSET}{each.broker}:{each.queue}": str(each.committed)
            for each in found.group.queues
            if each.topic == found.topic and each.committed >= 0
        }
    )


def reset_of(typed: Typed, *, preview: bool) -> OffsetReset:
    """Makes the reset that was typed.

    Args:
        typed: the fields.
        preview: whether it is only looked at; else it says what was expected.

    Raises:
        UsageError: the fields do not fit.
    """
    topic, way = typed.text("topic"), typed["way"]
    if topic is None:
        raise UsageError("there is no topic: choose one")
    wanted = OffsetReset(topic=topic, preview=preview, sample=SAMPLE if preview else 0)
    if way == "earliest":
        wanted.to = "earliest"
    elif way == "latest":
        wanted.to = "latest"
    elif way == "time":
        wanted.timestamp_ms = _needed(typed.time_ms("time", "the time"), "time")
    elif way == "shift":
        wanted.shift = _needed(typed.number("shift", "the number of messages"), "number")
    elif way == "offsets":
        wanted.offsets = _offsets(typed, _OFFSET)
    elif way == UNDO:
        wanted.undo = typed["change"]
    else:
        raise UsageError(f"where the group goes on is {way!r}: choose one of the list")
    if not preview and not typed.is_checked("anyway"):
        wanted.expected = _offsets(typed, _EXPECTED)
    return wanted


def _needed(value: int | None, what: str) -> int:
    if value is None:
        raise UsageError(f"there is no {what}: type one")
    return value


def _offsets(typed: Typed, prefix: str) -> list[QueueOffset]:
    """The offsets in the fields of queues."""
    found = []
    for name in typed.names():
        if name.startswith(prefix):
            queue = name.removeprefix(prefix)
            offset = typed.number(name, f"the offset of {queue}")
            if offset is not None and offset < 0:
                raise UsageError(f"the offset of {queue} is {offset}: offsets begin at 0")
            if offset is not None:
                found.append(QueueOffset(queue=queue, offset=offset))
    if not found:
        raise UsageError("there is no offset of a queue: type one, or look at the preview first")
    return found


def _done(answer: Any, names: Names) -> Done:
    assert isinstance(answer, OffsetResets)
    group = path_text(names["group"])
    text = (
        f"The group was put elsewhere: {count_text(answer.again)} messages come again, "
        f"{count_text(answer.skipped)} are passed over."
    )
    if answer.change is None:
        return Done(f"/groups/{group}", Notice(text))
    return Done(f"/groups/{group}", Notice(text, f"/groups/{group}/offsets", "Undo it"))
