"""Verifies a whole data directory, after every store test and by `pocketmq store check`."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from pocketmq.broker.store.disk.files import Files
from pocketmq.broker.store.log.checkpoint import Checkpoint
from pocketmq.broker.store.mending.metadata_check import (
    LEFT_AS_IT_IS,
    MetadataSurvey,
    survey_metadata,
)
from pocketmq.broker.store.mending.survey import OnProgress, SegmentSurvey, survey_queue
from pocketmq.broker.store.metadata.metadata import CLEAN_STATE
from pocketmq.runtime.text import counted

OPEN_FILES_MAX = 16

QueueKey = tuple[str, int]


class Finding(NamedTuple):
    """A fault of the store, and its remedy."""

    path: Path
    problem: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.path}: {self.problem}; {self.remedy}"


class CheckReport(NamedTuple):
    """The findings of a check, and how much it read.

    Attributes:
        queues, segments, records, size: how much; the size in bytes of records.
        findings: everything that is wrong.
        notes: what is worth knowing, but no damage.
    """

    queues: int
    segments: int
    records: int
    size: int
    findings: list[Finding]
    notes: list[str]

    @property
    def problems(self) -> list[str]:
        """The findings in words."""
        return [str(finding) for finding in self.findings]


class QueueExtent(NamedTuple):
    """The number of a queue's log, its oldest offset, and its end."""

    number: int
    min_offset: int
    end: Checkpoint


def log_size(directory: Path) -> int:
    """Adds up the sizes of all log files of a data directory, which a check reads."""
    return sum(path.stat().st_size for path in (directory / "queues").glob("*/*/*.log"))


def queue_directories(directory: Path) -> dict[QueueKey, Path]:
    """Returns the directories of all queues by topic and queue id, in order."""
    found = [
        ((path.parent.name, int(path.name)), path)
        for path in (directory / "queues").glob("*/*")
        if path.name.isdecimal() and path.is_dir()
    ]
    return dict(sorted(found))


def check_directory(directory: Path, on_progress: OnProgress = lambda _: None) -> CheckReport:
    """Reads every record and index entry of a store that no broker has open, and its metadata.

    Each record must be sound, carry the offset and position at which it stands, and have an index
    entry that says the same; segments must follow each other without a gap; the metadata must
    know the logs, and no more of them than there is.

    Args:
        directory: the data directory; nothing in it is changed.
        on_progress: see `survey.OnProgress`.
    """
    files = Files(OPEN_FILES_MAX, read_only=True)
    repair = f"run `pocketmq store repair {directory}`"
    findings: list[Finding] = []
    notes: list[str] = []
    extents: dict[QueueKey, QueueExtent | None] = {}
    segments = records = size = 0
    try:
        for key, path in queue_directories(directory).items():
            surveys = survey_queue(files, path, on_progress)
            files.close()
            segments += len(surveys)
            records += sum(survey.records for survey in surveys)
            size += sum(r.end_position - r.position for s in surveys for r in s.runs)
            findings += _check_queue(surveys, repair)
            notes += _notes_of_keys(surveys)
            notes += _notes_of_gaps(surveys)
            extents[key] = _extent(surveys)
    finally:
        files.close()
    metadata = survey_metadata(directory)
    findings += _check_metadata(directory, metadata, extents, repair)
    notes += _notes(metadata, extents, directory)
    return CheckReport(len(extents), segments, records, size, findings, notes)


def _extent(surveys: list[SegmentSurvey]) -> QueueExtent | None:
    known = [survey for survey in surveys if survey.segment is not None]
    if not known:
        return None
    first, last = known[0].segment, known[-1].segment
    assert first is not None
    assert last is not None
    end = Checkpoint(last.base_position, last.base_offset)
    if known[-1].runs:
        run = known[-1].runs[-1]
        end = Checkpoint(run.end_position, run.end_offset, run.timestamp)
    return QueueExtent(last.log_number, first.base_offset, end)


