"""The pages about messages that wait, and about the traces of one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from starlette.routing import BaseRoute

from pocketmq.console.api.finding.traces import TraceCalls, TraceQuery
from pocketmq.console.api.waiting.bodies import WaitingQuery
from pocketmq.console.api.waiting.in_flight import InFlightCalls, InFlightQuery
from pocketmq.console.api.waiting.waiting_calls import WaitingCalls
from pocketmq.console.pages.forms import Done, Form, Names
from pocketmq.console.pages.pages import Family, Pages
from pocketmq.console.pages.rendering import path_text
from pocketmq.console.pages.visits import Notice


def waiting_pages(waiting: WaitingCalls, in_flight: InFlightCalls, traces: TraceCalls) -> Family:
    """Makes the paths of the pages.

    Args:
        waiting, in_flight, traces: carry the operations out that the pages show.
    """

    def routes(pages: Pages) -> Iterable[BaseRoute]:
        of_topic = "/topics/{topic}"
        recall = Form(
            path=f"{of_topic}/waiting/{{id}}/recall",
            template="recall.html",
            operation=waiting.recall,
            read=lambda _typed, _names: None,
            done=_recalled,
        )
        return [
            pages.page(f"{of_topic}/waiting", "waiting.html", waiting.waiting, WaitingQuery),
            pages.page(f"{of_topic}/messages/{{id}}/trace", "trace.html", traces.trace, TraceQuery),
            pages.page(
                "/groups/{group}/in-flight", "in_flight.html", in_flight.in_flight, InFlightQuery
            ),
            *pages.forms.routes(recall),
        ]

    return routes


def _recalled(_: Any, names: Names) -> Done:
    path = f"/topics/{path_text(names['topic'])}/waiting"
    return Done(path, Notice(f"Message {names['id']} is called back, and will not be delivered."))
