"""The command's entry: sub-commands, and errors as one line with an exit code."""

from __future__ import annotations

import os
import sys
from typing import Any

import typer

from pocketmq.cli.administration import brokers, doctor, group_offsets, topics
from pocketmq.cli.jobs import jobs
from pocketmq.cli.messages import load, message_search, messages
from pocketmq.cli.output import EXIT_FAILED, EXIT_PIPE_CLOSED, EXIT_USAGE
from pocketmq.cli.pipes import produce, replay, tail
from pocketmq.cli.profiles import profiles
from pocketmq.cli.profiles.target import with_profiles
from pocketmq.cli.servers import single_servers, snapshots, store, up
from pocketmq.protocol.errors import PocketMQError, UsageError

app = typer.Typer(
    name="pocketmq",
    help="A RocketMQ-compatible message broker cluster.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(up.up)
app.command()(snapshots.snapshot)
app.command()(single_servers.namesrv)
brokers.app.callback(invoke_without_command=True)(single_servers.broker)
app.add_typer(brokers.app, name="broker")
app.command()(single_servers.health)
app.command()(doctor.doctor)
app.add_typer(brokers.cluster_app, name="cluster")
app.add_typer(topics.app, name="topic")
app.add_typer(group_offsets.app, name="group")
app.add_typer(message_search.app, name="message")
app.add_typer(snapshots.app, name="seed")
app.add_typer(store.app, name="store")
app.add_typer(profiles.app, name="profile")
app.command()(messages.send)
app.command()(messages.recall)
app.command()(messages.consume)
app.command()(produce.produce)
app.command()(tail.tail)
app.command()(tail.record)
app.command()(replay.replay)
app.command()(load.bench)
app.command()(jobs.ingest)
app.command()(jobs.export)
app.command()(jobs.archive)


def command() -> Any:
    """Returns Typer's command line with the options that all commands share."""
    return with_profiles(typer.main.get_command(app))


def run() -> None:
    """Runs the command line; every expected error ends in one clear line."""
    try:
        command()()
    except BrokenPipeError:
        # The reader of a pipe has seen enough: no error, and nothing may be flushed any more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(EXIT_PIPE_CLOSED)
    except UsageError as e:
        _fail(e, EXIT_USAGE)
    except (PocketMQError, OSError) as e:
        _fail(e, EXIT_FAILED)


def _fail(error: Exception, code: int) -> None:
    sys.stderr.write(f"pocketmq: {error}\n")
    sys.exit(code)


if __name__ == "__main__":
    run()
