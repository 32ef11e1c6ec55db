"""The ledger of a job: what it has done so far, so that the next run goes on from there.

Each state is a file of its own that is made as a whole, with a number one higher than the last:
a run that finds its number taken knows that another one is at work.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from pocketmq.spark.errors import JobError, OptionError
from pocketmq.spark.jobs.files.directory import Directory
from pocketmq.spark.jobs.spans import Spans, Table
from pocketmq.spark.reading.offsets import Range

VERSION = 1
STATES_KEPT = 3
_PREFIX, _SUFFIX = "state-", ".json"

FOLDER = "_pocketmq"
"""In the directory of a job, hidden from Spark's readers: the ledger, and unfinished slices."""

SCHEMA_SETTING = "schema"
"""The setting of an export whose bodies were decoded: by which schema."""


class OpenSlice(msgspec.Struct, rename="camel", kw_only=True):
    """A slice that was begun and not finished.

    Attributes:
        number: of the slice, from 1 on.
        ranges: its messages.
        rows: what was written of it; None while it is being written.
        target_ends: where the topics that it is sent to ended before.
        files: that it loads, with their states.
        attempts: how often it was begun, if that is counted.
    """

    number: int
    ranges: Table
    rows: int | None = None
    target_ends: Table = {}
    files: dict[str, str] = {}
    attempts: int = 0


class Ledger(msgspec.Struct, rename="camel", kw_only=True):
    """The state of a job.

    Attributes:
        version: of this form.
        job: which job writes it.
        settings: what must be the same in each run.
        id: of this work, the same in all its runs.
        slices: how many are finished.
        rows: messages that they wrote.
        since: the first offset that is wanted of each queue, as a range up to itself.
        done: what was read and written.
        lost: what was wanted and was not there any more.
        unreported: the part of it that is in no report yet, as no run has ended since.
        files: what was loaded, with the state of each.
        open_slice: what was begun.
    """

    version: int = VERSION
    job: str
    settings: dict[str, str]
    id: str = ""
    slices: int = 0
    rows: int = 0
    since: dict[str, dict[str, dict[int, int]]] = {}
    done: Table = {}
    lost: Table = {}
    unreported: Table = msgspec.field(name="untold", default={})
    files: dict[str, str] = {}
    open_slice: OpenSlice | None = None

    def book_lost(self, ranges: Iterable[Range]) -> None:
        """Books ranges as lost: they are not there any more."""
        lost = list(ranges)
        self.lost = Spans([*Spans.of(self.lost), *lost]).table()
        self.unreported = Spans([*Spans.of(self.unreported), *lost]).table()

    def finish_slice(self) -> None:
        """Books the open slice as done."""
        part = self.open_slice
        assert part is not None
        done = Spans.of(self.done)
        for r in Spans.of(part.ranges):
            done.add(r)
        self.done = done.table()
        self.files |= part.files
        self.slices = part.number
        self.rows += part.rows or 0
        self.open_slice = None


class LedgerFile:
    """Keeps the ledger of a job in its directory.

    Args:
        directory: of the job.
    """

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self._number = 0

    def load(self, job: str, settings: dict[str, str]) -> Ledger | None:
        """Reads the last state of the ledger; None if there is none.

        Raises:
            OptionError: it is that of another job, or of other settings.
            JobError: it cannot be read.
        """
        ledger = self._last()
        if ledger is None:
            return None
        if ledger.version != VERSION:
            raise OptionError(
                f"{self._directory.uri(FOLDER)} was written by another version of this job "
                f"(form {ledger.version}, this one knows {VERSION})"
            )
        if ledger.job != job:
            raise OptionError(f"{self._directory} belongs to the job {ledger.job}, not to {job}")
        self._compare(ledger.settings, settings)
        return ledger

    def settings(self) -> dict[str, str]:
        """Returns the settings of whichever job the ledger is of; none without a ledger.

        Raises:
            JobError: it cannot be read.
        """
        ledger = self._last()
        return {} if ledger is None else ledger.settings

    def _last(self) -> Ledger | None:
        numbers = self._numbers()
        if not numbers:
            return None
        self._number = numbers[-1]
        name = self._name(self._number)
        try:
            return msgspec.json.decode(self._directory.read(name), type=Ledger)
        except msgspec.DecodeError as e:
            raise JobError(f"reading {self._directory.uri(name)}", str(e)) from e

    def save(self, ledger: Ledger) -> None:
        """Writes a new state of the ledger.

        Raises:
            JobError: another run has kept one meanwhile, or it cannot be written.
        """
        self._number += 1
        data = msgspec.json.format(msgspec.json.encode(ledger), indent=1)
        if not self._directory.create(self._name(self._number), data):
            raise JobError(
                f"{ledger.job} into {self._directory}",
                f"another run is at work there ({self._name(self._number)} is new): let one "
                f"finish, then start again",
            )
        for number in self._numbers()[:-STATES_KEPT]:
            self._directory.delete(self._name(number))

    def _numbers(self) -> list[int]:
        names = self._directory.names(FOLDER)
        middle = (n[len(_PREFIX) : -len(_SUFFIX)] for n in names if n.startswith(_PREFIX))
        return sorted(int(text) for text in middle if text.isdigit())

    def _name(self, number: int) -> str:
        return f"{FOLDER}/{_PREFIX}{number:08}{_SUFFIX}"

    def _compare(self, kept: dict[str, Any], given: dict[str, Any]) -> None:
        for name in sorted({*kept, *given}):
            if kept.get(name) != given.get(name):
                raise OptionError(
                    f"{self._directory} was begun with {name} {kept.get(name)!r}, now it is "
                    f"{given.get(name)!r}: one directory holds one kind of rows; take another "
                    f"one, or replace it (--overwrite)"
                )
