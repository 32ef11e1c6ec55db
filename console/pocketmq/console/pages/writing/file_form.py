"""The form that sends the messages of a file, and the page that says what became of each line."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from typing import Any

from msgspec import Struct

from pocketmq.console.api.bodies.lines import SendLinesRequest, SentLines
from pocketmq.console.api.bodies.topics import Topic
from pocketmq.console.api.callers import Clients
from pocketmq.console.api.changes.line_calls import LineCalls
from pocketmq.console.api.topic_calls import TopicCalls
from pocketmq.console.pages.forms import Done, Form, Names
from pocketmq.console.pages.rendering import path_text
from pocketmq.console.pages.typed import Typed
from pocketmq.console.pages.visits import Notice
from pocketmq.console.web.operations import Call
from pocketmq.console.web.problems import not_found
from pocketmq.protocol.errors import UsageError
from pocketmq.runtime.text import counted

RESULTS_MAX = 8
"""Files whose results are kept; a further one takes the place of the oldest."""

SHOWN_MAX = 500
"""Lines that the page of a result shows."""


class FileResult(Struct):
    """What became of a file.

    Attributes:
        sent: what became of its lines; those shown first that were not sent.
        not_shown: lines that the page leaves out.
    """

    sent: SentLines
    not_shown: int


class FileForm:
    """Sends files.

    Args:
        topics, lines: carry the operations out.
    """

    def __init__(self, topics: TopicCalls, lines: LineCalls) -> None:
        self._topics, self._lines = topics, lines
        self._results: OrderedDict[str, tuple[str, FileResult]] = OrderedDict()

    def form(self) -> Form:
        """Returns the form."""
        return Form(
            path="/topics/{topic}/send-file",
            template="send_file.html",
            operation=self._lines.send,
            read=_read,
            done=self._done,
            show=self._show,
        )

    async def _show(self, clients: Clients, call: Call) -> Topic:
        return await self._topics.one(clients, Call(call.path))

    def _done(self, answer: Any, names: Names) -> Done:
        assert isinstance(answer, SentLines)
        topic = names["topic"]
        while len(self._results) >= RESULTS_MAX:
            self._results.popitem(last=False)
        name = secrets.token_hex(16)
        answer.lines.sort(key=lambda line: line.problem is None)
        not_shown = max(len(answer.lines) - SHOWN_MAX, 0)
        del answer.lines[SHOWN_MAX:]
        self._results[name] = topic, FileResult(answer, not_shown)
        text = f"{counted(answer.sent, 'message')} sent, {answer.failed} not."
        return Done(f"/topics/{path_text(topic)}/send-file/{name}", Notice(text))

    async def result(self, _: Clients, call: Call) -> FileResult:
        """Finds what became of a file."""
        topic, name = call.path["topic"], call.path["result"]
        found_topic, result = self._results.get(name, ("", None))
        if result is None or found_topic != topic:
            raise not_found("result", name, f"the messages of {topic}; results are not kept long")
        return result


def _read(typed: Typed, _: Names) -> SendLinesRequest:
    content = typed.file("file")
    if not content:
        raise UsageError("there is no file, or it is empty: choose a file of JSON lines")
    try:
        return SendLinesRequest(lines=content.decode("utf-8-sig"))
    except UnicodeDecodeError as e:
        raise UsageError(f"the file is no text in UTF-8: {e}") from e
