"""The pages, and what each of them asks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from pocketmq.console.api.bodies.groups import GroupListQuery
from pocketmq.console.api.bodies.messages import ExplainQuery
from pocketmq.console.api.callers import Callers, Carried
from pocketmq.console.api.cluster_calls import ClusterCalls
from pocketmq.console.api.group_calls import GroupCalls
from pocketmq.console.api.message_calls import MessageCalls
from pocketmq.console.api.topic_calls import TopicCalls
from pocketmq.console.pages.answering import Answering, Shown
from pocketmq.console.pages.forms import Forms
from pocketmq.console.pages.rendering import FOLDER, Renderer, body_text
from pocketmq.console.web.app import query_of
from pocketmq.console.web.base_path import BasePath
from pocketmq.console.web.callers import caller_of
from pocketmq.console.web.gate import Gate
from pocketmq.console.web.operations import Api, Call

Family = Callable[["Pages"], Iterable[BaseRoute]]
"""Makes the paths of pages that belong together."""


class Pages:
    """Serves the pages; each shows what an operation of the API gives.

    Args:
        callers: their clients.
        cluster, topics, messages, groups: carry the operations out.
        gate: decides which callers are served.
        api: for problems.
        base: the path before all links.
        families: further pages.
        links: paths and names of those in the navigation.
        templates: the folder of further templates; None for none.

    Attributes:
        forms: makes the paths of forms.
    """

    def __init__(
        self,
        callers: Callers,
        cluster: ClusterCalls,
        topics: TopicCalls,
        messages: MessageCalls,
        groups: GroupCalls,
        gate: Gate,
        api: Api,
        base: BasePath,
        families: Iterable[Family] = (),
        links: Sequence[tuple[str, str]] = (),
        templates: Path | None = None,
    ) -> None:
        self._families = list(families)
        self._callers, self._gate = callers, gate
        self._cluster, self._topics = cluster, topics
        self._messages, self._groups = messages, groups
        self._renderer = Renderer(
            base, may_write=callers.may_write, links=links, templates=templates
        )
        self._answering = Answering(self._renderer, api)
        self.forms = Forms(callers, self._renderer, gate, api)

    def routes(self) -> list[BaseRoute]:
        """Returns the paths of all pages, and of what they load."""
        of_topic = "/topics/{topic}"
        return [
            self.page("/", "overview.html", self._cluster.cluster),
            self.page(of_topic, "topic.html", self._topics.one),
            self.page(
                f"{of_topic}/messages/{{id}}/explanation",
                "explanation.html",
                self._messages.explain,
                ExplainQuery,
            ),
            self.page("/groups", "groups.html", self._groups.listed, GroupListQuery),
            self.page("/groups/{group}", "group.html", self._groups.one),
            *(route for family in self._families for route in family(self)),
            Mount("/static", _Files(self._gate)),
        ]

    def page(
        self,
        path: str,
        template: str,
        operation: Carried[Any],
        query: type[Struct] | None = None,
    ) -> Route:
        """Makes the path of a page that shows what an operation gives.

        Args:
            path: of the page.
            template: gets `found`, `query`, `names`, `here` and `body_text`.
            operation: finds what the page shows.
            query: the type of the operation's parameters.
        """
        carry_out = self._callers.serve(operation)

        async def page(request: Request) -> Response:
            self._gate.check(request)
            asked = query_of(query, request, is_form=True)
            found = await carry_out(Call(request.path_params, asked, None, caller_of(request)))
            return self._renderer.page(
                template,
                visit=self._renderer.visits.of(request),
                found=found,
                query=asked,
                names=request.path_params,
                here=request.url.path,
                body_text=body_text,
            )

        return Route(path, self._answering(page), methods=["GET"], name=f"page {path}")

    def checked(self, answer: Shown) -> Shown:
        """Lets an endpoint serve those whom the gate admits, and tells in a page what it raises."""

        async def admitted(request: Request) -> Response:
            self._gate.check(request)
            return await answer(request)

        return self._answering(admitted)


class _Files(StaticFiles):
    """The files that pages load, for those whom the gate admits."""

    def __init__(self, gate: Gate) -> None:
        super().__init__(directory=FOLDER / "static")
        self._gate = gate

    async def get_response(self, path: str, scope: Scope) -> Response:
        """Answers with a file."""
        self._gate.check(Request(scope))
        return await super().get_response(path, scope)
