"""All pages of dead letters and redrives."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import Struct
from starlette.routing import BaseRoute

from pocketmq.console.api.callers import Clients
from pocketmq.console.api.reach import PartialBody
from pocketmq.console.api.redrives.letter_bodies import (
    DeadLetters,
    LetterErrorQuery,
    LetterErrors,
    LetterGroup,
    LetterQuery,
)
from pocketmq.console.api.redrives.letter_calls import LetterCalls
from pocketmq.console.api.redrives.order_bodies import (
    OneRedrive,
    RedriveProgress,
    ResultQuery,
    Results,
)
from pocketmq.console.api.redrives.redrive_calls import RedriveCalls
from pocketmq.console.pages.forms import Done, Form, Names
from pocketmq.console.pages.pages import Pages
from pocketmq.console.pages.redrives.order_form import OrderForm
from pocketmq.console.pages.rendering import path_text
from pocketmq.console.pages.typed import Typed
from pocketmq.console.pages.visits import Notice
from pocketmq.console.web.operations import Call
from pocketmq.console.web.problems import ProblemError
from pocketmq.protocol.bodies.redrives import Outcome, RedriveChange
from pocketmq.protocol.errors import NoPermissionError

ERROR_SCAN, ERROR_S = 2_000, 2.0
"""Dead letters of which a page shows the errors, and seconds that this may take."""

DONE = {
    RedriveChange.PAUSE: "The redrive was paused.",
    RedriveChange.RESUME: "The redrive goes on.",
    RedriveChange.CANCEL: "The redrive was cancelled.",
}


class LetterPage(PartialBody):
    """What the page of a group's dead letters shows.

    Attributes:
        letters: those that fit.
        errors: why they have failed.
        counts: of all dead letters of the group; None where brokers do not tell.
    """

    letters: DeadLetters
    errors: LetterErrors
    counts: LetterGroup | None


class ProgressPage(PartialBody):
    """What the page of a redrive shows.

    Attributes:
        redrive: how far it is.
        results: some of them; None while it runs.
        outcome: which ones are shown; None for all.
    """

    redrive: RedriveProgress
    results: Results | None
    outcome: Outcome | None


class ChangePage(Struct):
    """What the page before a change of a redrive shows.

    Attributes:
        redrive: how far it is.
        change: what is to be done with it.
    """

    redrive: RedriveProgress
    change: str


class RedrivePages:
    """Makes the paths of these pages.

    Args:
        letters, redrives: carry the operations out.
    """

    def __init__(self, letters: LetterCalls, redrives: RedriveCalls) -> None:
        self._letters, self._redrives = letters, redrives

    def __call__(self, pages: Pages) -> Iterable[BaseRoute]:
        """Returns the paths."""
        letters, redrives = self._letters, self._redrives
        of_group = "/groups/{group}"
        one = f"{of_group}/redrives/{{redrive}}"
        forms = [OrderForm(letters, redrives).form(), *map(self._change, RedriveChange)]
        return [
            pages.page("/dead-letters", "dead_letters.html", letters.counts),
            pages.page(
                f"{of_group}/dead-letters", "group_dead_letters.html", self._of_group, LetterQuery
            ),
            pages.page(f"{of_group}/redrives", "redrives.html", redrives.redrives),
            pages.page(one, "redrive.html", self._progress, ResultQuery),
            *(route for form in forms for route in pages.forms.routes(form)),
        ]

    async def _of_group(self, clients: Clients, call: Call) -> LetterPage:
        query = call.query
        assert isinstance(query, LetterQuery)
        letters = await self._letters.letters(clients, call)
        asked = LetterErrorQuery(
            key=query.key, tag=query.tag, where=query.where, decoder=query.decoder,
            contains=query.contains, since=query.since, until=query.until, topic=query.topic,
            error=query.error, state=query.state, scan=ERROR_SCAN, seconds=ERROR_S,
        )  # fmt: skip
        errors = await self._letters.errors(clients, Call(call.path, asked, None, call.caller))
        return LetterPage(letters=letters, errors=errors, counts=await self._counts(clients, call))

    async def _counts(self, clients: Clients, call: Call) -> LetterGroup | None:
        try:
            found = await self._letters.counts(clients, call)
        except (NoPermissionError, ProblemError):  # of Apache's brokers, and of users of one group
            return None
        return next((each for each in found.groups if each.group == call.path["group"]), None)

    async def _progress(self, clients: Clients, call: Call) -> ProgressPage:
        query = call.query
        assert isinstance(query, ResultQuery)
        redrive = (await self._redrives.one(clients, call)).redrive
        outcome = query.outcome
        if redrive.refused and query.cursor is None:
            outcome = outcome or Outcome.REFUSED
        results = None
        if redrive.state != "running":
            wanted = ResultQuery(cursor=query.cursor, outcome=outcome)
            results = await self._redrives.results(clients, Call(call.path, wanted))
        return ProgressPage(redrive=redrive, results=results, outcome=outcome)

    def _change(self, change: RedriveChange) -> Form:
        def read(_typed: Typed, _names: Names) -> None:
            return None

        def done(answer: Any, names: Names) -> Done:
            assert isinstance(answer, OneRedrive)
            path = f"/groups/{path_text(names['group'])}/redrives/{path_text(names['redrive'])}"
            return Done(path, Notice(DONE[change]))

        async def show(clients: Clients, call: Call) -> ChangePage:
            found = await self._redrives.one(clients, Call(call.path))
            return ChangePage(found.redrive, change)

        return Form(
            path=f"/groups/{{group}}/redrives/{{redrive}}/{change}",
            template="redrive_change.html",
            operation=self._redrives.change(change),
            read=read,
            done=done,
            show=show,
        )
