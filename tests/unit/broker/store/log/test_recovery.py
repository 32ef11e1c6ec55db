"""What a log is after every kind of end that its last run may have had."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from support.store.stores import BORN_MS, TOPIC, cut_file, damage, messages, record_of

from pocketmq.broker.store.disk.errors import FormatError
from pocketmq.broker.store.disk.files import Files
from pocketmq.broker.store.log import index_recovery, recovery
from pocketmq.broker.store.log.checkpoint import Checkpoint
from pocketmq.broker.store.log.queue_log import QueueLog
from pocketmq.broker.store.log.recovery import Recovered, open_queue_log
from pocketmq.broker.store.log.segment import HEADER_SIZE, physical_offset
from pocketmq.broker.store.mending.check import check_directory
from pocketmq.protocol.messages.properties import tags_code

NUMBER = 5
SEGMENT_SIZE = 1100
NOTHING = Checkpoint()
V6_HOST = bytes(15) + b"\1" + (10911).to_bytes(4, "big")


class NotedFiles(Files):
    """Notes what is written, and what is brought to the disk; fails to do the latter on order."""

    def __init__(self) -> None:
        super().__init__()
        self.done: list[tuple[object, ...]] = []
        self.is_failing = False

    def write(self, path: Path | str, position: int, data: bytes | bytearray | memoryview) -> None:
        super().write(path, position, data)
        self.done.append(("write", Path(path), position, bytes(data)))

    def write_parts(
        self, path: Path | str, position: int, parts: Sequence[bytes | bytearray | memoryview]
    ) -> None:
        self.write(path, position, b"".join(parts))

    def sync(self, path: Path) -> None:
        if self.is_failing:
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        super().sync(path)
        self.done.append(("sync", path))

    def sync_directory(self, path: Path) -> None:
        super().sync_directory(path)
        self.done.append(("directory", path))

    def replace(self, source: Path, target: Path) -> None:
        super().replace(source, target)
        self.done.append(("replace", source, target))


@pytest.fixture
def files() -> Iterator[Files]:
    files = Files()
    yield files
    files.close()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "data"


def directory_of(root: Path) -> Path:
    return root / "queues" / TOPIC / "0"


def reopen(files: Files, root: Path, checkpoint: Checkpoint | None = NOTHING) -> Recovered:
    files.close()
    return open_queue_log(files, directory_of(root), TOPIC, 0, NUMBER, SEGMENT_SIZE, checkpoint)


def add(queue_log: QueueLog, body: bytes, tags: str = "", time_ms: int = BORN_MS) -> None:
    record = record_of(queue_log, body, tags, store_time_ms=time_ms)
    queue_log.append(record, tags_code(tags), None)
    queue_log.last_timestamp = time_ms
    queue_log.commit(time_ms)


def checkpoint_of(queue_log: QueueLog) -> Checkpoint:
    """As the store takes one: after the index was written."""
    queue_log.write_index()
    return Checkpoint(queue_log.end_position, queue_log.end_offset, queue_log.last_timestamp)


def written(files: Files, root: Path, *sizes: int) -> QueueLog:
    """A log with records of such bodies; its index is only in memory, as at a crash."""
    queue_log = reopen(files, root).queue_log
    for index, size in enumerate(sizes):
        add(queue_log, bytes((65 + index,)) * size, "red" if index % 2 else "", BORN_MS + index)
    return queue_log


def bodies(queue_log: QueueLog) -> list[int]:
    """The sizes of all bodies, whose content must be what `written` gave them."""
    found = messages(queue_log)
    first = queue_log.min_offset
    for message in found:
        assert message.body == bytes((65 + message.queue_offset,)) * len(message.body)
    assert [m.queue_offset for m in found] == list(range(first, first + len(found)))
    return [len(m.body) for m in found]


def assert_sound(root: Path) -> None:
    assert check_directory(root).problems == []


def logs(root: Path) -> list[Path]:
    return sorted(directory_of(root).glob("*.log"))


# -- the end of a log -------------------------------------------------------------------------


def test_a_killed_process_loses_nothing(files: Files, root: Path) -> None:
    sizes = [300, 300, 700, 50, 2000, 1]
    written(files, root, *sizes)
    recovered = reopen(files, root)
    assert bodies(recovered.queue_log) == sizes
    assert recovered.cut_size == 0
    assert recovered.queue_log.last_timestamp == BORN_MS + 5
    assert_sound(root)


def test_every_cut_of_the_last_records_leaves_the_whole_ones(
    files: Files, root: Path, tmp_path: Path
) -> None:
    sizes = [40, 30, 5, 60]
    queue_log = written(files, root, *sizes[:1])
    checkpoint = checkpoint_of(queue_log)
    ends = [checkpoint.position]
    for index in range(1, len(sizes)):
        add(queue_log, bytes((65 + index,)) * sizes[index], "red")
        ends.append(queue_log.end_position)
    for size in range(checkpoint.position, ends[-1] + 1):
        copy = tmp_path / "copy"
        shutil.copytree(root, copy)
        cut_file(logs(copy)[0], HEADER_SIZE + size)
        recovered = reopen(files, copy, checkpoint)
        whole = sum(end <= size for end in ends)
        assert bodies(recovered.queue_log) == sizes[:whole]
        assert recovered.cut_size == size - ends[whole - 1]
        add(recovered.queue_log, bytes((65 + whole,)) * 9)
        assert bodies(recovered.queue_log) == [*sizes[:whole], 9]
        recovered.queue_log.write_index()
        assert_sound(copy)
        files.close()
        shutil.rmtree(copy)


def test_every_damaged_byte_behind_the_checkpoint_is_survived(
    files: Files, root: Path, tmp_path: Path
) -> None:
    """A record is taken or cut; what is taken is a prefix, with the right bodies and places."""
    sizes = [20, 10, 10]
    queue_log = written(files, root, *sizes[:1])
    checkpoint = checkpoint_of(queue_log)
    for index in (1, 2):
        add(queue_log, bytes((65 + index,)) * sizes[index], "red")
    lost = 0
    for position in range(checkpoint.position, queue_log.end_position):
        copy = tmp_path / "copy"
        shutil.copytree(root, copy)
        damage(logs(copy)[0], HEADER_SIZE + position)
        recovered = reopen(files, copy, checkpoint).queue_log
        assert 1 <= recovered.end_offset <= 3
        lost += recovered.end_offset < 3
        for index, offset in enumerate(range(1, recovered.end_offset), 1):
            data = recovered.read(offset, 1, 1 << 20).data
            assert bytes((65 + index,)) * sizes[index] in data
        assert_sound(copy)
        files.close()
        shutil.rmtree(copy)
    # Lengths, magic, CRC, offsets and bodies are covered; times, hosts and properties are not.
    assert lost >= 2 * (4 + 4 + 4 + 8 + 8 + 4 + 10)


def test_records_of_another_place_are_not_taken(files: Files, root: Path) -> None:
    """Left over from a longer file, say: sound in themselves, but not what belongs there."""
    queue_log = written(files, root, 50)
    end = queue_log.end_position
    for place in (
        (2, physical_offset(NUMBER, end)),
        (1, physical_offset(NUMBER, end + 1)),
        (1, physical_offset(NUMBER + 1, end)),
    ):
        record = record_of(queue_log, b"x", place=place)
        files.write(queue_log.segments[0].log_path, HEADER_SIZE + end, record)
        recovered = reopen(files, root)
        assert recovered.queue_log.end_offset == 1
        assert recovered.cut_size == len(record)
    assert_sound(root)


def test_large_and_odd_records_are_whole(
    files: Files, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recovery, "READ_SIZE", 500)
    topic = "%RETRY%" + "g" * 120
    directory = root / "queues" / topic / "0"
    queue_log = open_queue_log(files, directory, topic, 0, NUMBER, 10_000, Checkpoint()).queue_log
    sizes = [10, 499, 5000, 3, 20_000, 7]
    for size in sizes:
        record = record_of(queue_log, bytes(size), "red", born_host=V6_HOST)
        queue_log.append(record, tags_code("red"), None)
        queue_log.commit(BORN_MS)
    files.close()
    found = open_queue_log(files, directory, topic, 0, NUMBER, 10_000, Checkpoint()).queue_log
    assert [len(m.body) for m in messages(found)] == sizes
    assert {m.topic for m in messages(found)} == {topic}
    assert_sound(root)


def test_a_record_as_large_as_a_frame_is_whole(files: Files, root: Path) -> None:
    body = bytes(15 << 20)
    queue_log = written(files, root, 5)
    add(queue_log, body)
    assert reopen(files, root).queue_log.end_offset == 2


def test_properties_that_are_no_text_do_not_stop_the_start(files: Files, root: Path) -> None:
    queue_log = written(files, root, 5)
    record = bytearray(record_of(queue_log, b"BBB", "red"))
    record[-4:-1] = b"\xff\xfe\xfd"
    queue_log.append(bytes(record), 0, None)
    queue_log.commit(BORN_MS)
    assert reopen(files, root).queue_log.end_offset == 2
    assert_sound(root)


def test_the_next_segment_of_a_cut_log_is_kept_under_another_name(
    files: Files, root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Power was lost when the newer file had come to the disk and the older one's end had not."""
    written(files, root, 400, 400, 400, 400, 800)
    content = logs(root)[1].read_bytes()
    cut_file(logs(root)[0], HEADER_SIZE + 600)
    recovered = reopen(files, root)
    assert bodies(recovered.queue_log) == [400]
    names = {path.name for path in directory_of(root).iterdir()}
    assert {n for n in names if n.endswith(".cut")} == {
        "00000000000000001003.log.cut",
        "00000000000000002006.log.cut",
    }
    assert (directory_of(root) / "00000000000000001003.log.cut").read_bytes() == content
    assert len(names) == 4
    assert "cannot be joined" in caplog.text
    add(recovered.queue_log, b"B" * 10)
    recovered.queue_log.write_index()
    assert_sound(root)


