"""Opens a queue log: what the last checkpoint covers is taken, the records behind it are checked.

After a clean stop no record has to be read. After a crash the records behind the checkpoint are
checked one by one (length, magic, CRC, and that each is the record that belongs there); the log is
cut at the first bad one, and the index is made again from the log, never the other way round.
docs/store-format.md has the rules.
"""

from __future__ import annotations

import logging
import struct
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from pocketmq.broker.store.disk.errors import FormatError
from pocketmq.broker.store.disk.files import Files
from pocketmq.broker.store.log.checkpoint import Checkpoint, file_names
from pocketmq.broker.store.log.index_recovery import (
    extend_index,
    index_size,
    is_index_sound,
    remake_index,
)
from pocketmq.broker.store.log.leftovers import UNFINISHED_SUFFIXES, remove_segments
from pocketmq.broker.store.log.queue_log import QueueLog
from pocketmq.broker.store.log.scan import READ_SIZE, RECORD_SIZE_MAX, scan
from pocketmq.broker.store.log.segment import (
    HEADER_SIZE,
    Segment,
    is_unfinished,
    physical_offset,
    read_segment,
)
from pocketmq.protocol.messages.records import PHYSICAL_OFFSET_AT, check_record

log = logging.getLogger("pocketmq.store")

_LONG = struct.Struct(">q")


class Recovered(NamedTuple):
    """A log that was opened, and how many bytes were cut off its end."""

    queue_log: QueueLog
    cut_size: int


def open_queue_log(
    files: Files,
    directory: Path | str,
    topic: str,
    queue_id: int,
    number: int,
    segment_size: int,
    checkpoint: Checkpoint | None,
    names: list[str] | None = None,
) -> Recovered:
    """Opens a queue's log, whatever the last run left behind.

    Records that were on the disk are never given up: damage among them is an error.

    Args:
        files, directory, topic, queue_id, number, segment_size: see `QueueLog`.
        checkpoint: the last one; None when it was lost with the metadata.
        names: of the files in the directory, if they were listed before.

    Raises:
        FormatError: a file is of another store or version, is damaged where it was already on the
            disk, or a segment is missing.
    """
    recovery = LogRecovery(files, directory, number, checkpoint, names)
    recovery.run()
    segments, end, cut_size = recovery.segments, recovery.end, recovery.cut_size
    if cut_size:
        log.warning(
            "%s queue %d: %d bytes behind the last sound record were cut off, it goes on at "
            "offset %d",
            topic,
            queue_id,
            cut_size,
            end.offset,
        )
    queue_log = QueueLog(files, directory, topic, queue_id, number, segment_size, segments, *end)
    queue_log.unverified_end = min(max(recovery.checkpoint.offset, recovery.lost_end), end.offset)
    return Recovered(queue_log, cut_size)


