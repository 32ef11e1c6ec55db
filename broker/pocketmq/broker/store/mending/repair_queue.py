"""Plans the changes to one queue's files after which they are a sound log again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

from pocketmq.broker.store.disk.files import Files
from pocketmq.broker.store.log.checkpoint import Checkpoint
from pocketmq.broker.store.log.index_recovery import remake_index
from pocketmq.broker.store.log.lost_records import lost_records
from pocketmq.broker.store.log.segment import (
    HEADER_SIZE,
    INDEX_MAGIC,
    LOG_MAGIC,
    Segment,
    segment_stem,
)
from pocketmq.broker.store.log.tags import WAITING_TOPICS
from pocketmq.broker.store.mending.aside import Aside, copy_bytes
from pocketmq.broker.store.mending.survey import SegmentSurvey, SoundRange
from pocketmq.protocol.names.names import OP_HALF_TOPIC

_WITHOUT_GAPS = frozenset({*(name.decode() for name in WAITING_TOPICS), OP_HALF_TOPIC})
"""The broker's own topics, of whose records each means something to the broker."""


class Step(NamedTuple):
    """One step of a repair: the file, a description, and the function that does it."""

    path: Path
    text: str
    apply: Callable[[], object]

    def __str__(self) -> str:
        return f"{self.path}: {self.text}"


class QueueRepairPlan(NamedTuple):
    """The steps that mend a queue's files, and the log that is left.

    Attributes:
        steps: in order; empty if nothing is wrong.
        refusal: why nothing can be done.
        number: of the log that is left; None if there is none.
        min_offset: the oldest offset that is left.
        end: where it ends then.
        has_gaps: whether it holds records in the place of lost ones.
    """

    steps: list[Step]
    refusal: str = ""
    number: int | None = None
    min_offset: int = 0
    end: Checkpoint = Checkpoint()
    has_gaps: bool = False


class _Piece(NamedTuple):
    """Sound records of one segment that stay; none at all for an empty segment."""

    survey: SegmentSurvey
    segment: Segment
    run: SoundRange


