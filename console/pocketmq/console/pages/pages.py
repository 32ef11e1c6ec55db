"""The pages, and what each of them asks."""

from __future__ import annotations

from typing import Any

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from pocketmq.console.api.bodies.groups import GroupListQuery
from pocketmq.console.api.bodies.messages import BrowseQuery, ExplainQuery
from pocketmq.console.api.bodies.topics import TopicListQuery
from pocketmq.console.api.callers import Callers, Carried
from pocketmq.console.api.cluster_calls import ClusterCalls
from pocketmq.console.api.group_calls import GroupCalls
from pocketmq.console.api.message_calls import MessageCalls
from pocketmq.console.api.topic_calls import TopicCalls
from pocketmq.console.pages.answering import Answering
from pocketmq.console.pages.forms import Forms
from pocketmq.console.pages.rendering import FOLDER, Renderer, body_text
from pocketmq.console.web.app import query_of
from pocketmq.console.web.base_path import BasePath
from pocketmq.console.web.callers import caller_of
from pocketmq.console.web.gate import Gate
from pocketmq.console.web.operations import Api, Call


class Pages:
    """Serves the pages; each shows what an operation of the API gives.

    Args:
        callers: their clients.
        cluster, topics, messages, groups: carry the operations out.
        gate: decides which callers are served.
        api: for problems.
        base: the path before all links.
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
    ) -> None:
        self._callers, self._gate = callers, gate
        self._cluster, self._topics = cluster, topics
        self._messages, self._groups = messages, groups
        self._renderer = Renderer(base, may_write=callers.may_write)
        self._answering = Answering(self._renderer, api)
        self._forms = Forms(callers, self._renderer, gate, api)

    def routes(self) -> list[BaseRoute]:
        """Returns the paths of all pages, and of what they load."""
        of_topic = "/topics/{topic}"
        return [
            self._page("/", "overview.html", self._cluster.cluster),
            self._page("/topics", "topics.html", self._topics.listed, TopicListQuery),
            self._page(of_topic, "topic.html", self._topics.one),
            self._page(f"{of_topic}/messages", "messages.html", self._messages.browse, BrowseQuery),
            self._page(f"{of_topic}/messages/{{id}}", "message.html", self._messages.one),
            self._page(
                f"{of_topic}/messages/{{id}}/explanation",
                "explanation.html",
                self._messages.explain,
                ExplainQuery,
            ),
            self._page("/groups", "groups.html", self._groups.listed, GroupListQuery),
            self._page("/groups/{group}", "group.html", self._groups.one),
            self._page(
                "/groups/{group}/dead-letters",
                "messages.html",
                self._messages.dead_letters,
                BrowseQuery,
            ),
            Mount("/static", StaticFiles(directory=FOLDER / "static")),
        ]

    def _page(
        self,
        path: str,
        template: str,
        operation: Carried[Any],
        query: type[Struct] | None = None,
    ) -> Route:
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
