"""Opening a queue log: what the last checkpoint vouches for is taken, the rest is checked.

After a clean stop no record has to be read. After a crash the records behind the checkpoint are
checked one by one (length, magic, CRC, and that each is the record that belongs there); the log is
cut at the first bad one, and the index is made again from the log, never the other way round.
docs/store-format.md has the rules.
"""

from __future__ import annotations

import logging
import os
import struct
from pathlib import Path
from typing import NamedTuple

from pocketmq.broker.store.disk.errors import FormatError
from pocketmq.broker.store.disk.files import Files
from pocketmq.broker.store.log.checkpoint import Checkpoint
from pocketmq.broker.store.log.queue_log import QueueLog
from pocketmq.broker.store.log.scan import READ_SIZE, RECORD_SIZE_MAX, scan
from pocketmq.broker.store.log.segment import (
    ENTRY,
    ENTRY_SIZE,
    HEADER_SIZE,
    INDEX_MAGIC,
    Segment,
    is_unfinished,
    physical_offset,
    read_segment,
)
from pocketmq.protocol.messages.records import PHYSICAL_OFFSET_AT, check_record

log = logging.getLogger("pocketmq.store")

_LONG = struct.Struct(">q")

_REMADE = ".remade"
"""An index that is made again has this ending until it is on the disk."""

UNFINISHED_SUFFIXES = (".merge", _REMADE)
"""Of files that were not finished: the next start removes them."""


class Recovered(NamedTuple):
    """What opening a log found: the log, and how many bytes were cut off its end."""

    queue_log: QueueLog
    cut_size: int


def open_queue_log(
    files: Files,
    directory: Path,
    topic: str,
    queue_id: int,
    number: int,
    segment_size: int,
    checkpoint: Checkpoint | None,
) -> Recovered:
    """Opens a queue's log, whatever the last run left behind.

    Records that were on the disk are never given up: damage among them is an error.

    Args:
        files, directory, topic, queue_id, number, segment_size: see `QueueLog`.
        checkpoint: the last one; None when it was lost with the metadata.

    Raises:
        FormatError: a file is of another store or version, is damaged where it was already on the
            disk, or a segment is missing.
    """
    vouched = checkpoint or Checkpoint()
    is_known = checkpoint is not None
    segments, cut_size = _find_segments(files, directory, number, vouched, is_known=is_known)
    end = vouched
    if segments:
        end, more = _recover_segments(files, segments, vouched, is_known=is_known)
        cut_size += more
        if is_known:
            _write_again(files, segments, vouched, end)
    elif vouched.position:
        raise FormatError(
            directory,
            f"it holds none of the records up to offset {vouched.offset} that were on the disk: "
            f"was it copied in part? Restore the files, or have the queue go on empty by a repair",
        )
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
    queue_log.unverified_end = min(vouched.offset, end.offset)
    return Recovered(queue_log, cut_size)


def _find_segments(
    files: Files, directory: Path, number: int, vouched: Checkpoint, *, is_known: bool
) -> tuple[list[Segment], int]:
    """The segments by their headers; bytes of one that a crash left without its header."""
    try:
        names = set(os.listdir(directory))
    except FileNotFoundError:
        return [], 0
    segments: list[Segment] = []
    cut_size = 0
    logs = sorted(name for name in names if name.endswith(".log"))
    for index, name in enumerate(logs):
        path = directory / name
        if segments and _never_began(files, path, segments[-1]):
            remove_segments(files, [path])
            continue
        header = files.read(path, 0, HEADER_SIZE)
        is_new = (is_known or name is logs[-1]) and _begins_behind(path, vouched.position)
        if is_unfinished(header) and is_new:
            cut_size = remove_segments(files, [directory / later for later in logs[index:]])
            break
        segment = read_segment(path, header)
        if segment.log_number != number:
            raise FormatError(
                path, f"it belongs to queue log {segment.log_number}, not to {number}"
            )
        segments.append(segment)
    for name in names:
        stem, suffix = os.path.splitext(name)
        is_alone = suffix in (".idx", ".keys") and f"{stem}.log" not in names
        if is_alone or suffix in UNFINISHED_SUFFIXES:
            files.delete(directory / name)
    return segments, cut_size


def _never_began(files: Files, path: Path, before: Segment) -> bool:
    """Whether a segment holds nothing, and the one before it went on behind its beginning.

    It could neither be begun nor removed.
    """
    if files.size(path) > HEADER_SIZE or not path.stem.isdecimal():
        return False
    position = int(path.stem)
    at = position - before.base_position + HEADER_SIZE
    size = int.from_bytes(files.read(before.log_path, at, 4), "big")
    if not 0 < size <= RECORD_SIZE_MAX:
        return False
    record = files.read(before.log_path, at, size)
    if check_record(record, 0, len(record)) != size:
        return False
    (physical,) = _LONG.unpack_from(record, PHYSICAL_OFFSET_AT)
    return bool(physical == physical_offset(before.log_number, position))


