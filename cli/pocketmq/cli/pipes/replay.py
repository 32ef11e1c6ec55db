"""The command `pocketmq replay`: plays a recording, or replays a topic or an export by Spark."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pocketmq.cli.jobs.spark_replay import (
    CheckpointOption,
    RateOption,
    ReplayCoresOption,
    ReplayDryRunOption,
    ReplayReadOption,
    ReplaySinceOption,
    ReplayUntilOption,
    ReplayWriteOption,
    RestartOption,
    SetOption,
    ToNamesrvOption,
    WhereOption,
    has_spark,
    is_for_spark,
    refuse,
    replay_by_spark,
)
from pocketmq.cli.options import NAMESRV_DEFAULT, NamesrvOption
from pocketmq.cli.output import EXIT_INTERRUPTED, Format, FormatOption, note, print_json
from pocketmq.cli.pipes.sending_options import (
    KeepGoingOption,
    KeepIdsOption,
    KeepQueueOption,
    QueueOption,
)
from pocketmq.cli.signals import stop_event
from pocketmq.protocol.errors import ConfigError, UsageError
from pocketmq.protocol.names.names import DLQ_PREFIX
from pocketmq.runtime.clock import SystemClock
from pocketmq.runtime.process import run
from pocketmq.runtime.text import counted

if TYPE_CHECKING:
    from pocketmq.cli.pipes.outflow import Outcome
    from pocketmq.cli.pipes.playback import Playback

SPEED_MAX = 1e6

SourceArgument = Annotated[
    str,
    typer.Argument(
        help="A file that `pocketmq record` wrote, or - for standard input; or a directory that "
        "`pocketmq export` wrote, or a topic such as %DLQ%group."
    ),
]
TargetOption = Annotated[
    str | None,
    typer.Option(help="Where to; by default where each message was recorded or sent first."),
]
SpeedOption = Annotated[
    str, typer.Option(help="1x: as it was recorded; 10x, 0.5x; max: without pauses.")
]
FirstOption = Annotated[
    int, typer.Option("--from", min=1, help="Begin with this message, by its line's number.")
]
CountOption = Annotated[
    int, typer.Option("-c", "--count", min=0, help="Stop after so many; 0: never.")
]
ProgressOption = Annotated[bool, typer.Option(help="Count on standard error, on a terminal.")]


def replay(
    source: SourceArgument,
    topic: TargetOption = None,
    speed: SpeedOption = "1x",
    first: FirstOption = 1,
    count: CountOption = 0,
    where: WhereOption = None,
    set_: SetOption = None,
    rate: RateOption = 0,
    since: ReplaySinceOption = None,
    until: ReplayUntilOption = None,
    to_namesrv: ToNamesrvOption = None,
    checkpoint: CheckpointOption = None,
    restart: RestartOption = False,
    read: ReplayReadOption = None,
    write: ReplayWriteOption = None,
    dry_run: ReplayDryRunOption = False,
    cores: ReplayCoresOption = None,
    queue: QueueOption = None,
    keep_queue: KeepQueueOption = False,
    keep_ids: KeepIdsOption = False,
    keep_going: KeepGoingOption = False,
    progress: ProgressOption = True,
    namesrv: NamesrvOption = NAMESRV_DEFAULT,
    output: FormatOption = Format.TABLE,
) -> None:
    """Send messages again: a recording, a topic (dead letters go back), or files of an export.

    A recording is played with the pauses that were between its messages. What was in order in a
    queue stays in order. When it is interrupted or fails, it says with which --from it goes on.

    A topic or a directory is replayed by a Spark job. The same command again goes on where it
    stopped and sends nothing twice. Without Spark, the brokers themselves send dead letters back to
    their first topics, as pocketmq dlq redrive GROUP --to origin does.
    """
    job_options = {
        "--where": where,
        "--set": set_,
        "--rate": rate,
        "--since": since,
        "--until": until,
        "--to-namesrv": to_namesrv,
        "--checkpoint": checkpoint,
        "--restart": restart,
        "--read": read,
        "--write": write,
        "--dry-run": dry_run,
        "--cores": cores,
    }
    if is_for_spark(source):
        if source.startswith(DLQ_PREFIX) and not has_spark():
            _redrive(source, topic, namesrv, job_options, output)
            return
        refuse(
            "of a recording only",
            {
                "--speed": speed != "1x",
                "--from": first != 1,
                "--count": count,
                "--queue": queue is not None,
                "--keep-queue": keep_queue,
                "--keep-ids": keep_ids,
                "--keep-going": keep_going,
            },
        )
        replay_by_spark(source, topic, namesrv, job_options, progress=progress, output=output)
        return
    refuse("of a topic or directory only", job_options)
    from pocketmq.cli.pipes.outflow import Destination
    from pocketmq.cli.pipes.playback import Playback

    destination = Destination(
        topic=topic or "",
        is_topic_given=topic is not None,
        namesrv=namesrv,
        queue=queue,
        keep_queue=keep_queue,
        keep_ids=keep_ids,
    )
    playback = Playback(
        source=source,
        destination=destination,
        speed=_speed(speed),
        first=first,
        count=count,
        shows_progress=progress and sys.stderr.isatty(),
    )
    _play_recording(playback, keep_going=keep_going, output=output)


def _redrive(
    source: str, topic: str | None, namesrv: str, options: dict[str, Any], output: Format
) -> None:
    """Has the brokers send dead letters back, where there is no Spark.

    Raises:
        UsageError: an option is given that only Spark understands.
    """
    from pocketmq.cli.dead_letters.redriving import redrive_all

    group = source.removeprefix(DLQ_PREFIX)
    refuse(
        f"of Spark, which is not installed; pocketmq dlq redrive {group} selects and edits "
        f"without it",
        {name: value for name, value in options.items() if name not in ("--rate", "--dry-run")},
    )
    redrive_all(
        namesrv,
        group,
        topic,
        rate=options["--rate"],
        dry_run=options["--dry-run"],
        output=output,
    )


def _play_recording(playback: Playback, *, keep_going: bool, output: Format) -> None:
    """Plays a recording; prints the result and how to go on."""
    from pocketmq.cli.pipes.outflow import Outcome
    from pocketmq.cli.pipes.playback import STANDARD_INPUT

    source = playback.source
    if source != STANDARD_INPUT and not Path(source).exists():
        raise ConfigError(f"there is no recording {source}: `pocketmq record TOPIC` writes one")
    outcome = Outcome(
        "-" if source == STANDARD_INPUT else source, keep_going=keep_going, first=playback.first
    )
    seconds, is_whole = run(_play(playback, outcome))
    if output is Format.JSON:
        print_json(
            {
                "topic": playback.destination.topic,
                "messages": outcome.sent,
                "failed": outcome.failed,
                "seconds": round(seconds, 3),
                "next": outcome.next_number,
            }
        )
    going_on = f"go on with --from {outcome.next_number}"
    outcome.check(f"; {going_on}")
    note(
        f"{counted(outcome.sent, 'message')} replayed to {playback.destination.topic} in "
        f"{seconds:.1f} s"
    )
    if not is_whole:
        note(f"interrupted: {going_on}")
        raise typer.Exit(EXIT_INTERRUPTED)


async def _play(playback: Playback, outcome: Outcome) -> tuple[float, bool]:
    """Plays a recording; returns the seconds it took and whether it came to its end."""
    from pocketmq.cli.pipes.playback import play

    clock, stop = SystemClock(), stop_event()
    started = clock.monotonic()
    await play(playback, outcome, clock, stop)
    return clock.monotonic() - started, not stop.is_set()


def _speed(text: str) -> float | None:
    """Reads the factor of speed; None for no pauses.

    Raises:
        UsageError: the text is no speed.
    """
    if text == "max":
        return None
    try:
        speed = float(text.removesuffix("x"))
    except ValueError:
        speed = 0.0
    if not 0 < speed <= SPEED_MAX:
        raise UsageError(f"--speed is {text!r}: it must be max, or a number of times such as 10x")
    return speed
