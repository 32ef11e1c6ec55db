"""The page that plans what is done with dead letters, and does it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import field

from pocketmq.console.api.callers import Clients
from pocketmq.console.api.reach import PartialBody
from pocketmq.console.api.redrives.letter_bodies import DeadLetter
from pocketmq.console.api.redrives.letter_calls import LetterCalls
from pocketmq.console.api.redrives.order_bodies import OneRedrive, Plan, PlannedOrder
from pocketmq.console.api.redrives.redrive_calls import RedriveCalls
from pocketmq.console.pages.forms import Done, Form, Names
from pocketmq.console.pages.redrives.typed_order import FILTERS, SELECTED, ids_of, order_of_typed
from pocketmq.console.pages.rendering import SHOWN_SIZE_MAX, count_text, path_text
from pocketmq.console.pages.typed import Typed
from pocketmq.console.pages.visits import Notice
from pocketmq.console.web.operations import Call
from pocketmq.console.web.problems import ProblemError
from pocketmq.protocol.bodies.redrives import RATE_DEFAULT, REDRIVES_MAX_DEFAULT, RedriveAction
from pocketmq.protocol.errors import UsageError

TITLES = {
    RedriveAction.REDRIVE: "Redrive",
    RedriveAction.DISCARD: "Discard",
    RedriveAction.REOPEN: "Reopen",
}


class OrderPage(PartialBody):
    """What the page shows.

    Attributes:
        group: whose dead letters.
        title: what is done with them.
        action: the same, as the API names it.
        ids: of the selected dead letters; empty if all are meant that fit the filter.
        filters: the fields of the filter.
        letter: the only one that is selected; None for several.
        body: its body, if it can be edited as text.
        plan: what would be done; None if that cannot be told.
        trouble: why not; empty for none.
    """

    group: str
    title: str
    action: str
    ids: list[str]
    filters: dict[str, str] = field(default_factory=dict)
    letter: DeadLetter | None = None
    body: str = ""
    plan: Plan | None = None
    trouble: str = ""


class OrderForm:
    """Plans and starts redrives.

    Args:
        letters, redrives: carry the operations out.
    """

    def __init__(self, letters: LetterCalls, redrives: RedriveCalls) -> None:
        self._letters, self._redrives = letters, redrives

    def form(self) -> Form:
        """Returns the form."""
        return Form(
            path="/groups/{group}/redrive",
            template="redrive_form.html",
            operation=self._redrives.start,
            read=lambda typed, _names: PlannedOrder(
                order=order_of_typed(_acting(typed)), plan=typed["plan"]
            ),
            done=_done,
            show=self._show,
            prefill=_prefill,
            looks=lambda typed: typed["step"] == "plan",
        )

    async def _show(self, clients: Clients, call: Call) -> OrderPage:
        assert isinstance(call.query, Typed)
        typed, group = _acting(call.query), call.path["group"]
        action = typed["action"]
        page = OrderPage(
            group=group,
            title=TITLES[RedriveAction(action)] if action in TITLES else "Redrive",
            action=action,
            ids=ids_of(typed) if typed["of"] == SELECTED else [],
        )
        page.filters = {name: typed[name] for name in FILTERS if typed[name]}
        try:
            if len(page.ids) == 1:
                page.letter = await self._letters.one(clients, group, page.ids[0])
                page.body = _text(page.letter)
            order = order_of_typed(typed)
            planned = Call(call.path, None, order, call.caller)
            page.plan = await self._redrives.plan(clients, planned)
        except (UsageError, ProblemError) as e:
            page.trouble = str(e)
        return page


def _acting(typed: Typed) -> Typed:
    defaults: Mapping[str, str] = {"action": RedriveAction.REDRIVE.value, "of": SELECTED}
    return typed.with_defaults(defaults)


def _text(letter: DeadLetter) -> str:
    """The body of a letter, if a field of a form can hold it."""
    body = letter.body or ""
    return body if len(body) <= SHOWN_SIZE_MAX and "\0" not in body else ""


def _prefill(found: Any, typed: Typed) -> Typed:
    assert isinstance(found, OrderPage)
    return _acting(typed).with_defaults(
        {
            "body": found.body,
            "body_before": found.body,
            "rate": f"{RATE_DEFAULT:g}",
            "redrives": str(REDRIVES_MAX_DEFAULT),
        }
    )


def _done(answer: Any, names: Names) -> Done:
    assert isinstance(answer, OneRedrive)
    redrive = answer.redrive
    text = f"{TITLES[redrive.action]} of {count_text(redrive.planned)} dead letters has begun."
    path = f"/groups/{path_text(names['group'])}/redrives/{path_text(redrive.redrive)}"
    return Done(path, Notice(text))
