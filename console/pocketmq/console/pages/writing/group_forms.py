"""The forms that create, change and delete groups."""

from __future__ import annotations

from typing import Any

from pocketmq.console.api.bodies.group_changes import (
    GroupChange,
    GroupDeleted,
    GroupSettingsTable,
    NewGroup,
)
from pocketmq.console.api.changes.group_changes import GroupChanges
from pocketmq.console.pages.forms import Done, Form, Names
from pocketmq.console.pages.rendering import count_text, path_text
from pocketmq.console.pages.typed import Typed
from pocketmq.console.pages.visits import Notice
from pocketmq.console.pages.writing.agreed import agreed, answer
from pocketmq.console.pages.writing.topic_forms import name_of
from pocketmq.protocol.errors import UsageError

RETRIES_MAX = 1_000_000
RETRY_QUEUES_MAX = 1000
"""As the API takes them."""


class GroupForms:
    """Changes groups.

    Args:
        changes: carries the operations out.
    """

    def __init__(self, changes: GroupChanges) -> None:
        self._changes = changes

    def forms(self) -> list[Form]:
        """Returns the forms."""
        return [
            Form(
                path="/new-group",
                template="group_new.html",
                operation=self._changes.create,
                read=_new,
                done=_created,
                named=lambda typed: {"group": name_of(typed, "the group")},
                prefill=_prefill_new,
            ),
            Form(
                path="/groups/{group}/settings",
                template="group_settings.html",
                operation=self._changes.change,
                read=_change,
                done=_changed,
                show=self._changes.settings,
                prefill=_prefill,
            ),
            Form(
                path="/groups/{group}/delete",
                template="group_delete.html",
                operation=self._changes.delete,
                read=lambda _typed, _names: None,
                done=_deleted,
                show=self._changes.deletion,
                confirm="group",
            ),
        ]


def _prefill_new(_: Any, typed: Typed) -> Typed:
    return typed.with_defaults(
        {"mayConsume": "yes", "mayBroadcast": "yes", "orderly": "no", "retries": "16",
         "retryQueues": "1"}
    )  # fmt: skip


def _new(typed: Typed, _: Names) -> NewGroup:
    change = _change(typed, _)
    retries, queues = change.retry_max_times, change.retry_queues
    return NewGroup(
        may_consume=change.may_consume is not False,
        may_broadcast=change.may_broadcast is not False,
        is_orderly=bool(change.is_orderly),
        retry_max_times=16 if retries is None else retries,
        retry_queues=1 if queues is None else queues,
    )


def _prefill(found: Any, typed: Typed) -> Typed:
    """What all brokers agree on; the other fields are empty, which changes nothing."""
    assert isinstance(found, GroupSettingsTable)
    settings = found.brokers.values()
    return typed.with_defaults(
        {
            "mayConsume": agreed(answer(each.may_consume) for each in settings),
            "mayBroadcast": agreed(answer(each.may_broadcast) for each in settings),
            "orderly": agreed(answer(each.is_orderly) for each in settings),
            "retries": agreed(str(each.retry_max_times) for each in settings),
            "retryQueues": agreed(str(each.retry_queues) for each in settings),
        }
    )


def _change(typed: Typed, _: Names) -> GroupChange:
    return GroupChange(
        may_consume=typed.answer("mayConsume", "may consume"),
        may_broadcast=typed.answer("mayBroadcast", "may broadcast"),
        is_orderly=typed.answer("orderly", "orderly"),
        retry_max_times=_count(typed, "retries", "the number of retries", -1, RETRIES_MAX),
        retry_queues=_count(
            typed, "retryQueues", "the number of retry queues", 0, RETRY_QUEUES_MAX
        ),
    )


def _count(typed: Typed, name: str, what: str, low: int, high: int) -> int | None:
    count = typed.number(name, what)
    if count is not None and not low <= count <= high:
        raise UsageError(f"{what} is {count}: it must be from {low} to {high}")
    return count


def _created(made: Any, _: Names) -> Done:
    assert isinstance(made, GroupSettingsTable)
    return Done(f"/groups/{path_text(made.group)}", Notice(f"Group {made.group} was created."))


def _changed(made: Any, _: Names) -> Done:
    assert isinstance(made, GroupSettingsTable)
    return Done(f"/groups/{path_text(made.group)}", Notice(f"Group {made.group} was changed."))


def _deleted(gone: Any, _: Names) -> Done:
    assert isinstance(gone, GroupDeleted)
    letters = count_text(gone.dead_letters)
    text = f"Group {gone.deleted} was deleted, with {letters} dead letters."
    return Done("/groups", Notice(text))