def test_also_when_the_cut_is_between_two_records(files: Files, root: Path) -> None:
    queue_log = written(files, root, 400, 400, 400)
    second = queue_log.segments[0].base_position + 497
    cut_file(logs(root)[0], HEADER_SIZE + second)
    assert bodies(reopen(files, root).queue_log) == [400]
    assert_sound(root)


def test_what_was_cut_off_up_to_the_checkpoint_is_gone_for_good(root: Path) -> None:
    """No flush would bring the cut to the disk: all that there is was flushed before."""
    files = NotedFiles()
    queue_log = written(files, root, 100)
    checkpoint = checkpoint_of(queue_log)
    add(queue_log, bytes(300))
    queue_log.write_index()
    cut_file(logs(root)[0], HEADER_SIZE + checkpoint.position + 100)
    files.done.clear()
    assert bodies(reopen(files, root, checkpoint).queue_log) == [100]
    log_path = logs(root)[0]
    assert files.done[-2:] == [("sync", log_path), ("sync", log_path.with_suffix(".idx"))]
    files.done.clear()
    assert bodies(reopen(files, root, checkpoint).queue_log) == [100]
    assert files.done == []
    files.close()


@pytest.mark.parametrize("is_vouched", [True, False])
@pytest.mark.parametrize("count", [1, 2])
def test_a_cut_that_power_took_back_takes_nothing_from_the_next_segment(
    files: Files, root: Path, count: int, is_vouched: bool
) -> None:
    """A write failed and was cut off, though whole; the log went on in a new segment."""
    queue_log = written(files, root, 900)
    refused = b"".join(
        record_of(queue_log, b"x", place=(1 + n, queue_log.next_physical_offset + n * 98))
        for n in range(count)
    )
    add(queue_log, b"B" * 900)
    add(queue_log, b"C" * 900)
    checkpoint = checkpoint_of(queue_log)
    first, second, _ = queue_log.segments
    files.write(first.log_path, HEADER_SIZE + second.base_position, refused)
    entries = files.read(second.index_path, HEADER_SIZE, 20)
    files.write(first.index_path, files.size(first.index_path), entries)
    recovered = reopen(files, root, checkpoint if is_vouched else NOTHING).queue_log
    assert bodies(recovered) == [900, 900, 900]
    recovered.write_index()
    assert_sound(root)


