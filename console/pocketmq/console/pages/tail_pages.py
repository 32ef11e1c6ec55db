"""The page that follows a topic."""

from __future__ import annotations

from collections.abc import Iterable

from starlette.routing import BaseRoute

from pocketmq.console.api.tails.bodies import TailQuery
from pocketmq.console.api.tails.tail_calls import TailCalls
from pocketmq.console.pages.pages import Family, Pages


def tail_pages(tails: TailCalls) -> Family:
    """Makes the path of the page.

    Args:
        tails: begins the tails that the page shows.
    """

    def routes(pages: Pages) -> Iterable[BaseRoute]:
        return [pages.page("/topics/{topic}/tail", "tail.html", tails.announced, TailQuery)]

    return routes
