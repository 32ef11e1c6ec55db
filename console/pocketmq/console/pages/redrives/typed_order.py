"""The order that is typed into the form of a redrive."""

from __future__ import annotations

from typing import Any

import msgspec

from pocketmq.console.api.finding.browsing import time_ms
from pocketmq.console.api.redrives.letter_states import STATES
from pocketmq.console.api.redrives.order_bodies import LetterChange, LetterChoice, Order
from pocketmq.console.pages.typed import Typed
from pocketmq.protocol.bodies.redrives import (
    RATE_DEFAULT,
    REDRIVES_MAX_DEFAULT,
    TO_GROUP,
    TO_ORIGIN,
    LetterState,
    RedriveAction,
)
from pocketmq.protocol.errors import UsageError

ID = "id-"
"""Before the ids of selected messages in the names of fields."""

FILTERS = ("since", "until", "key", "tag", "topic", "where", "error", "state")
"""The fields of the filter."""

SELECTED, ALL = "selected", "all"
"""Whether the checked messages are meant, or all that fit the filter."""


def ids_of(typed: Typed) -> list[str]:
    """The ids of the checked messages."""
    checked = [name for name in typed.names() if name.startswith(ID) and name in typed]
    return [name.removeprefix(ID) for name in checked]


def order_of_typed(typed: Typed) -> Order:
    """Reads the order.

    Raises:
        UsageError: the fields do not fit.
    """
    action = RedriveAction(typed.choice("action", "the action", list(RedriveAction)))
    order = Order(action=action, selection=_choice(typed, action))
    order.reason = typed.text("reason") or ""
    if action is not RedriveAction.REDRIVE:
        order.rate = _rate(typed)
        return order
    to = typed["to"]
    if to == "topic":
        order.to = typed.text("to_topic") or ""
        if not order.to:
            raise UsageError("there is no topic to send to: type its name")
    else:
        order.to = TO_ORIGIN if to == "origin" else TO_GROUP
    order.edit = _edit(typed)
    order.rate = _rate(typed)
    order.failures_max = _count(typed, "failures", "the number of failures", 0)
    order.redrives_max = _count(typed, "redrives", "the number of redrives", REDRIVES_MAX_DEFAULT)
    return order


def _choice(typed: Typed, action: RedriveAction) -> LetterChoice:
    known = {
        RedriveAction.REDRIVE: [LetterState.OPEN],
        RedriveAction.DISCARD: [LetterState.OPEN],
        RedriveAction.REOPEN: [LetterState.REDRIVEN, LetterState.DISCARDED],
    }
    states = list(LetterState) if typed.is_checked("again") else known[action]
    if typed["of"] != ALL:
        ids = ids_of(typed)
        if not ids:
            raise UsageError("no dead letter is selected: check some, or take all that fit")
        return LetterChoice(ids=ids, states=states)
    if typed["state"]:
        states = [LetterState(typed.choice("state", "the state", list(STATES)))]
    since, until = typed.text("since"), typed.text("until")
    return LetterChoice(
        since_ms=None if since is None else time_ms(since, "the begin"),
        until_ms=None if until is None else time_ms(until, "the end"),
        topic=typed.text("topic"),
        key=typed.text("key"),
        tags=typed.text("tag"),
        where=typed.text("where"),
        error=typed["error"] or None,
        states=states,
    )


def _edit(typed: Typed) -> LetterChange:
    body, patch = typed.lines("body"), typed.lines("patch")
    is_body_changed = bool(body) and body != typed.lines("body_before")
    edit = LetterChange(
        body=body if is_body_changed else None,
        merge_patch=_patch(patch) if patch.strip() else None,
        properties=_properties(typed.lines("properties")),
        removed_properties=typed["removed"].split(),
    )
    edit.tags, edit.keys = typed.text("new_tag"), typed.text("new_keys")
    return edit


def _patch(text: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError) as e:
        raise UsageError(f"the merge patch is no JSON object: {e}") from None


def _properties(text: str) -> dict[str, str]:
    found = {}
    for line in text.split("\n"):
        if not line.strip():
            continue
        name, sign, value = line.partition("=")
        if not sign or not name.strip():
            raise UsageError(f"a property is {line!r:.100}: write lines such as name=value")
        found[name.strip()] = value
    return found


def _rate(typed: Typed) -> float:
    text = typed.text("rate")
    if text is None:
        return RATE_DEFAULT
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"the rate is {text!r}: write a number") from None


def _count(typed: Typed, name: str, what: str, default: int) -> int:
    found = typed.number(name, what)
    return default if found is None else found
