"""The forms that create, change and delete topics."""

from __future__ import annotations

from typing import Any

from pocketmq.console.api.bodies.topic_changes import NewTopic, TopicChange
from pocketmq.console.api.bodies.topics import Deleted, Topic, TopicSettings
from pocketmq.console.api.callers import Clients
from pocketmq.console.api.changes.topic_changes import TopicChanges
from pocketmq.console.api.topic_calls import TopicCalls
from pocketmq.console.pages.forms import Done, Form, Names
from pocketmq.console.pages.rendering import count_text, path_text
from pocketmq.console.pages.typed import Typed
from pocketmq.console.pages.visits import Notice
from pocketmq.console.pages.writing.agreed import agreed, answer
from pocketmq.console.pages.writing.send_form import properties_of
from pocketmq.console.web.operations import Call
from pocketmq.protocol.errors import UsageError

QUEUES_DEFAULT, QUEUES_MAX = 8, 65536
"""Queues of a topic on each broker."""


class TopicForms:
    """Changes topics.

    Args:
        topics, changes: carry the operations out.
    """

    def __init__(self, topics: TopicCalls, changes: TopicChanges) -> None:
        self._topics, self._changes = topics, changes

    def forms(self) -> list[Form]:
        """Returns the forms."""
        return [
            Form(
                path="/new-topic",
                template="topic_new.html",
                operation=self._changes.create,
                read=_new,
                done=_created,
                named=lambda typed: {"topic": name_of(typed, "the topic")},
                prefill=_prefill_new,
            ),
            Form(
                path="/topics/{topic}/settings",
                template="topic_settings.html",
                operation=self._changes.change,
                read=_change,
                done=_changed,
                show=self._show,
                prefill=_prefill,
            ),
            Form(
                path="/topics/{topic}/delete",
                template="topic_delete.html",
                operation=self._changes.delete,
                read=lambda _typed, _names: None,
                done=_deleted,
                show=self._changes.deletion,
                confirm="topic",
            ),
        ]

    async def _show(self, clients: Clients, call: Call) -> Topic:
        return await self._topics.one(clients, Call(call.path))


def name_of(typed: Typed, what: str) -> str:
    """The name of what is made.

    Raises:
        UsageError: nothing was typed.
    """
    name = typed.text("name")
    if name is None:
        raise UsageError(f"{what} has no name: type one")
    return name


def _prefill_new(_: Any, typed: Typed) -> Typed:
    return typed.with_defaults(
        {"readQueues": str(QUEUES_DEFAULT), "writeQueues": str(QUEUES_DEFAULT), "readable": "yes",
         "writable": "yes", "order": "no"}
    )  # fmt: skip


def _new(typed: Typed, _: Names) -> NewTopic:
    return NewTopic(
        read_queues=_count(typed, "readQueues", "the number of read queues"),
        write_queues=_count(typed, "writeQueues", "the number of write queues"),
        is_readable=typed.answer("readable", "readable") is not False,
        is_writable=typed.answer("writable", "writable") is not False,
        order=bool(typed.answer("order", "order")),
        attributes=properties_of(typed.lines("attributes")),
    )


def _prefill(found: Any, typed: Typed) -> Typed:
    """What all brokers agree on; the other fields are empty, which changes nothing."""
    assert isinstance(found, Topic)
    settings = found.settings.values()
    return typed.with_defaults(
        {
            "readQueues": agreed(str(each.read_queues) for each in settings),
            "writeQueues": agreed(str(each.write_queues) for each in settings),
            "readable": agreed(answer(each.is_readable) for each in settings),
            "writable": agreed(answer(each.is_writable) for each in settings),
            "order": agreed(answer(each.order) for each in settings),
            "attributes": agreed(_attributes(each) for each in settings),
        }
    )


def _attributes(settings: TopicSettings) -> str:
    return "\n".join(f"{name}={value}" for name, value in settings.attributes.items())


def _change(typed: Typed, _: Names) -> TopicChange:
    return TopicChange(
        broker=typed.text("broker"),
        read_queues=_count(typed, "readQueues", "the number of read queues"),
        write_queues=_count(typed, "writeQueues", "the number of write queues"),
        is_readable=typed.answer("readable", "readable"),
        is_writable=typed.answer("writable", "writable"),
        order=typed.answer("order", "order"),
        attributes=properties_of(typed.lines("attributes")),
    )


def _count(typed: Typed, name: str, what: str) -> int | None:
    count = typed.number(name, what)
    if count is not None and not 1 <= count <= QUEUES_MAX:
        raise UsageError(f"{what} is {count}: it must be from 1 to {QUEUES_MAX}")
    return count


def _created(topic: Any, _: Names) -> Done:
    assert isinstance(topic, Topic)
    return Done(f"/topics/{path_text(topic.name)}", Notice(f"Topic {topic.name} was created."))


def _changed(topic: Any, _: Names) -> Done:
    assert isinstance(topic, Topic)
    return Done(f"/topics/{path_text(topic.name)}", Notice(f"Topic {topic.name} was changed."))


def _deleted(gone: Any, _: Names) -> Done:
    assert isinstance(gone, Deleted)
    messages = count_text(gone.messages)
    return Done("/topics", Notice(f"Topic {gone.deleted} was deleted, with {messages} messages."))
