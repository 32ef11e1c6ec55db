"""Forms of pages: each carries out an operation of the API that changes something."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from pocketmq.console.api.callers import Callers, Carried
from pocketmq.console.pages.answering import Answering
from pocketmq.console.pages.rendering import Renderer
from pocketmq.console.pages.typed import Typed, typed_of
from pocketmq.console.pages.visits import TOKEN, Notice, Visit
from pocketmq.console.web.app import headers_of, problem_for
from pocketmq.console.web.callers import caller_of
from pocketmq.console.web.gate import Gate
from pocketmq.console.web.operations import Api, Call
from pocketmq.console.web.problems import Problem, ProblemError
from pocketmq.protocol.errors import PocketMQError, UsageError

CONFIRM = "confirm"
"""The field into which the name is typed of what shall be destroyed."""

REASON = "reason"
"""The field with the reason for a change, which goes to the audit."""

REASON_MAX = 200
"""Characters of a reason."""

Names = Mapping[str, str]
"""The named parts of a page's path."""


class Done(NamedTuple):
    """Where a browser goes when a form was carried out.

    Attributes:
        path: of the page, with what it names quoted (`path_text`).
        notice: what that page tells.
    """

    path: str
    notice: Notice


@dataclass(frozen=True)
class Form:
    """A form on a page of its own.

    The template extends ``base.html``, shows the problem by ``{% include "form_problem.html" %}``
    and has a form with the method POST, with the field of ``{% include "form_token.html" %}``,
    and each field with the value ``typed["name"]``.

    Attributes:
        path: of the page.
        template: gets `found`, `typed`, `names`, `here` and `problem` (None, or why the form was
            not carried out).
        operation: carries the form out.
        read: makes the operation's body of what was typed; raises UsageError.
        done: where the browser goes then, and what it is told, of the operation's answer.
        show: finds what the page shows beside the form; its call has what was typed as its query.
        prefill: what is typed at first, of what was found and of the link's parameters.
        confirm: the part of the path that is to be typed again, for what destroys; empty for none.
        named: the parts of the operation's path that are typed, such as the name of what is made.
        looks: whether what was sent is only looked at: its page is shown again, as it was typed.
    """

    path: str
    template: str
    operation: Carried[Any]
    read: Callable[[Typed, Names], Any]
    done: Callable[[Any, Names], Done]
    show: Carried[Any] | None = None
    prefill: Callable[[Any, Typed], Typed] | None = None
    confirm: str = ""
    named: Callable[[Typed], Names] | None = None
    looks: Callable[[Typed], bool] | None = None


class Forms:
    """Serves forms, unless the console is read-only.

    A form is carried out if it comes from a page of this console: by the gate, which looks at the
    headers that browsers set, and by the form's token.

    Args:
        callers: their clients.
        renderer: renders the templates.
        gate: decides which callers are served.
        api: for problems.
    """

    def __init__(self, callers: Callers, renderer: Renderer, gate: Gate, api: Api) -> None:
        self._callers, self._renderer = callers, renderer
        self._gate, self._api = gate, api
        self._answering = Answering(renderer, api)

    def routes(self, form: Form) -> list[BaseRoute]:
        """Returns the paths of a form: of its page, and to carry it out."""
        carry_out = self._callers.serve(form.operation)
        show = None if form.show is None else self._callers.serve(form.show)

        async def found_by(request: Request, typed: Typed) -> Any:
            if show is None:
                return None
            return await show(Call(request.path_params, typed, None, caller_of(request)))

        def page(
            request: Request, visit: Visit, found: Any, typed: Typed, problem: Problem | None
        ) -> Response:
            return self._renderer.page(
                form.template,
                200 if problem is None else problem.status,
                {} if problem is None else headers_of(problem),
                visit=visit,
                found=found,
                typed=typed,
                names=request.path_params,
                here=request.url.path,
                problem=problem,
            )

        async def shown(request: Request) -> Response:
            self._gate.check(request)
            self._callers.check_writes()
            typed = Typed(request.query_params)
            found = await found_by(request, typed)
            if form.prefill is not None:
                typed = form.prefill(found, typed)
            return page(request, self._renderer.visits.of(request), found, typed, None)

        async def sent(request: Request) -> Response:
            self._gate.check(request)
            self._callers.check_writes()
            typed = await typed_of(request)
            visit = self._renderer.visits.of(request)
            if form.looks is not None and form.looks(typed):
                return page(request, visit, await found_by(request, typed), typed, None)
            try:
                call = _call(form, request, visit, typed)
                done = form.done(await carry_out(call), call.path)
            except PocketMQError as e:
                problem = problem_for(request, e, self._api)
                return page(request, visit, await found_by(request, typed), typed, problem)
            visit.leave_notice(done.notice)
            answer = RedirectResponse(f"{self._renderer.base}{done.path}", 303)
            visit.end(answer)
            return answer

        return [
            Route(form.path, self._answering(shown), methods=["GET"], name=f"form {form.path}"),
            Route(form.path, self._answering(sent), methods=["POST"], name=f"send {form.path}"),
        ]


def _call(form: Form, request: Request, visit: Visit, typed: Typed) -> Call:
    """Makes the call of a form.

    Raises:
        ProblemError: 403, the form is not of a page that this browser was given.
        UsageError: what was typed does not fit.
    """
    if not visit.fits(typed[TOKEN]):
        raise ProblemError(
            403,
            "The form was not carried out",
            "the form is not of a page of this console, or older than the console's last start",
            "look at it again and send it again",
        )
    names = request.path_params if form.named is None else form.named(typed)
    if form.confirm and typed[CONFIRM] != names[form.confirm]:
        raise UsageError(f"to confirm, type the name of the {form.confirm}: {names[form.confirm]}")
    reason = typed.text(REASON)
    if reason is not None and len(reason) > REASON_MAX:
        raise UsageError(f"the reason has {len(reason)} characters, allowed are {REASON_MAX}")
    body = form.read(typed, names)
    return Call(names, None, body, caller_of(request), reason)
