"""The command `pocketmq produce`, which sends standard input to a topic."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from pocketmq.cli.options import NAMESRV_DEFAULT, NamesrvOption, TopicArgument, name_value_pairs
from pocketmq.cli.output import EXIT_INTERRUPTED, Format, FormatOption, note, print_json
from pocketmq.cli.pipes.decoding import RegistryOption
from pocketmq.cli.pipes.encoding import (
    SubjectOption,
    WriterSchemaOption,
    encode,
    serializer_of,
)
from pocketmq.cli.pipes.message_format import delimiter_of
from pocketmq.cli.pipes.sending_options import (
    KeepGoingOption,
    KeepIdsOption,
    KeepQueueOption,
    QueueOption,
)
from pocketmq.cli.pipes.standard_streams import InputPipe
from pocketmq.cli.signals import stop_event
from pocketmq.protocol.errors import UsageError
from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.messages.message_json import MessageDocument, body_fields, document_of_line
from pocketmq.runtime.process import run
from pocketmq.runtime.text import counted

if TYPE_CHECKING:
    from pocketmq.cli.pipes.outflow import Destination, Outcome, Outflow
    from pocketmq.client.copying.message_files import LineSplitter

SOURCE = "standard input"


class InputFormat(StrEnum):
    """The format of a line of standard input."""

    LINE = "line"
    JSON = "json"


def produce(
    topic: TopicArgument,
    format_: Annotated[
        InputFormat,
        typer.Option(
            "-f", "--format", help="line: each line is a body; json: as `tail -f json` writes it."
        ),
    ] = InputFormat.LINE,
    key: Annotated[
        list[str] | None, typer.Option("-k", "--key", help="Business key of all; repeatable.")
    ] = None,
    tag: Annotated[str | None, typer.Option("-t", "--tag", help="Tag of all.")] = None,
    property_: Annotated[
        list[str] | None, typer.Option("-p", "--property", help="name=value of all; repeatable.")
    ] = None,
    sharding_key: Annotated[
        str | None,
        typer.Option(
            "-s", "--sharding-key", help="Equal sharding keys go to the same queue, in order."
        ),
    ] = None,
    key_delimiter: Annotated[
        str | None, typer.Option("-K", "--key-delimiter", help="A line is KEY, this, and the body.")
    ] = None,
    delimiter: Annotated[
        str, typer.Option("-D", "--delimiter", help="What ends a line, such as '\\0'.")
    ] = "\\n",
    queue: QueueOption = None,
    count: Annotated[
        int, typer.Option("-c", "--count", min=0, help="Stop after so many; 0: never.")
    ] = 0,
    keep_queue: KeepQueueOption = False,
    keep_ids: KeepIdsOption = False,
    keep_going: KeepGoingOption = False,
    schema: WriterSchemaOption = None,
    subject: SubjectOption = None,
    schema_registry: RegistryOption = None,
    namesrv: NamesrvOption = NAMESRV_DEFAULT,
    output: FormatOption = Format.TABLE,
) -> None:
    """Send the lines of standard input, each as a message; empty lines are left out.

    With -f json the options fill in what a line does not say. What came from a queue goes to the
    queue of the same number, in its order.
    """
    from pocketmq.cli.pipes.outflow import Destination, Outcome
    from pocketmq.client.copying.message_files import LineSplitter

    lines = _Lines(
        is_json=format_ is InputFormat.JSON,
        keys=key or [],
        tag=tag,
        properties=name_value_pairs("--property", property_)
        | ({props.SHARDING_KEY: sharding_key} if sharding_key else {}),
        key_delimiter=None if key_delimiter is None else delimiter_of(key_delimiter),
        serializer=serializer_of(topic, schema=schema, subject=subject, registry=schema_registry),
    )
    destination = Destination(
        topic=topic, namesrv=namesrv, queue=queue, keep_queue=keep_queue, keep_ids=keep_ids
    )
    outcome = Outcome(SOURCE, keep_going=keep_going)
    is_whole = run(
        _produce(destination, outcome, lines, LineSplitter(delimiter_of(delimiter)), count)
    )
    if output is Format.JSON:
        print_json({"topic": topic, "messages": outcome.sent, "failed": outcome.failed})
    outcome.check()
    end = "" if is_whole else ", then interrupted"
    note(f"{counted(outcome.sent, 'message')} sent to {topic}{end}")
    if not is_whole:
        raise typer.Exit(EXIT_INTERRUPTED)


class _Lines(msgspec.Struct, kw_only=True):
    """Makes messages of lines."""

    is_json: bool
    keys: list[str]
    tag: str | None
    properties: dict[str, str]
    key_delimiter: bytes | None
    serializer: Any = None

    def document(self, line: bytes) -> MessageDocument:
        """Makes the message of one line.

        Raises:
            UsageError: the line is no message.
        """
        document = document_of_line(line) if self.is_json else self._of_text(line)
        if not document.keys and props.KEYS not in document.properties:
            document.keys = self.keys
        if document.tags is None and props.TAGS not in document.properties:
            document.tags = self.tag
        document.properties = self.properties | document.properties
        if self.serializer is not None:
            encode(document, self.serializer)
        return document

    def _of_text(self, line: bytes) -> MessageDocument:
        keys: list[str] = []
        if self.key_delimiter is not None:
            key, found, rest = line.partition(self.key_delimiter)
            if found:
                line = rest
                keys = [_text(key)] if key else []
        content = body_fields(line)
        return MessageDocument(
            body=content.get("body"), body_base64=content.get("bodyBase64"), keys=keys
        )


def _text(key: bytes) -> str:
    try:
        return key.decode()
    except UnicodeDecodeError as e:
        raise UsageError(f"the key {key!r} is no UTF-8") from e


async def _produce(
    destination: Destination, outcome: Outcome, lines: _Lines, splitter: LineSplitter, count: int
) -> bool:
    """Sends all lines; returns whether it came to their end."""
    from pocketmq.cli.pipes.outflow import Outflow

    stop = stop_event()
    begun = 0
    async with Outflow(destination, outcome) as out, InputPipe(stop) as source:
        try:
            async for number, line in source.lines(splitter):
                begun += 1
                if not await _put(out, number, lines, line) or begun == count:
                    break
        except UsageError as e:  # a line that is too long
            out.refuse(splitter.number + 1, e)
    return not stop.is_set()


async def _put(out: Outflow, number: int, lines: _Lines, line: bytes) -> bool:
    try:
        document = lines.document(line)
    except UsageError as e:
        return out.refuse(number, e)
    return await out.put(number, document)
