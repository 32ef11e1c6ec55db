from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pocketmq.broker.store.disk.errors import DirectoryError, DirectoryInUseError
from pocketmq.broker.store.disk.lock import DirectoryLock

HOLD = """
import sys
from pathlib import Path
from pocketmq.broker.store.disk.lock import DirectoryLock
lock = DirectoryLock(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


def test_the_directory_is_made(tmp_path: Path) -> None:
    lock = DirectoryLock(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b" / "lock").read_text() == f"{os.getpid()}\n"
    lock.release()
    lock.release()


def test_a_second_owner_in_this_process_is_refused(tmp_path: Path) -> None:
    lock = DirectoryLock(tmp_path)
    with pytest.raises(DirectoryInUseError, match=f"in use by process {os.getpid()}: stop"):
        DirectoryLock(tmp_path)
    lock.release()
    DirectoryLock(tmp_path).release()


@pytest.mark.process
def test_another_process_is_named_and_its_end_frees_the_directory(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(DirectoryInUseError) as caught:
            DirectoryLock(tmp_path)
        assert caught.value.pid == str(holder.pid)
        assert str(tmp_path) in str(caught.value)
        assert "storePathRootDir" in str(caught.value)
        holder.kill()
    DirectoryLock(tmp_path).release()


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DirectoryError, match=r"file/data cannot be used: Not a directory; make"):
        DirectoryLock(tmp_path / "file" / "data")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_directory_is_named(tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    with pytest.raises(DirectoryError, match="Permission denied"):
        DirectoryLock(tmp_path)


def test_a_lock_file_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    (tmp_path / "lock").mkdir()
    with pytest.raises(DirectoryError, match="Is a directory"):
        DirectoryLock(tmp_path)
