"""Divides files into portions to be loaded, and books in a ledger which are loaded.

A portion is one marked write, whose writer has the same id in each attempt: when a run was cut off,
the portion is loaded again, and readers with dropRepeats take what was committed first.

A file is booked as loaded only if rows of it were seen on their way, or if it has none, which is
looked up by reading it alone.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from pocketmq.spark.errors import JobError, OptionError
from pocketmq.spark.jobs.failures import job
from pocketmq.spark.jobs.files.directory import Directory
from pocketmq.spark.jobs.files.files import Source
from pocketmq.spark.jobs.files.ledger import Ledger, LedgerFile, OpenSlice

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Observation, SparkSession

JOB = "ingest"
PORTION_BYTES = 1024 * 1024 * 1024
"""Files are loaded together up to this size; a larger one makes a portion of its own."""

LOCAL_ROOT = "^file:/+"
"""Spark lists a local file as file:///x, and its rows name it file:/x."""


class InputFile(NamedTuple):
    """A file as it is now: its URI, its size, and a text that changes when it does."""

    uri: str
    size: int
    state: str


class Portion(NamedTuple):
    """Files of one write.

    Attributes:
        rows: theirs.
        writer_id: the same whenever these files are loaded by this checkpoint.
        seen: the paths of the files whose rows have passed, once the rows are written.
    """

    rows: DataFrame
    writer_id: str
    seen: Observation


class FilePortions:
    """The files of a source that are not loaded yet, by a checkpoint.

    Args:
        spark: the session.
        checkpoint: a directory that says what was loaded.
        source: all files.
        settings: what must be the same in each run.
        portion_bytes: of files that are loaded together.
    """

    def __init__(
        self,
        spark: SparkSession,
        checkpoint: str,
        source: Source,
        settings: dict[str, str],
        portion_bytes: int = PORTION_BYTES,
    ) -> None:
        self._spark, self._source, self._portion_bytes = spark, source, portion_bytes
        self._file = LedgerFile(Directory(spark, checkpoint))
        kept = self._file.load(JOB, settings)
        self._ledger = kept or Ledger(job=JOB, settings=settings, id=secrets.token_hex(8))
        with job("listing the files"):
            files = sorted(_state(spark, uri) for uri in source.rows.inputFiles())
        self._check_unchanged(files)
        self._new = [f for f in files if f.uri not in self._ledger.files]
        self.files_done = len(files) - len(self._new)
        self.files_loaded = 0
        self.files_without_rows: list[str] = []

    def new_rows(self) -> DataFrame:
        """Returns the rows of all files that are not loaded yet."""
        return self._of(self._new)

    def __iter__(self) -> Iterator[Portion]:
        """Yields the portions; each is booked as loaded when the next one is asked for.

        Raises:
            JobError: a file has rows, but none of them were among the rows of its portion.
        """
        from pyspark.sql import Observation
        from pyspark.sql import functions as sf

        for files in self._portions():
            number = self._ledger.slices + 1
            self._ledger.open_slice = OpenSlice(
                number=number, ranges={}, files={f.uri: f.state for f in files}
            )
            self._file.save(self._ledger)
            seen = Observation()
            rows = self._of(files).observe(
                seen, sf.collect_set("_metadata.file_path").alias("paths")
            )
            yield Portion(rows, f"{self._ledger.id}-{number}", seen)
            missed = self._missed(files, {_plain(path) for path in seen.get["paths"]})
            # The write is committed as it is, so its writer cannot write what was missed.
            loaded = {f.uri: f.state for f in files if f not in missed}
            self._ledger.open_slice.files = loaded
            self._ledger.finish_slice()
            self._file.save(self._ledger)
            self.files_loaded += len(loaded)
            if missed:
                raise JobError(
                    f"loading {missed[0].uri}",
                    "it has rows, but Spark gave none of them under this name; it is not booked "
                    "as loaded. Load it by itself, without a checkpoint",
                )

    def _portions(self) -> list[list[InputFile]]:
        """Divides new files into portions; one that was begun comes first, with its old writer."""
        part = self._ledger.open_slice
        begun = {} if part is None else part.files
        portions = [[f for f in self._new if f.uri in begun]] if begun else []
        size: int | None = None
        for file in self._new:
            if file.uri in begun:
                continue
            if size is None or size + file.size > self._portion_bytes:
                portions.append([])
                size = 0
            portions[-1].append(file)
            size += file.size
        return [portion for portion in portions if portion]

    def _of(self, files: Sequence[InputFile]) -> DataFrame:
        from pyspark.sql import functions as sf

        path = sf.regexp_replace("_metadata.file_path", LOCAL_ROOT, "file:/")
        return self._source.rows.where(path.isin([_plain(f.uri) for f in files]))

    def _missed(self, files: Sequence[InputFile], seen: set[str]) -> list[InputFile]:
        """Finds files that have rows of which none passed; notes files without rows."""
        missed = []
        for file in files:
            if _plain(file.uri) in seen:
                continue
            with job(f"reading {file.uri}"):
                has_rows = self._source.has_rows(_path(self._spark, file.uri).toString())
            if has_rows:
                missed.append(file)
            else:
                self.files_without_rows.append(file.uri)
        return missed

    def _check_unchanged(self, files: Sequence[InputFile]) -> None:
        part = self._ledger.open_slice
        known = {**self._ledger.files, **({} if part is None else part.files)}
        for file in files:
            if known.get(file.uri, file.state) != file.state:
                raise OptionError(
                    f"{file.uri} has changed since it was loaded or begun: its rows would be sent "
                    f"twice. Take another checkpoint to load all again"
                )
        missing = ({} if part is None else part.files).keys() - {file.uri for file in files}
        if missing:
            raise OptionError(
                f"{min(missing)} was begun and is gone: bring it back, or take another checkpoint"
            )


def _plain(uri: str) -> str:
    return re.sub(LOCAL_ROOT, "file:/", uri)


def _path(spark: SparkSession, uri: str) -> Any:
    jvm: Any = spark._jvm
    return jvm.org.apache.hadoop.fs.Path(jvm.java.net.URI(uri))


def _state(spark: SparkSession, uri: str) -> InputFile:
    path = _path(spark, uri)
    status = path.getFileSystem(spark._jsc.hadoopConfiguration()).getFileStatus(path)
    size = int(status.getLen())
    return InputFile(uri, size, f"{size} bytes of {status.getModificationTime()}")