def test_a_new_segment_without_records_gives_way_to_those_before_it(
    files: Files, root: Path
) -> None:
    """It was removed, as it could not be begun, the older one took more, and power brought it."""
    queue_log = written(files, root, 100)
    begun = queue_log.begin_segment(BORN_MS)
    header = files.read(begun.log_path, 0, HEADER_SIZE)
    files.delete(begun.log_path)
    queue_log = reopen(files, root).queue_log
    add(queue_log, b"B" * 50)
    begun.log_path.write_bytes(header)
    recovered = reopen(files, root).queue_log
    assert bodies(recovered) == [100, 50]
    recovered.write_index()
    assert_sound(root)


@pytest.mark.parametrize("size", [0, 19, 64])
def test_a_segment_that_could_neither_be_begun_nor_removed_takes_nothing_away(
    files: Files, root: Path, size: int
) -> None:
    """The checkpoint lies behind its beginning: the older segment has gone on."""
    queue_log = written(files, root, 100)
    begun = queue_log.begin_segment(BORN_MS)
    header = files.read(begun.log_path, 0, size)
    files.delete(begun.log_path)
    queue_log = reopen(files, root).queue_log
    add(queue_log, b"B" * 50)
    checkpoint = checkpoint_of(queue_log)
    begun.log_path.write_bytes(header)
    assert bodies(reopen(files, root, checkpoint).queue_log) == [100, 50]
    assert len(logs(root)) == 1
    assert_sound(root)


