"""All pages with forms that send messages and change topics, groups and offsets."""

from __future__ import annotations

from collections.abc import Iterable

from starlette.routing import BaseRoute

from pocketmq.console.api.changes.changes import Changes
from pocketmq.console.api.group_calls import GroupCalls
from pocketmq.console.api.message_calls import MessageCalls
from pocketmq.console.api.topic_calls import TopicCalls
from pocketmq.console.pages.pages import Pages
from pocketmq.console.pages.writing.file_form import FileForm
from pocketmq.console.pages.writing.group_forms import GroupForms
from pocketmq.console.pages.writing.offset_form import OffsetForm
from pocketmq.console.pages.writing.send_form import SendForm
from pocketmq.console.pages.writing.topic_forms import TopicForms


class WritingPages:
    """Makes the paths of these pages.

    Args:
        topics, messages, groups, changes: carry the operations out.
    """

    def __init__(
        self, topics: TopicCalls, messages: MessageCalls, groups: GroupCalls, changes: Changes
    ) -> None:
        self._file = FileForm(topics, changes.lines)
        self._forms = [
            SendForm(topics, messages).form(),
            self._file.form(),
            OffsetForm(groups, changes.offsets).form(),
            *TopicForms(topics, changes.topics).forms(),
            *GroupForms(changes.groups).forms(),
        ]

    def __call__(self, pages: Pages) -> Iterable[BaseRoute]:
        """Returns the paths."""
        result = "/topics/{topic}/send-file/{result}"
        return [
            *(route for form in self._forms for route in pages.forms.routes(form)),
            pages.page(result, "send_file_result.html", self._file.result),
        ]