def _check_queue(surveys: list[SegmentSurvey], repair: str) -> list[Finding]:
    out: list[Finding] = []
    end: tuple[int, int] | None = None
    number: int | None = None
    for survey in surveys:
        if survey.header_error:
            remedy = survey.remedy or repair
            out.append(Finding(survey.log_path, survey.header_error, remedy))
        segment = survey.segment
        if segment is None:
            continue
        start = (segment.base_position, segment.base_offset)
        if end is not None and end != start:
            problem = f"begins at {start}, the segment before ends at {end}"
            out.append(Finding(survey.log_path, problem, repair))
        if number not in (None, segment.log_number):
            problem = f"belongs to queue log {segment.log_number}, not to {number}"
            out.append(Finding(survey.log_path, problem, repair))
        number = segment.log_number
        for position, count in survey.holes:
            problem = f"{count} bytes from position {position} on are no sound record"
            out.append(Finding(survey.log_path, problem, repair))
        if survey.index_error:
            out.append(Finding(segment.index_path, survey.index_error, repair))
        end = start
        if survey.runs:
            end = (survey.runs[-1].end_position, survey.runs[-1].end_offset)
    return out


def _check_metadata(
    directory: Path,
    metadata: MetadataSurvey,
    extents: dict[QueueKey, QueueExtent | None],
    repair: str,
) -> list[Finding]:
    path = directory / "meta.db"
    remedy = LEFT_AS_IT_IS if metadata.is_newer else repair
    out = [Finding(path, problem, remedy) for problem in metadata.problems]
    if out or not metadata.is_there:
        return out
    topics = metadata.topics()
    known = set()
    for number, topic, queue_id, position, offset, _ in metadata.rows["queue_logs"]:
        known.add((topic, queue_id))
        extent = extents.get((topic, queue_id))
        queue = directory / "queues" / topic / str(queue_id)
        if extent is None:
            if position and topic in topics:
                problem = f"it holds none of the records up to offset {offset}"
                out.append(Finding(queue, problem, f"restore its files, or {repair}"))
        elif extent.number != number:
            problem = f"it is queue log {extent.number}, meta.db says {number}"
            out.append(Finding(queue, problem, repair))
        elif extent.end.position < position:
            problem = f"it ends at position {extent.end.position}, and {position} was on the disk"
            out.append(Finding(queue, problem, f"restore its files, or {repair}"))
    if metadata.state(CLEAN_STATE) == "yes":
        held = {key for key, extent in extents.items() if extent is not None}
        for topic, queue_id in sorted(held - known):
            queue = directory / "queues" / topic / str(queue_id)
            out.append(Finding(queue, "meta.db does not know it", repair))
    return out


def _notes_of_keys(surveys: list[SegmentSurvey]) -> list[str]:
    """Lists damaged key files as notes: nothing is lost with them, and a read finds the damage."""
    return [
        f"{survey.log_path.with_suffix('.keys')}: {survey.keys_error}; it is made again from the "
        f"log when a search finds it like that"
        for survey in surveys
        if survey.keys_error
    ]


def _notes_of_gaps(surveys: list[SegmentSurvey]) -> list[str]:
    """Lists the gaps that earlier repairs left: consumers pass them over."""
    return [
        f"{survey.log_path}: {counted(len(survey.lost), 'message')} lost to damage, from offset "
        f"{survey.lost[0]} to {survey.lost[-1]}; consumers go on behind the gap"
        for survey in surveys
        if survey.lost
    ]


def _notes(
    metadata: MetadataSurvey, extents: dict[QueueKey, QueueExtent | None], directory: Path
) -> list[str]:
    out = []
    if not metadata.is_there and extents:
        out.append(
            f"{directory / 'meta.db'}: it is missing; the next start makes it again from the logs, "
            f"without the groups' offsets"
        )
    topics = metadata.topics()
    for (topic, queue_id), extent in extents.items():
        config = topics.get(topic)
        if config is None or extent is None or queue_id < config.read_queue_nums:
            continue
        if count := extent.end.offset - extent.min_offset:
            out.append(
                f"queue {queue_id} of {topic} holds {count} messages that nobody can read: the "
                f"topic has {config.read_queue_nums} read queues"
            )
    for group, topic, queue_id, offset in metadata.rows["consumer_offsets"]:
        extent = extents.get((topic, queue_id))
        if extent is not None and offset > extent.end.offset:
            out.append(
                f"group {group} stands at offset {offset} of queue {queue_id} of {topic}, which "
                f"ends at {extent.end.offset}"
            )
    return out
