"""What the options of all jobs have in common."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from pocketmq.spark.errors import OptionError
from pocketmq.spark.jobs.landing.landing import SLICE_ROWS


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
class LandingOptions(JobOptions):
    """How messages become files.

    Attributes:
        timezone: whose days the directories are of.
        reader_options: further options of the data source.
        slice_rows: messages that a run which is cut off has to write again, at the most.
    """

    timezone: str = "UTC"
    reader_options: Mapping[str, str] = field(default_factory=dict)
    slice_rows: int = SLICE_ROWS


def refuse_own(given: Mapping[str, str], own: Iterable[str]) -> None:
    """Makes sure that further options of the data source are none that the job sets itself.

    Args:
        given: the further options.
        own: the job's, in small letters.

    Raises:
        OptionError: one is.
    """
    names = set(own)
    for name in given:
        if name.lower() in names:
            raise OptionError(f"option {name!r} is set by the job: use its own options")