def remove_segments(files: Files, paths: list[Path]) -> int:
    """Takes segments, by their `.log` files, out of a log; returns the bytes that they held.

    Those that hold anything are kept under another name. They are gone for good on return: the log
    goes on where they began, and they must not come back in its middle.
    """
    size = sum(_remove(files, path) for path in paths)
    for directory in {path.parent for path in paths}:
        files.sync_directory(directory)
    return size


def remove_unfinished(files: Files, directory: Path) -> None:
    """Removes what is left of a queue that was just begun when a crash came, and holds nothing."""
    if directory.is_dir():
        remove_segments(files, sorted(directory.glob("*.log")))
        left = (".idx", ".keys", *UNFINISHED_SUFFIXES)
        if all(path.suffix in left for path in directory.iterdir()):
            files.delete_directory(directory)


def _begins_behind(path: Path, position: int) -> bool:
    return path.stem.isdecimal() and int(path.stem) >= position


def _remove(files: Files, path: Path) -> int:
    """Takes a segment out of the log; one that holds anything is kept under another name."""
    size = files.size(path) - HEADER_SIZE
    files.delete(path.with_suffix(".idx"))
    files.delete(path.with_suffix(".keys"))
    if size <= 0:
        files.delete(path)
        return 0
    kept = files.set_aside(path)
    log.error("%s cannot be joined to the records before it: it is kept as %s", path, kept.name)
    return size


def _recover_segments(
    files: Files, segments: list[Segment], vouched: Checkpoint, *, is_known: bool
) -> tuple[Checkpoint, int]:
    """Checks the segments and repairs what a crash can do; returns the end and the bytes cut off.

    Segments behind a cut are taken off the list.
    """
    first = _segment_at(segments, vouched.position)
    for index in range(first):
        _check_finished(files, segments[index], segments[index + 1])
    start = segments[first]
    end = vouched
    if vouched.position < start.base_position:  # what it vouched for was removed, being old
        end = Checkpoint(start.base_position, start.base_offset, vouched.timestamp)
    cut_size = 0
    for index in range(first, len(segments)):
        segment = segments[index]
        if index > first:
            if cut_size or segment.base_position != end.position:
                if not is_known:
                    raise _missing(segments[index - 1], end.position, segment)
                # Power was lost while only the system's memory held what is between the two.
                cut_size += remove_segments(files, [s.log_path for s in segments[index:]])
                del segments[index:]
                break
            end = Checkpoint(segment.base_position, segment.base_offset, end.timestamp)
        follower = segments[index + 1] if index + 1 < len(segments) else None
        end, cut = _recover_segment(files, segment, end, follower)
        cut_size += cut
    return end, cut_size


def _write_again(
    files: Files, segments: list[Segment], vouched: Checkpoint, end: Checkpoint
) -> None:
    """Writes what no checkpoint vouches for once more, as it stands.

    If it is there because a process was killed after a flush had failed, then the system shows it
    and takes it for clean: no later flush would bring it to the disk.
    """
    ends = [follower.base_position for follower in segments[1:]] + [end.position]
    for segment, end_position in zip(segments, ends, strict=True):
        is_new = segment.base_position >= vouched.position
        at = 0 if is_new else vouched.position - segment.base_position + HEADER_SIZE
        size = end_position - segment.base_position + HEADER_SIZE
        while at < size:
            data = files.read(segment.log_path, at, min(READ_SIZE, size - at))
            files.write(segment.log_path, at, data)
            at += len(data)


def _missing(segment: Segment, position: int, follower: Segment) -> FormatError:
    return FormatError(
        segment.log_path,
        f"its sound records end at position {position}, but the next segment begins at "
        f"{follower.base_position}: restore the file that holds what is between them, or have "
        f"the records before the gap moved away by a repair",
    )


def _segment_at(segments: list[Segment], position: int) -> int:
    """The index of the last segment that begins at or before a position; 0 if there is none."""
    found = 0
    for index, segment in enumerate(segments):
        if segment.base_position <= position:
            found = index
    return found


def _check_finished(files: Files, segment: Segment, follower: Segment) -> None:
    """Checks that a segment reaches to the next one, and makes its index again if need be.

    Raises:
        FormatError: it does not, or a record of it is damaged.
    """
    end = Checkpoint(follower.base_position, follower.base_offset)
    size = files.size(segment.log_path) - HEADER_SIZE + segment.base_position
    if size < end.position:
        raise _missing(segment, size, follower)
    if size > end.position:
        log.warning("%s: bytes behind its last record are cut off", segment.log_path)
        files.truncate(segment.log_path, end.position - segment.base_position + HEADER_SIZE)
    if _is_index_sound(files, segment, end):
        if files.size(segment.index_path) > _index_size(segment, end):
            files.truncate(segment.index_path, _index_size(segment, end))
        return
    log.warning("%s is missing or damaged: it is made again", segment.index_path)
    found = remake_index(files, segment)
    if found[:2] != end[:2]:
        raise _damaged(segment, found)


def _damaged(segment: Segment, end: Checkpoint) -> FormatError:
    return FormatError(
        segment.log_path,
        f"the record at position {end.position} (offset {end.offset}) is damaged, though it was on "
        f"the disk: restore the file from a copy, or have the records before the damage moved away "
        f"by a repair",
    )


