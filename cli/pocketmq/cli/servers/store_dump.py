"""The command `pocketmq store dump`, which prints the records of a queue, a topic or a file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pocketmq.cli.options import time_ms
from pocketmq.cli.output import EXIT_FAILED, Format, FormatOption, date, note
from pocketmq.protocol.errors import ContentError, UsageError
from pocketmq.protocol.messages.records import decode_records

if TYPE_CHECKING:
    from pocketmq.broker.store.mending.dump import Entry, Gap, StoredRecord

BODY_SIZE = 200


def dump(
    path: Annotated[
        Path, typer.Argument(help="A broker's storePathRootDir, or one .log or .idx file.")
    ],
    topic: Annotated[str | None, typer.Option(help="Only this topic.")] = None,
    queue: Annotated[int | None, typer.Option(min=0, help="Only this queue.")] = None,
    start: Annotated[int, typer.Option("--from", min=0, help="First queue offset.")] = 0,
    end: Annotated[
        int | None, typer.Option("--to", min=0, help="Queue offset to end before.")
    ] = None,
    since: Annotated[str | None, typer.Option(help="Only what was stored then or later.")] = None,
    until: Annotated[str | None, typer.Option(help="Only what was stored before then.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="So many at the most.")] = None,
    body: Annotated[int, typer.Option(min=0, help="Bytes of a body to show.")] = BODY_SIZE,
    output: FormatOption = Format.TABLE,
) -> None:
    """Show stored records, or index entries, in order; JSON is one object a line.

    Nothing is locked or changed: the directory may be in use. What is damaged is passed over and
    told of on standard error. Exit code 0: all was sound; 1: something was not, but for the end of
    a log, where a broker may be writing.
    """
    from pocketmq.broker.store.disk.files import Files
    from pocketmq.broker.store.mending.dump import Gap, dump_directory, dump_index, dump_log

    first_ms = None if since is None else time_ms("--since", since)
    last_ms = None if until is None else time_ms("--until", until)
    if not path.exists():
        raise UsageError(f"there is no {path}")
    _check_choice(path, topic, queue)
    files = Files(16, read_only=True)
    found: Iterator[StoredRecord | Gap | Entry]
    if path.suffix == ".idx":
        found = dump_index(files, path, start, end)
    elif path.suffix == ".log":
        found = dump_log(files, path, start, end)
    elif (path / "queues").is_dir():
        found = dump_directory(files, path, topic, queue, start, end)
    else:
        raise UsageError(
            f"{path} is neither a broker's data directory nor a file whose name ends in .log or "
            f".idx"
        )
    is_damaged = False

    def rows() -> Iterator[dict[str, Any]]:
        nonlocal is_damaged
        for item in found:
            if isinstance(item, Gap):
                note(f"{item}{'; a broker may be writing there' if item.is_end else ''}")
                is_damaged = is_damaged or not item.is_end
            elif (row := _row(item, first_ms, last_ms, body)) is not None:
                yield row

    try:
        for row in islice(rows(), limit):
            typer.echo(json.dumps(row, ensure_ascii=False) if output is Format.JSON else _text(row))
    finally:
        files.close()
    if is_damaged:
        raise typer.Exit(EXIT_FAILED)


def _check_choice(path: Path, topic: str | None, queue: int | None) -> None:
    """Refuses a topic or a queue without files: its name may be misspelt."""
    from pocketmq.broker.store.mending.check import queue_directories

    if topic is None and queue is None:
        return
    if path.is_file():
        raise UsageError(f"{path} is of one queue: leave --topic and --queue out")
    places = queue_directories(path)
    if any(topic in (None, name) and queue in (None, number) for name, number in places):
        return
    if topic in {name for name, _ in places}:
        numbers = ", ".join(str(number) for name, number in places if name == topic)
        raise UsageError(f"{path} holds nothing of queue {queue} of {topic}, but of {numbers}")
    what = f"queue {queue}" if topic is None else f"topic {topic}"
    raise UsageError(f"{path} holds nothing of {what}; `ls {path}/queues` shows its topics")


def _row(
    item: StoredRecord | Entry, first_ms: int | None, last_ms: int | None, body_size: int
) -> dict[str, Any] | None:
    """Makes the row of a record or an entry; None if its time is outside of the wanted range."""
    from pocketmq.broker.store.log.lost_records import LOST
    from pocketmq.broker.store.mending.dump import Entry

    if isinstance(item, Entry):
        return {
            "offset": item.offset,
            "physicalOffset": item.physical_offset,
            "position": item.position,
            "size": item.size,
            "tagsCode": item.tags_code,
        }
    stored_ms = item.timestamp
    if (first_ms is not None and stored_ms < first_ms) or (
        last_ms is not None and stored_ms >= last_ms
    ):
        return None
    row: dict[str, Any] = {
        "offset": item.offset,
        "position": item.position,
        "size": len(item.data),
        "storeTimestamp": stored_ms,
    }
    try:
        (message,) = decode_records(item.data, inflate=False)
    except ContentError as e:
        return {**row, "unreadable": str(e)}
    if message.sys_flag & LOST:
        return {
            "topic": message.topic,
            "queue": message.queue_id,
            **row,
            "isLost": True,
            "body": "",
        }
    return {
        "topic": message.topic,
        "queue": message.queue_id,
        **row,
        "physicalOffset": message.physical_offset,
        "bornTimestamp": message.born_timestamp,
        "bornHost": message.born_host,
        "storeHost": message.store_host,
        "msgId": message.msg_id,
        "tags": message.tags,
        "keys": list(message.keys),
        "flag": message.flag,
        "sysFlag": message.sys_flag,
        "reconsumeTimes": message.reconsume_times,
        "preparedTransactionOffset": message.prepared_transaction_offset,
        "properties": message.properties,
        "bodySize": len(message.body),
        "body": message.body[:body_size].decode("utf-8", "backslashreplace"),
    }


_HEAD = (
    "topic", "queue", "offset", "position", "size", "storeTimestamp", "tagsCode", "physicalOffset"
)  # fmt: skip
_TIMES = ("storeTimestamp", "bornTimestamp")


def _text(row: dict[str, Any]) -> str:
    """Formats a record for people: its position on one line, then its contents."""
    row = row | {name: date(row[name]) for name in _TIMES if name in row}
    lines = [" ".join(f"{name}={row[name]}" for name in _HEAD if name in row)]
    for name, value in row.items():
        if name in _HEAD or value in (None, "", [], {}):
            continue
        if isinstance(value, dict):
            value = " ".join(f"{key}={text}" for key, text in value.items())
        elif isinstance(value, list):
            value = " ".join(value)
        lines.append(f"  {name}: {value}")
    return "\n".join(lines)
