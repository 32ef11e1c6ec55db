"""The command's entry: sub-commands, and errors as one line with an exit code."""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any

import typer

from pocketmq.cli.lazy_group import Entry, LazyGroup
from pocketmq.cli.output import EXIT_FAILED, EXIT_PIPE_CLOSED, EXIT_USAGE
from pocketmq.cli.profiles.target import profile_options
from pocketmq.protocol.errors import NoPermissionError, PocketMQError, UsageError

COMMANDS = {
    "up": Entry(
        "servers.up:up",
        "Start a whole cluster in the foreground; Ctrl-C or TERM stops it cleanly.",
        {"--console": "8280"},
    ),
    "snapshot": Entry(
        "servers.snapshots:snapshot",
        "Write a cluster's topics, groups and offsets as a seed file for `pocketmq up --seed`.",
    ),
    "namesrv": Entry("servers.single_servers:namesrv", "Start one name server in the foreground."),
    "proxy": Entry(
        "servers.single_servers:proxy",
        "Start one proxy in the foreground: RocketMQ 5's gRPC in front of a cluster.",
    ),
    "console": Entry(
        "servers.consoles.console:console",
        "Show a cluster, this project's or Apache's, in a browser, and as a JSON API.",
    ),
    "health": Entry(
        "servers.single_servers:health",
        "Ask whether a server answers: exit code 0 if it does, 1 if not.",
    ),
    "doctor": Entry(
        "administration.doctor:doctor", "Say why it does not work, seen from here, and what helps."
    ),
    "explain": Entry(
        "messages.explain:explain",
        "Say why a message is not consumed by a group, and what would change it.",
    ),
    "send": Entry(
        "messages.messages:send",
        "Send one message; `pocketmq produce` sends each line of standard input.",
    ),
    "recall": Entry(
        "messages.messages:recall",
        "Call a message back that was sent with --delay or --deliver-at, before it is delivered.",
    ),
    "consume": Entry(
        "messages.messages:consume",
        "Print messages as they come, as a group that commits what was printed.",
    ),
    "produce": Entry(
        "pipes.produce:produce",
        "Send the lines of standard input, each as a message; empty lines are left out.",
    ),
    "tail": Entry(
        "pipes.tail:tail",
        "Write a topic's messages to standard output as they come; nothing is consumed.",
    ),
    "record": Entry(
        "pipes.tail:record",
        "Record a topic's messages with their times: `pocketmq record Orders > orders.jsonl`.",
    ),
    "replay": Entry(
        "pipes.replay:replay",
        "Send messages again: a recording, a topic (dead letters go back), or files of an export.",
    ),
    "bench": Entry(
        "messages.load:bench", "Send messages, then pull them all, and print rates and latencies."
    ),
    "ingest": Entry("jobs.jobs:ingest", "Load a file or table into a topic with a Spark job."),
    "export": Entry(
        "jobs.jobs:export",
        "Write the messages of a topic to files by day with a Spark job; what is there is left.",
    ),
    "archive": Entry(
        "jobs.jobs:archive",
        "Write what retention is about to delete to Parquet by day; to be run regularly.",
    ),
    "broker": Entry(
        "servers.broker_commands:app", "Start a broker; look at one that runs, and set it up."
    ),
    "cluster": Entry("administration.brokers:cluster_app", "See clusters and their brokers."),
    "topic": Entry("administration.topics:app", "Create, list, look at, change and delete topics."),
    "group": Entry(
        "administration.group_offsets:app",
        "Create, list, look at, change, reset and delete consumer groups.",
    ),
    "dlq": Entry(
        "dead_letters.tasks:app", "Look at dead letters, send them again, or discard them."
    ),
    "message": Entry("messages.message_search:app", "Look at, find and trace stored messages."),
    "seed": Entry("servers.snapshots:app", "Check seed files, and apply them to a cluster."),
    "user": Entry("access.users:app", "Create, list, look at, change, delete and copy users."),
    "acl": Entry(
        "access.policies:app",
        "Say who may do what: create, list, look at, delete, copy and explain policies.",
    ),
    "store": Entry("servers.store:app", "Look after a broker's data directory; back it up."),
    "profile": Entry(
        "profiles.profiles:app",
        "Give clusters names: --profile NAME stands for their name servers.",
    ),
}
"""All commands; the lines are those of their own helps."""


class _Commands(LazyGroup):
    entries = COMMANDS


app = typer.Typer(
    name="pocketmq",
    cls=_Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(is_asked: bool) -> None:
    if is_asked:
        from pocketmq.runtime import VERSION

        typer.echo(f"pocketmq {VERSION}")
        raise typer.Exit


@app.callback()
def _top(
    _version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    """A RocketMQ-compatible message broker cluster."""


def command(*, is_whole: bool = True) -> Any:
    """Returns Typer's command line with the options that all commands share.

    Args:
        is_whole: load all commands, so that they can be looked at.
    """
    group = typer.main.get_command(app)
    assert isinstance(group, LazyGroup)
    group.params += profile_options()
    if is_whole:
        group.load_all()
    return group


def run() -> None:
    """Runs the command line; every expected error ends in one clear line."""
    try:
        command(is_whole=False)()
    except BrokenPipeError:
        # The reader of a pipe has seen enough: no error, and nothing may be flushed any more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(EXIT_PIPE_CLOSED)
    except UsageError as e:
        _fail(e, EXIT_USAGE)
    except (PocketMQError, OSError) as e:
        _fail(e, EXIT_FAILED)


def _fail(error: Exception, code: int) -> None:
    sys.stderr.write(f"pocketmq: {error}{_remedy(error)}\n")
    sys.exit(code)


def _remedy(error: Exception) -> str:
    """What helps whom a server did not know; RocketMQ's words for it say only what is wrong."""
    if not isinstance(error, NoPermissionError):
        return ""
    remark = error.remark or ""
    if remark == "username cannot be null.":
        return (
            " Say who you are: --profile NAME (made by pocketmq profile add NAME --access-key "
            "USER), or POCKETMQ_CREDENTIALS with the file of the credentials"
        )
    if "has no permission to access" in remark:
        return " What the user may do, and why not: pocketmq acl explain USER ACTION RESOURCE"
    return ""


if __name__ == "__main__":
    run()
