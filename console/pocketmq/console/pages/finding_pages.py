"""The pages on which people find, read and compare messages."""

from __future__ import annotations

from collections.abc import Iterable

from starlette.routing import BaseRoute

from pocketmq.console.api.bodies.messages import BrowseQuery
from pocketmq.console.api.finding.bodies import BodyQuery, DifferenceQuery, LookUpQuery
from pocketmq.console.api.finding.finding_calls import FindingCalls
from pocketmq.console.api.message_calls import MessageCalls
from pocketmq.console.pages.pages import Family, Pages


def finding_pages(messages: MessageCalls, finding: FindingCalls) -> Family:
    """Makes the paths of the pages.

    Args:
        messages, finding: carry the operations out that the pages show.
    """

    def routes(pages: Pages) -> Iterable[BaseRoute]:
        of_topic = "/topics/{topic}"
        of_message = f"{of_topic}/messages/{{id}}"
        return [
            pages.page(f"{of_topic}/messages", "messages.html", messages.browse, BrowseQuery),
            pages.page(f"{of_topic}/lookup", "lookup.html", finding.look_up, LookUpQuery),
            pages.page(of_message, "message.html", finding.view, BodyQuery),
            pages.page(
                f"{of_message}/difference", "difference.html", finding.difference, DifferenceQuery
            ),
        ]

    return routes