class QueueRepair:
    """Plans the repair of one queue.

    Damaged records get others in their place that stand for lost ones: consumers pass them over,
    as the gap in the offsets that they are. Where nobody can tell how many were lost, as with a
    missing file, one stretch of the records around stays in service: the one that the last
    checkpoint reached into, else the newest, so that offsets go on and are not given out twice. All
    else is moved aside, where it can be looked at.

    Args:
        files: the disk.
        aside: where things are moved.
        directory: of the queue.
        number: of its log as the metadata has it; None if that does not know it.
        checkpoint: the last one; None if it was lost.
    """

    def __init__(
        self,
        files: Files,
        aside: Aside,
        directory: Path,
        number: int | None,
        checkpoint: Checkpoint | None,
    ) -> None:
        self._files, self._aside, self._directory = files, aside, directory
        self._number, self._checkpoint = number, checkpoint
        self._steps: list[Step] = []
        self._fills: dict[Path, list[tuple[str, Callable[[], object]]]] = {}

    def plan(self, surveys: list[SegmentSurvey]) -> QueueRepairPlan:
        """Returns the steps, going by what a survey found in the files."""
        for survey in surveys:
            if survey.remedy:
                text = f"{survey.log_path}: {survey.header_error}; {survey.remedy}"
                return QueueRepairPlan([], text)
        number = self._number_of(surveys)
        usable = []
        for survey in surveys:
            if survey.segment is None:
                self._move(survey.log_path, survey.header_error)
            elif survey.segment.log_number != number:
                self._move(survey.log_path, f"it is of queue log {survey.segment.log_number}")
            else:
                usable.append(survey)
        self._move_strays()
        self._fill_holes(usable)
        kept = self._choose([_pieces(survey) for survey in usable])
        staying = {id(piece.survey) for piece in kept}
        for survey in usable:
            if id(survey) not in staying:
                self._move(survey.log_path, "its records cannot be joined to those that stay")
        if not kept:
            return self._empty(number)
        for index, piece in enumerate(kept):
            self._mend(piece, is_first=not index)
        last = kept[-1].run
        end = Checkpoint(last.end_position, last.end_offset, last.timestamp)
        has_gaps = bool(self._fills) or any(survey.lost for survey in surveys)
        return QueueRepairPlan(self._steps, "", number, kept[0].run.offset, end, has_gaps)

    def _number_of(self, surveys: list[SegmentSurvey]) -> int | None:
        numbers = Counter(s.segment.log_number for s in surveys if s.segment is not None)
        if self._number in numbers or not numbers:
            return self._number
        return numbers.most_common(1)[0][0]

    def _fill_holes(self, surveys: list[SegmentSurvey]) -> None:
        """Plans records in the place of damaged ones wherever it is known how many there were."""
        if self._directory.parent.name in _WITHOUT_GAPS:
            return
        for survey, follower in zip_longest(surveys, surveys[1:]):
            segment = survey.segment
            assert segment is not None
            end = None
            if follower is not None and follower.segment is not None:
                end = follower.segment.base_position, follower.segment.base_offset
            elif follower is None and self._checkpoint is not None:
                end = self._checkpoint[:2]
            self._fill_segment(survey, segment, end)

    def _fill_segment(
        self, survey: SegmentSurvey, segment: Segment, end: tuple[int, int] | None
    ) -> None:
        """Fills the holes of a segment that ends at a (position, offset), if that is known."""
        here = SoundRange(
            segment.base_position, segment.base_offset, segment.base_position, segment.base_offset,
            segment.created_ms,
        )  # fmt: skip
        runs = [here]
        for run in survey.runs:
            runs[-1] = self._joined(segment, runs[-1], run[:2], run.timestamp) or runs[-1]
            if runs[-1][2:4] == run[:2]:
                runs[-1] = runs[-1]._replace(
                    end_position=run.end_position, end_offset=run.end_offset,
                    timestamp=run.timestamp,
                )  # fmt: skip
            else:
                runs.append(run)
        has_rest = segment.base_position + survey.size > runs[-1].end_position
        if end is not None and has_rest:
            timestamp = runs[-1].timestamp
            runs[-1] = self._joined(segment, runs[-1], end, timestamp) or runs[-1]
        if runs[0].end_offset == runs[0].offset:
            del runs[0]
        if segment.log_path in self._fills:
            survey.size = max(survey.size, runs[-1].end_position - segment.base_position)
        survey.runs = runs

    def _joined(
        self, segment: Segment, before: SoundRange, end: tuple[int, int], timestamp: int
    ) -> SoundRange | None:
        """Plans what takes the place of the records between sound ones and a point behind them."""
        start = before[2:4]
        if end[0] <= start[0]:
            return None
        topic, queue_id = self._directory.parent.name, int(self._directory.name)
        stored_ms = before.timestamp or timestamp
        records = lost_records(topic.encode(), queue_id, segment.log_number, start, end, stored_ms)
        if records is None:
            return None
        last = end[1] - 1
        lost = f"offset {last}" if last == start[1] else f"offsets {start[1]} to {last}"
        text = f"leave a gap at {lost}, of which the {end[0] - start[0]} bytes are kept aside"
        fill = partial(self._fill, segment, start[0], records)
        self._fills.setdefault(segment.log_path, []).append((text, fill))
        return before._replace(end_position=end[0], end_offset=end[1])

    def _choose(self, pieces: list[list[_Piece]]) -> list[_Piece]:
        """Chooses the stretch of records that stays in service."""
        stretches: list[list[_Piece]] = []
        for piece in (piece for of_segment in pieces for piece in of_segment):
            before = stretches[-1][-1].run if stretches else None
            if before is not None and before[2:4] == piece.run[:2]:
                stretches[-1].append(piece)
            else:
                stretches.append([piece])
        full = [s for s in stretches if s[-1].run.end_position > s[0].run.position]
        if self._checkpoint is not None:
            position = self._checkpoint.position
            for stretch in full:
                if stretch[0].run.position <= position <= stretch[-1].run.end_position:
                    return stretch
        return (full or stretches or [[]])[-1]

    def _mend(self, piece: _Piece, *, is_first: bool) -> None:
        survey, segment, run = piece
        is_changed = False
        if run.position > segment.base_position:
            assert is_first, "only the first segment of a stretch begins behind damage"
            self._begin_anew(segment, run)
            return
        if survey.header_error:
            text = f"write its header anew: {survey.header_error}"
            self._do(segment.log_path, text, partial(self._write_header, segment))
            is_changed = True
        for text, fill in self._fills.get(segment.log_path, ()):
            self._do(segment.log_path, text, fill)
            is_changed = True
        rest = segment.base_position + survey.size - run.end_position
        if rest:
            text = f"cut off {rest} bytes from position {run.end_position} on, which are kept aside"
            self._do(segment.log_path, text, partial(self._cut, segment, run))
            is_changed = True
        if survey.index_error or is_changed:
            reason = survey.index_error or "its log has changed"
            text = f"make the index again from the log: {reason}"
            self._do(segment.index_path, text, partial(self._make_index, segment))
        if survey.keys_error or (is_changed and segment.keys_path.exists()):
            reason = survey.keys_error or "its log has changed"
            self._move_file(segment.keys_path, f"{reason}; the broker makes it again")

    def _begin_anew(self, segment: Segment, run: SoundRange) -> None:
        fresh = segment._replace(
            stem=segment_stem(self._directory, run.position),
            base_position=run.position,
            base_offset=run.offset,
        )
        text = (
            f"move it aside, and begin the log with the sound records behind the damage, from "
            f"offset {run.offset} on, in {fresh.log_path.name}"
        )
        self._do(segment.log_path, text, partial(self._split, segment, fresh, run))

    def _empty(self, number: int | None) -> QueueRepairPlan:
        """Plans an empty log that goes on where the metadata says that the queue ended."""
        checkpoint = self._checkpoint
        if number is None or number != self._number or not checkpoint or not checkpoint.position:
            return QueueRepairPlan(self._steps)
        segment = Segment(
            segment_stem(self._directory, checkpoint.position),
            number,
            checkpoint.position,
            checkpoint.offset,
            checkpoint.timestamp,
        )
        text = f"begin an empty log that goes on at offset {checkpoint.offset}"
        self._do(segment.log_path, text, partial(self._create, segment))
        return QueueRepairPlan(self._steps, "", number, checkpoint.offset, checkpoint)

    # -- what the steps do ---------------------------------------------------------------------

    def _do(self, path: Path, text: str, apply: Callable[[], object]) -> None:
        self._steps.append(Step(path, text, apply))

    def _move(self, log_path: Path, reason: str) -> None:
        """Moves a segment aside: its log and the files beside it."""
        self._do(log_path, f"move it aside: {reason}", partial(self._move_segment, log_path))

    def _move_segment(self, log_path: Path) -> None:
        for suffix in (".log", ".idx", ".keys"):
            self._aside.move(self._files, log_path.with_suffix(suffix))

    def _move_file(self, path: Path, reason: str) -> None:
        self._do(path, f"move it aside: {reason}", partial(self._aside.move, self._files, path))

    def _move_strays(self) -> None:
        for suffix in ("idx", "keys"):
            for path in sorted(self._directory.glob(f"*.{suffix}")):
                if not path.with_suffix(".log").exists():
                    self._move_file(path, "there is no log to it")

    def _write_header(self, segment: Segment) -> None:
        header = self._files.read(segment.log_path, 0, HEADER_SIZE)
        kept = self._aside.target_of(segment.log_path, ".header")
        self._files.create(kept, header)
        self._files.write(segment.log_path, 0, segment.header(LOG_MAGIC))
        self._files.sync(segment.log_path)

    def _fill(self, segment: Segment, position: int, records: bytes) -> None:
        at = position - segment.base_position + HEADER_SIZE
        path = segment.log_path
        end = min(at + len(records), self._files.size(path))
        kept = self._aside.target_of(path, f".from-{position}")
        copy_bytes(self._files, path, at, end, kept, b"")
        self._files.write(path, at, records)
        self._files.sync(path)

    def _cut(self, segment: Segment, run: SoundRange) -> None:
        size = run.end_position - segment.base_position + HEADER_SIZE
        ending = f".from-{run.end_position}"
        self._aside.copy_part(self._files, segment.log_path, size, ending)
        self._files.truncate(segment.log_path, size)
        self._files.sync(segment.log_path)

    def _make_index(self, segment: Segment) -> None:
        self._aside.move(self._files, segment.index_path)
        remake_index(self._files, segment)

    def _split(self, segment: Segment, fresh: Segment, run: SoundRange) -> None:
        base = segment.base_position - HEADER_SIZE
        new_path = fresh.log_path.with_suffix(".new")
        copy_bytes(
            self._files, segment.log_path, run.position - base, run.end_position - base, new_path,
            fresh.header(LOG_MAGIC),
        )  # fmt: skip
        self._move_segment(segment.log_path)
        self._files.replace(new_path, fresh.log_path)
        self._make_index(fresh)

    def _create(self, segment: Segment) -> None:
        self._files.create(segment.index_path, segment.header(INDEX_MAGIC))
        self._files.create(segment.log_path, segment.header(LOG_MAGIC))
        for path in (segment.index_path, segment.log_path):
            self._files.sync(path)
        for parent in (self._directory, *list(self._directory.parents)[:3]):
            self._files.sync_directory(parent)


def _pieces(survey: SegmentSurvey) -> list[_Piece]:
    segment = survey.segment
    assert segment is not None
    start = (segment.base_position, segment.base_offset)
    runs = list(survey.runs)
    if not runs or runs[0].position > segment.base_position:
        runs.insert(0, SoundRange(*start, *start, segment.created_ms))
    return [_Piece(survey, segment, run) for run in runs]