def _is_index_sound(files: Files, segment: Segment, end: Checkpoint) -> bool:
    """Whether the index reaches up to a point of the log: its header, size and last entry."""
    path = segment.index_path
    size = HEADER_SIZE + (end.offset - segment.base_offset) * ENTRY_SIZE
    if not files.exists(path) or files.size(path) < size:
        return False
    if files.read(path, 0, HEADER_SIZE) != segment.header(INDEX_MAGIC):
        return False
    if size == HEADER_SIZE:
        return True
    physical, record_size, _ = ENTRY.unpack(files.read(path, size - ENTRY_SIZE, ENTRY_SIZE))
    start: int = end.position - record_size
    return start >= segment.base_position and physical == physical_offset(segment.log_number, start)


def _recover_segment(
    files: Files, segment: Segment, start: Checkpoint, follower: Segment | None
) -> tuple[Checkpoint, int]:
    """Checks one segment from a known good point on; returns its end and the bytes cut off.

    What it holds behind the beginning of the next segment, which goes on with a sound record, was
    cut off before that one was begun: it is only back, and counts for nothing.

    Raises:
        FormatError: a record before that point is damaged.
    """
    size = files.size(segment.log_path) - HEADER_SIZE + segment.base_position
    vouched_position = start.position
    if size < vouched_position:
        raise FormatError(
            segment.log_path,
            f"it ends at position {size}, though everything up to position {vouched_position} was "
            f"on the disk: was the directory copied in part? Restore the missing files, or have "
            f"the queue go on where it ends now by a repair",
        )
    is_sound = _is_index_sound(files, segment, start)
    index_size = files.size(segment.index_path) if is_sound else 0
    if is_sound and (size, index_size) == (start.position, _index_size(segment, start)):
        return start, 0
    limit = None
    if follower is not None and size > follower.base_position and _has_records(files, follower):
        limit = follower.base_position
    if is_sound or vouched_position <= segment.base_position:
        end = _go_on_with_index(files, segment, start, limit)
    else:
        end = remake_index(files, segment, limit, start.timestamp)
    if end.position < vouched_position:
        raise _damaged(segment, end)
    cut_size = size - end.position
    if cut_size:
        files.truncate(segment.log_path, end.position - segment.base_position + HEADER_SIZE)
    if end.position == vouched_position:
        # The checkpoint vouches for all there is: no flush would bring what changed to the disk.
        files.sync(segment.log_path)
        files.sync(segment.index_path)
    if end.position == limit:
        log.warning("%s: bytes behind its last record are cut off", segment.log_path)
        return end, 0
    return end, cut_size


def _has_records(files: Files, segment: Segment) -> bool:
    return any(True for _ in scan(files, segment, segment.base_position, segment.base_offset))


def _index_size(segment: Segment, end: Checkpoint) -> int:
    return HEADER_SIZE + (end.offset - segment.base_offset) * ENTRY_SIZE


def _go_on_with_index(
    files: Files, segment: Segment, start: Checkpoint, limit: int | None
) -> Checkpoint:
    """Makes the index again from where the checkpoint ends; returns the end of the sound records.

    The next checkpoint brings it to the disk. A record that begins at the limit is not taken, nor
    what is behind it.
    """
    entries, end = _entries(files, segment, start, limit)
    if start.offset == segment.base_offset:
        files.create(segment.index_path, segment.header(INDEX_MAGIC))
    else:
        files.truncate(segment.index_path, _index_size(segment, start))
    if entries:
        files.write(segment.index_path, _index_size(segment, start), entries)
    return end


def remake_index(
    files: Files, segment: Segment, limit: int | None = None, timestamp: int = 0
) -> Checkpoint:
    """Makes an index again for which a checkpoint vouches; returns the end of the sound records.

    It takes the old one's place when it is on the disk. After a flush that failed, the system would
    show a sound index of which the disk has only parts, and nobody would make it again.

    Args:
        files, segment: of which it is.
        limit: a record that begins there is not taken, nor what is behind it.
        timestamp: the last store time if there is no sound record.
    """
    start = Checkpoint(segment.base_position, segment.base_offset, timestamp)
    entries, end = _entries(files, segment, start, limit)
    remade = segment.stem.with_suffix(_REMADE)
    files.create(remade, segment.header(INDEX_MAGIC) + entries)
    files.sync(remade)
    files.replace(remade, segment.index_path)
    files.sync_directory(remade.parent)
    return end


def _entries(
    files: Files, segment: Segment, start: Checkpoint, limit: int | None
) -> tuple[bytes, Checkpoint]:
    """Index entries of the sound records from one on, and where those end."""
    entries = bytearray()
    end = start
    for record in scan(files, segment, start.position, start.offset):
        if record.position == limit:
            break
        entries += ENTRY.pack(
            physical_offset(segment.log_number, record.position), record.size, record.tags_code
        )
        end = Checkpoint(record.position + record.size, record.offset + 1, record.timestamp)
    return bytes(entries), end
