"""The page with rates over time, for those who read without a script; the topics of its list."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from msgspec import Meta
from starlette.routing import BaseRoute

from pocketmq.console.api.bodies.topics import TopicListQuery
from pocketmq.console.api.rates.bodies import RatesQuery
from pocketmq.console.api.rates.rate_calls import RateCalls
from pocketmq.console.api.rates.topic_figures import FIGURES_MAX
from pocketmq.console.api.topic_calls import TopicCalls
from pocketmq.console.pages.pages import Family, Pages


class TopicPageQuery(TopicListQuery):
    """What of the list of topics a page shows: with figures, a part at a time."""

    limit: Annotated[int, Meta(ge=1, le=FIGURES_MAX)] = FIGURES_MAX
    figures: bool = True


def rate_pages(rates: RateCalls, topics: TopicCalls) -> Family:
    """Makes the paths of the pages.

    Args:
        rates, topics: carry the operations out that the pages show.
    """

    def routes(pages: Pages) -> Iterable[BaseRoute]:
        return [
            pages.page("/rates", "rates.html", rates.shown, RatesQuery),
            pages.page("/topics", "topics.html", topics.listed, TopicPageQuery),
        ]

    return routes
