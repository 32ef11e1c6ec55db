"""Options that jobs share, and the checks of options that jobs share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from pocketmq.spark.errors import OptionError

LANDING_SLICE_ROWS = 10_000_000
"""Messages of a slice that becomes files: a run that is cut off has to write them again."""


@dataclass(frozen=True, kw_only=True)
class JobOptions:
    """Where the cluster is, and how the job runs.

    Attributes:
        namesrv: the name servers, ``host:port;host:port``; by default NAMESRV_ADDR.
        dry_run: only say what would be done.
        cores: of a local session; all by default.
        progress: show a bar on standard error.
    """

    namesrv: str | None = None
    dry_run: bool = False
    cores: int | None = None
    progress: bool = True


@dataclass(frozen=True, kw_only=True)
class SchemaOptions:
    """By which schema bodies are written or read, if by one.

    Attributes:
        schema: a file: ``order.avsc``, ``shop.proto`` or ``shop.proto:shop.Order``.
        subject: of the schema registry.
        schema_registry: its address; by default POCKETMQ_SCHEMA_REGISTRY.
    """

    schema: str | None = None
    subject: str | None = None
    schema_registry: str | None = None

    @property
    def has_schema(self) -> bool:
        """Whether bodies are written or read by a schema."""
        return self.schema is not None or self.subject is not None

    def check_schema(self) -> None:
        """Refuses a registry of which nothing is wanted.

        Raises:
            OptionError: neither a schema nor a subject is given.
        """
        if self.schema_registry is not None and not self.has_schema:
            raise OptionError(
                "a schema registry is given, and neither a schema nor a subject: say by which "
                "schema (--schema FILE or --subject NAME)"
            )


@dataclass(frozen=True, kw_only=True)
class LandingOptions(JobOptions):
    """How messages become files.

    Attributes:
        timezone: whose days the directories are of.
        reader_options: further options of the data source.
        slice_rows: messages that a run which is cut off has to write again, at the most.
    """

    timezone: str = "UTC"
    reader_options: Mapping[str, str] = field(default_factory=dict)
    slice_rows: int = LANDING_SLICE_ROWS


@dataclass(frozen=True)
class ExportOptions(LandingOptions, SchemaOptions):
    """Which messages are written, and where.

    Attributes:
        topic: one topic, or several separated by commas.
        to_dir: a directory that does not exist yet, or one of an earlier export of the same
            topics, to which new messages are added.
        format: parquet, json, csv or orc.
        starting_offsets, ending_offsets: see the options of a read.
        since_ms, until_ms: messages stored at this time or later, and before that one, in
            milliseconds since the epoch.
        value_as_text: write values as UTF-8 text; always so in csv and json.
        overwrite: replace what is in the directory.
        keep_undecoded: with a schema, write bodies that it does not fit into a column rawValue.
    """

    topic: str
    to_dir: str
    format: str = "parquet"
    starting_offsets: str = "earliest"
    ending_offsets: str = "latest"
    since_ms: int | None = None
    until_ms: int | None = None
    value_as_text: bool = False
    overwrite: bool = False
    keep_undecoded: bool = False


def refuse_own(given: Mapping[str, str], own: Iterable[str]) -> None:
    """Checks that further options of the data source are none that the job sets itself.

    Args:
        given: the further options.
        own: those of the job, in small letters.

    Raises:
        OptionError: the job sets one of them.
    """
    names = set(own)
    for name in given:
        if name.lower() in names:
            raise OptionError(f"option {name!r} is set by the job: use its own options")


def check_slices_and_times(slice_rows: int, since_ms: int | None, until_ms: int | None) -> None:
    """Checks the size of slices, and that a time range ends after it begins.

    Raises:
        OptionError: a slice would have no message, or the range ends before it begins.
    """
    if slice_rows < 1:
        raise OptionError(f"a slice has at least 1 message, not {slice_rows}")
    if since_ms is not None and until_ms is not None and since_ms >= until_ms:
        raise OptionError("the time range ends before it begins: swap --since and --until")
