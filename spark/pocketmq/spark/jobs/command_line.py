"""The command line of the files of jobs, for spark-submit."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from pocketmq.protocol.errors import PocketMQError, UsageError
from pocketmq.spark.jobs.options import LANDING_SLICE_ROWS
from pocketmq.spark.jobs.reports import Report

EXIT_FAILED, EXIT_USAGE, EXIT_INTERRUPTED = 1, 2, 130
PAIRS = ("columns", "reader_options", "writer_options")
"""Options of the form name=value, gathered into one mapping each."""


class JobParser(ArgumentParser):
    """The command line of a job's file.

    Args:
        description: what the job does.
    """

    def __init__(self, description: str) -> None:
        super().__init__(description=description)
        self.add_argument("--namesrv", help="host:port;host:port; default NAMESRV_ADDR")
        self.add_argument("--cores", type=int, help="of a local session")
        self.add_argument("--dry-run", action="store_true", help="only say what would be done")
        self.add_argument("-o", "--output", choices=("line", "json"), default="line")

    def add_instant(self, option: str, help_text: str) -> None:
        """Adds an option that takes a time and gives milliseconds, named like ``since_ms``."""
        name = option.removeprefix("--").replace("-", "_")
        self.add_argument(
            option,
            dest=f"{name}_ms",
            type=instant_ms,
            help=f"{help_text}; ISO 8601, local without Z or offset",
        )

    def add_pairs(self, option: str, dest: str, help_text: str) -> None:
        """Adds an option of the form name=value that may be given several times."""
        self.add_argument(
            option, dest=dest, action="append", default=[], type=_pair, help=help_text
        )

    def add_schema(self, of_what: str) -> None:
        """Adds the options that name a schema."""
        self.add_argument("--schema", help=f"{of_what}: .avsc, .proto or .proto:MESSAGE")
        self.add_argument("--subject", help="of the schema registry")
        self.add_argument("--schema-registry", help="address; default POCKETMQ_SCHEMA_REGISTRY")

    def add_landing(self) -> None:
        """Adds the options of the jobs that write messages to files."""
        self.add_argument("--timezone", default="UTC", help="whose days; default UTC")
        self.add_argument("--slice-rows", type=int, default=LANDING_SLICE_ROWS)
        self.add_further("--read", "reader_options", "read")

    def add_further(self, option: str, dest: str, what: str) -> None:
        """Adds an option for further options of the data source, or of Spark's reader."""
        self.add_pairs(option, dest, f"name=value, an option of the {what}; repeatable")

    def run(self, arguments: Sequence[str] | None, job: Callable[[dict[str, Any]], Report]) -> int:
        """Runs a job with the options of a command line, and prints its report.

        Args:
            arguments: the words; by default the process's own.
            job: is given the options by name.

        Returns:
            The exit code.
        """
        given = vars(self.parse_args(arguments))
        output = given.pop("output")
        given |= {name: dict(given[name]) for name in PAIRS if name in given}
        try:
            report = job({**given, "progress": sys.stderr.isatty()})
        except PocketMQError as e:
            sys.stderr.write(f"error: {e}\n")
            return EXIT_USAGE if isinstance(e, UsageError) else EXIT_FAILED
        except KeyboardInterrupt:
            sys.stderr.write("interrupted\n")
            return EXIT_INTERRUPTED
        text = json.dumps(report.document()) if output == "json" else str(report)
        sys.stdout.write(f"{text}\n")
        return report.exit_code


def instant_ms(text: str) -> int:
    """Reads a date and time in the ISO form, local unless it says otherwise, as milliseconds.

    Raises:
        ValueError: the text is no such time.
    """
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def _pair(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator or not name:
        raise ValueError(f"{text!r} is not of the form name=value")
    return name, value