@pytest.mark.parametrize("header", [b"", b"PMQLOG", bytes(64), bytes(500)])
def test_a_segment_that_was_just_begun_holds_nothing(
    files: Files, root: Path, header: bytes
) -> None:
    queue_log = written(files, root, 900)
    checkpoint = checkpoint_of(queue_log)
    queue_log.begin_segment(BORN_MS)
    logs(root)[1].write_bytes(header)
    recovered = reopen(files, root, checkpoint)
    assert bodies(recovered.queue_log) == [900]
    assert len(logs(root)) == 1
    add(recovered.queue_log, b"B" * 900)
    recovered.queue_log.write_index()
    assert bodies(recovered.queue_log) == [900, 900]
    assert_sound(root)


def test_several_segments_that_were_just_begun_are_taken_out_for_good(root: Path) -> None:
    """The older of them is without its header, the newer one has it."""
    files = NotedFiles()
    written(files, root, 900, 900, 900)
    logs(root)[1].write_bytes(bytes(1000))
    files.done.clear()
    recovered = reopen(files, root)
    assert bodies(recovered.queue_log) == [900]
    assert len(logs(root)) == 1
    # Their removal is on the disk: they must not come back when the log has grown over them.
    assert ("directory", directory_of(root)) in files.done
    files.close()


def test_what_no_checkpoint_vouches_for_is_written_again(root: Path) -> None:
    """After a failed flush the system shows it, but no later flush would bring it to the disk."""
    files = NotedFiles()
    queue_log = written(files, root, 100, 200)
    checkpoint = checkpoint_of(queue_log)
    add(queue_log, b"C" * 300)
    add(queue_log, b"D" * 400)
    content = [path.read_bytes() for path in logs(root)]
    files.done.clear()
    assert bodies(reopen(files, root, checkpoint).queue_log) == [100, 200, 300, 400]
    written_again = [entry[1:] for entry in files.done if entry[0] == "write"]
    at = checkpoint.position + HEADER_SIZE
    assert (logs(root)[0], at, content[0][at:]) in written_again
    assert (logs(root)[1], 0, content[1]) in written_again
    assert [path.read_bytes() for path in logs(root)] == content
    files.close()


def test_an_index_without_a_log_is_removed(files: Files, root: Path) -> None:
    queue_log = written(files, root, 900)
    queue_log.begin_segment(BORN_MS)
    queue_log.segments[-1].log_path.unlink()
    assert bodies(reopen(files, root).queue_log) == [900]
    assert len(list(directory_of(root).iterdir())) == 2


