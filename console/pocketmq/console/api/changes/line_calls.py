"""The operation that sends the messages of a file."""

from __future__ import annotations

from pocketmq.client import Message, Producer
from pocketmq.console.api.bodies.lines import (
    LINES_MAX,
    LineResult,
    SendLinesRequest,
    SentLines,
)
from pocketmq.console.api.callers import Callers, Clients
from pocketmq.console.api.paths import PREFIX
from pocketmq.console.api.sending import sent_of
from pocketmq.console.web.operations import Call, Operation
from pocketmq.protocol.errors import NoPermissionError, PocketMQError, UsageError
from pocketmq.protocol.messages.message_json import document_of_line
from pocketmq.runtime.text import counted

FAILURES_MAX = 10
"""Messages one after the other that cannot be sent; no further one is tried then."""


class LineCalls:
    """Sends the messages of a file, and says of each line what became of it.

    Args:
        callers: their clients.
    """

    def __init__(self, callers: Callers) -> None:
        self._callers = callers

    def operations(self) -> list[Operation]:
        """Returns the operation."""
        return [
            Operation(
                "POST", f"{PREFIX}/topics/{{topic}}/messages/lines", "sendLines",
                "Send the messages of a file of JSON lines, one after the other; none if a line "
                "does not fit.",
                self._callers.serve(self.send), SentLines, body=SendLinesRequest,
            )
        ]  # fmt: skip

    async def send(self, clients: Clients, call: Call) -> SentLines:
        """Sends the lines."""
        self._callers.check_writes()
        request, topic = call.body, call.path["topic"]
        assert isinstance(request, SendLinesRequest)
        messages, results = _read(topic, request.lines)
        is_refused = any(result.problem is not None for result in results)
        if not (is_refused or request.check_only):
            await _send(clients.producer, messages, results)
        sent = sum(result.sent is not None for result in results)
        failed = sum(result.problem is not None for result in results)
        return SentLines(sent=sent, failed=failed, is_refused=is_refused, lines=results)


def _read(topic: str, text: str) -> tuple[list[Message], list[LineResult]]:
    """Reads the lines; the messages are those of the lines that fit.

    Raises:
        UsageError: there is none, or there are too many.
    """
    lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    if not 1 <= len(lines) <= LINES_MAX:
        raise UsageError(
            f"there are {counted(len(lines), 'line')}: give 1 to {LINES_MAX}, or send the file "
            f"with `pocketmq produce -f json`"
        )
    messages, results = [], []
    for number, line in lines:
        result = LineResult(line=number)
        try:
            messages.append(document_of_line(line.encode()).message(topic))
        except UsageError as e:
            result.problem = str(e)
        except UnicodeEncodeError as e:
            result.problem = f"the line is no Unicode text: {e}"
        results.append(result)
    return messages, results


async def _send(producer: Producer, messages: list[Message], results: list[LineResult]) -> None:
    """Sends the messages of all lines, and notes in the results what became of them.

    Raises:
        NoPermissionError: the caller may not send the first one.
    """
    failures = 0
    for message, result in zip(messages, results, strict=True):
        if failures == FAILURES_MAX:
            result.problem = f"not tried: the {FAILURES_MAX} messages before could not be sent"
            continue
        try:
            result.sent = sent_of(await producer.send(message))
            failures = 0
        except NoPermissionError:
            if result is results[0]:
                raise
            result.problem = "the rights of the user have changed meanwhile"
        except PocketMQError as e:
            result.problem = str(e)
            failures += 1