class LogRecovery:
    """Checks the files of one log, and repairs what a crash can do to them.

    Args:
        files: the disk.
        directory: of the log's segments.
        number: of the log.
        checkpoint: the last one; None when it was lost with the metadata.
        names: of the files in the directory, if they were listed before.

    Attributes:
        checkpoint: the last one; without it the log's beginning.
        segments: those that stay, in order.
        end: of the log.
        cut_size: bytes that were cut off the log's end.
        lost_end: the offset behind the last record found that stands for a lost one.
    """

    def __init__(
        self,
        files: Files,
        directory: Path | str,
        number: int,
        checkpoint: Checkpoint | None,
        names: list[str] | None = None,
    ) -> None:
        self._files, self._directory, self._number = files, str(directory), number
        self._names = names
        self._has_checkpoint = checkpoint is not None
        self.checkpoint = self.end = checkpoint or Checkpoint()
        self.segments: list[Segment] = []
        self.cut_size = self.lost_end = 0

    def _note_lost(self, offset: int) -> None:
        self.lost_end = offset + 1

    def run(self) -> None:
        """Finds the segments, checks the records behind the checkpoint, and cuts the log.

        Raises:
            FormatError: see `open_queue_log`.
        """
        self._find_segments()
        if self.segments:
            self._recover_segments()
            if self._has_checkpoint:
                self._write_again()
        elif self.checkpoint.position:
            raise FormatError(
                Path(self._directory),
                f"it holds none of the records up to offset {self.checkpoint.offset} that were on "
                f"the disk: was it copied in part? Restore the files, or have the queue go on "
                f"empty by a repair",
            )

    # -- which segments there are -------------------------------------------------------------

    def _find_segments(self) -> None:
        """Reads the headers of the segments, and removes what a crash left unfinished."""
        directory = self._directory
        names = file_names(directory) if self._names is None else self._names
        if names is None:
            return
        logs = sorted(name for name in names if name.endswith(".log"))
        for index, name in enumerate(logs):
            path = f"{directory}/{name}"
            if self.segments and self._is_overgrown(Path(path), self.segments[-1]):
                remove_segments(self._files, [Path(path)])
                continue
            header = self._files.read(path, 0, HEADER_SIZE)
            may_be_new = self._has_checkpoint or name is logs[-1]
            if is_unfinished(header) and may_be_new and self._begins_behind_checkpoint(name):
                later = [Path(directory, name) for name in logs[index:]]
                self.cut_size = remove_segments(self._files, later)
                break
            segment = read_segment(path, header)
            if segment.log_number != self._number:
                raise FormatError(
                    Path(path),
                    f"it belongs to queue log {segment.log_number}, not to {self._number}",
                )
            self.segments.append(segment)
        for name in names:
            stem, dot, ending = name.rpartition(".")
            suffix = dot + ending
            is_alone = suffix in (".idx", ".keys") and f"{stem}.log" not in logs
            if is_alone or suffix in UNFINISHED_SUFFIXES:
                self._files.delete(Path(directory, name))

    def _begins_behind_checkpoint(self, name: str) -> bool:
        stem = name.removesuffix(".log")
        return stem.isdecimal() and int(stem) >= self.checkpoint.position

    def _is_overgrown(self, path: Path, before: Segment) -> bool:
        """Whether a segment is empty, and the one before it went on behind its beginning.

        Such a segment could neither be finished nor removed when it was created.
        """
        if self._files.size(path) > HEADER_SIZE or not path.stem.isdecimal():
            return False
        position = int(path.stem)
        at = position - before.base_position + HEADER_SIZE
        size = int.from_bytes(self._files.read(before.log_file, at, 4), "big")
        if not 0 < size <= RECORD_SIZE_MAX:
            return False
        record = self._files.read(before.log_file, at, size)
        if check_record(record, 0, len(record)) != size:
            return False
        (physical,) = _LONG.unpack_from(record, PHYSICAL_OFFSET_AT)
        return bool(physical == physical_offset(before.log_number, position))

    # -- the records --------------------------------------------------------------------------

    def _recover_segments(self) -> None:
        """Checks the segments from the checkpoint on; those behind a cut leave the list."""
        first = self._index_at_checkpoint()
        for segment, after in pairwise(self.segments[: first + 1]):
            self._check_finished(segment, after)
        start = self.segments[first]
        if self.checkpoint.position < start.base_position:  # retention removed what it covered
            self.end = Checkpoint(start.base_position, start.base_offset, self.checkpoint.timestamp)
        is_cut = False
        for index, segment in enumerate(self.segments[first:], first):
            if index > first:
                if is_cut or segment.base_position != self.end.position:
                    if not self._has_checkpoint:
                        raise _missing(self.segments[index - 1], self.end.position, segment)
                    # Power was lost while only the system's memory held what is between the two.
                    later = [s.log_path for s in self.segments[index:]]
                    self.cut_size += remove_segments(self._files, later)
                    del self.segments[index:]
                    break
                self.end = Checkpoint(
                    segment.base_position, segment.base_offset, self.end.timestamp
                )
            follower = self.segments[index + 1] if index + 1 < len(self.segments) else None
            cut_size = self._recover_segment(segment, follower)
            is_cut |= cut_size > 0
            self.cut_size += cut_size

    def _index_at_checkpoint(self) -> int:
        """The index of the last segment that begins at or before the checkpoint; 0 if none does."""
        position = self.checkpoint.position
        count = sum(segment.base_position <= position for segment in self.segments)
        return max(count - 1, 0)

    def _recover_segment(self, segment: Segment, follower: Segment | None) -> int:
        """Checks one segment from `end` on, and moves `end` to its end; returns the bytes cut off.

        Bytes that the segment holds behind the beginning of the next one, which goes on with a
        sound record, do not count as cut off: they were cut off before the next one was created,
        and a crash has only brought them back.

        Raises:
            FormatError: a record before `end` is damaged.
        """
        files, start = self._files, self.end
        size = files.size(segment.log_file) - HEADER_SIZE + segment.base_position
        if size < start.position:
            raise FormatError(
                segment.log_path,
                f"it ends at position {size}, though everything up to position {start.position} "
                f"was on the disk: was the directory copied in part? Restore the missing files, or "
                f"have the queue go on where it ends now by a repair",
            )
        is_sound = is_index_sound(files, segment, start)
        indexed_size = files.size(segment.index_file) if is_sound else 0
        if is_sound and (size, indexed_size) == (start.position, index_size(segment, start)):
            return 0
        limit = None
        if follower is not None and size > follower.base_position and self._has_records(follower):
            limit = follower.base_position
        if is_sound or start.position <= segment.base_position:
            end = extend_index(files, segment, start, limit, self._note_lost)
        else:
            end = remake_index(files, segment, limit, start.timestamp, self._note_lost)
        if end.position < start.position:
            raise _damaged(segment, end)
        cut_size = size - end.position
        if cut_size:
            files.truncate(segment.log_file, end.position - segment.base_position + HEADER_SIZE)
        if end.position == start.position:
            # The checkpoint covers all there is: no flush would bring what changed to the disk.
            files.sync(segment.log_path)
            files.sync(segment.index_path)
        self.end = end
        if end.position == limit:
            log.warning("%s: bytes behind its last record are cut off", segment.log_path)
            return 0
        return cut_size

    def _has_records(self, segment: Segment) -> bool:
        records = scan(self._files, segment, segment.base_position, segment.base_offset)
        return next(records, None) is not None

    def _check_finished(self, segment: Segment, follower: Segment) -> None:
        """Checks that a segment reaches the next one, and makes its index again if need be.

        Raises:
            FormatError: it does not, or a record of it is damaged.
        """
        files = self._files
        end = Checkpoint(follower.base_position, follower.base_offset)
        size = files.size(segment.log_file) - HEADER_SIZE + segment.base_position
        if size < end.position:
            raise _missing(segment, size, follower)
        if size > end.position:
            log.warning("%s: bytes behind its last record are cut off", segment.log_path)
            files.truncate(segment.log_file, end.position - segment.base_position + HEADER_SIZE)
        if is_index_sound(files, segment, end):
            if files.size(segment.index_path) > index_size(segment, end):
                files.truncate(segment.index_path, index_size(segment, end))
            return
        log.warning("%s is missing or damaged: it is made again", segment.index_path)
        found = remake_index(files, segment, on_lost=self._note_lost)
        if found[:2] != end[:2]:
            raise _damaged(segment, found)

    def _write_again(self) -> None:
        """Writes what is behind the checkpoint once more, as it stands.

        If it is there because a process was killed after a flush had failed, then the system shows
        it and takes it for clean: no later flush would bring it to the disk.
        """
        position = self.checkpoint.position
        ends = [follower.base_position for follower in self.segments[1:]] + [self.end.position]
        for segment, end_position in zip(self.segments, ends, strict=True):
            is_new = segment.base_position >= position
            at = 0 if is_new else position - segment.base_position + HEADER_SIZE
            size = end_position - segment.base_position + HEADER_SIZE
            path = segment.log_file
            while at < size:
                data = self._files.read(path, at, min(READ_SIZE, size - at))
                self._files.write(path, at, data)
                at += len(data)


def _missing(segment: Segment, position: int, follower: Segment) -> FormatError:
    return FormatError(
        segment.log_path,
        f"its sound records end at position {position}, but the next segment begins at "
        f"{follower.base_position}: restore the file that holds what is between them, or have "
        f"the records before the gap moved away by a repair",
    )


def _damaged(segment: Segment, end: Checkpoint) -> FormatError:
    return FormatError(
        segment.log_path,
        f"the record at position {end.position} (offset {end.offset}) is damaged, though it was on "
        f"the disk: restore the file from a copy, or have the records before the damage moved away "
        f"by a repair",
    )