def test_store_times_go_on_where_they_were(files: Files, root: Path) -> None:
    queue_log = written(files, root, 900)
    checkpoint = checkpoint_of(queue_log)._replace(timestamp=BORN_MS + 77)
    queue_log.begin_segment(BORN_MS)
    assert reopen(files, root, checkpoint).queue_log.last_timestamp == BORN_MS + 77
    logs(root)[1].with_suffix(".idx").unlink()
    assert reopen(files, root, checkpoint).queue_log.last_timestamp == BORN_MS + 77


# -- what a checkpoint vouches for ------------------------------------------------------------


def test_nothing_before_the_checkpoint_is_read_again(
    files: Files, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue_log = written(files, root, 400, 400, 400)
    checkpoint = checkpoint_of(queue_log)
    for module in (recovery, index_recovery):
        monkeypatch.setattr(module, "scan", lambda *_: pytest.fail("a record was read"))
    assert reopen(files, root, checkpoint).queue_log.end_offset == 3


@pytest.mark.parametrize("harm", ["missing", "short", "header", "zeros"])
@pytest.mark.parametrize("index", [0, 1, 2])
def test_an_index_is_made_again_from_its_log(
    files: Files, root: Path, harm: str, index: int
) -> None:
    sizes = [400, 400, 400, 400, 400]
    checkpoint = checkpoint_of(written(files, root, *sizes))
    path = sorted(directory_of(root).glob("*.idx"))[index]
    sound = path.read_bytes()
    if harm == "missing":
        path.unlink()
    elif harm == "short":
        cut_file(path, len(sound) - 7)
    elif harm == "header":
        damage(path, 30)
    else:  # what a power cut leaves of a page that was never written
        damage(path, HEADER_SIZE, bytes(len(sound) - HEADER_SIZE))
    recovered = reopen(files, root, checkpoint)
    assert bodies(recovered.queue_log) == sizes
    assert path.read_bytes() == sound
    assert_sound(root)


@pytest.mark.parametrize("index", [0, 2])
def test_an_index_that_was_made_again_is_only_found_when_the_disk_has_it(
    root: Path, index: int
) -> None:
    """A killed process must not leave one that the system shows and no flush would write."""
    files = NotedFiles()
    sizes = [400, 400, 400, 400, 400]
    checkpoint = checkpoint_of(written(files, root, *sizes))
    path = sorted(directory_of(root).glob("*.idx"))[index]
    sound = path.read_bytes()
    damage(path, HEADER_SIZE, bytes(len(sound) - HEADER_SIZE))
    damaged = path.read_bytes()
    files.is_failing = True
    with pytest.raises(OSError, match="Input/output error"):
        reopen(files, root, checkpoint)
    assert path.read_bytes() == damaged
    files.is_failing = False
    assert bodies(reopen(files, root, checkpoint).queue_log) == sizes
    assert path.read_bytes() == sound
    assert list(directory_of(root).glob("*.remade")) == []
    remade = path.with_suffix(".remade")
    begun = files.done.index(("sync", remade))
    assert files.done[begun : begun + 3] == [
        ("sync", remade),
        ("replace", remade, path),
        ("directory", path.parent),
    ]
    assert_sound(root)
    files.close()


def test_a_surplus_of_index_entries_is_cut_for_good(root: Path) -> None:
    """No checkpoint would bring this index to the disk if the log goes on in a new segment."""
    files = NotedFiles()
    checkpoint = checkpoint_of(written(files, root, 400))
    path = directory_of(root) / "00000000000000000000.idx"
    with path.open("ab") as file:
        file.write(b"surplus" * 10)
    assert bodies(reopen(files, root, checkpoint).queue_log) == [400]
    assert ("sync", path) in files.done
    assert_sound(root)
    files.close()


@pytest.mark.parametrize("index", [0, 1])
def test_damage_to_a_record_that_was_on_the_disk_is_never_cut_away(
    files: Files, root: Path, index: int
) -> None:
    checkpoint = checkpoint_of(written(files, root, 400, 400, 400, 300))
    path = logs(root)[index]
    damage(path, HEADER_SIZE + 100)
    path.with_suffix(".idx").unlink()  # else nothing has a reason to read it
    content = path.read_bytes()
    with pytest.raises(FormatError, match=r"position \d+ \(offset \d\) is damaged, though it was"):
        reopen(files, root, checkpoint)
    assert path.read_bytes() == content
    assert len(logs(root)) == 2


@pytest.mark.parametrize("is_known", [True, False])
def test_a_missing_middle_segment_is_named(files: Files, root: Path, is_known: bool) -> None:
    checkpoint = checkpoint_of(written(files, root, 900, 900, 900))
    missing = logs(root)[1]
    missing.unlink()
    with pytest.raises(FormatError) as caught:
        reopen(files, root, checkpoint if is_known else None)
    assert "sound records end at position 997, but the next segment begins at 2003" in str(
        caught.value
    )
    assert "restore the file" in str(caught.value)
    assert len(logs(root)) == 2


def test_without_a_checkpoint_no_segment_is_given_up(files: Files, root: Path) -> None:
    """The metadata was lost: nobody knows what was on the disk, so damage is not cut away."""
    written(files, root, 400, 400, 400)
    damage(logs(root)[0], HEADER_SIZE + 600)
    content = logs(root)[0].read_bytes()
    with pytest.raises(FormatError, match="sound records end at position 497"):
        reopen(files, root, None)
    assert content.startswith(logs(root)[0].read_bytes())
    assert len(logs(root)) == 2


def test_old_segments_may_be_gone(files: Files, root: Path) -> None:
    checkpoint = checkpoint_of(written(files, root, 900, 900, 900))
    logs(root)[0].unlink()
    recovered = reopen(files, root, checkpoint).queue_log
    assert (recovered.min_offset, bodies(recovered)) == (1, [900, 900])


def test_also_everything_that_the_checkpoint_knew(files: Files, root: Path) -> None:
    queue_log = written(files, root, 900)
    checkpoint = checkpoint_of(queue_log)
    add(queue_log, b"B" * 900)
    add(queue_log, b"C" * 900)
    for path in logs(root)[:2]:
        path.unlink()
    recovered = reopen(files, root, checkpoint).queue_log
    assert (recovered.min_offset, bodies(recovered)) == (2, [900])


def test_a_queue_whose_files_are_gone_does_not_go_on_in_silence(files: Files, root: Path) -> None:
    checkpoint = checkpoint_of(written(files, root, 900, 900))
    shutil.rmtree(directory_of(root))
    with pytest.raises(FormatError, match="none of the records up to offset 2 that were on the"):
        reopen(files, root, checkpoint)


@pytest.mark.parametrize("size", [0, 600])
def test_nor_does_a_log_that_ends_before_its_checkpoint(
    files: Files, root: Path, size: int
) -> None:
    checkpoint = checkpoint_of(written(files, root, 400, 400))
    cut_file(logs(root)[0], HEADER_SIZE + size)
    content = logs(root)[0].read_bytes()
    with pytest.raises(FormatError, match=f"ends at position {size}, though everything up to"):
        reopen(files, root, checkpoint)
    assert logs(root)[0].read_bytes() == content


def test_bytes_behind_a_finished_segment_are_cut(files: Files, root: Path) -> None:
    checkpoint = checkpoint_of(written(files, root, 900, 900))
    with logs(root)[0].open("ab") as file:
        file.write(b"left by a failed write")
    assert bodies(reopen(files, root, checkpoint).queue_log) == [900, 900]
    assert_sound(root)


def test_files_of_another_queue_are_refused(files: Files, root: Path) -> None:
    written(files, root, 400)
    with pytest.raises(FormatError, match="belongs to queue log 5, not to 6"):
        open_queue_log(files, directory_of(root), TOPIC, 0, 6, SEGMENT_SIZE, Checkpoint())


def test_a_foreign_file_is_refused(files: Files, root: Path) -> None:
    written(files, root, 400)
    (directory_of(root) / "notes.log").write_text("remember the milk")
    with pytest.raises(FormatError, match=r"notes\.log: it does not begin with the mark"):
        reopen(files, root)
