from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.client.copying import message_files
from pocketmq.client.copying.message_files import LineSplitter, file_documents, file_lines
from pocketmq.protocol.errors import ConfigError, UsageError

CHUNKS = st.lists(st.text("ab-\n", max_size=8).map(str.encode), max_size=12)


@given(CHUNKS, st.sampled_from([b"\n", b"-", b"--", b"-a-", b"a\nb"]))
def test_lines_are_the_same_however_the_bytes_come(chunks: list[bytes], delimiter: bytes) -> None:
    splitter = LineSplitter(delimiter)
    found = [line for chunk in chunks for line in splitter.feed(chunk)]
    *whole, last = b"".join(chunks).split(delimiter)
    assert found == whole
    assert list(splitter.finish()) == ([last] if last else [])
    assert splitter.number == len(whole) + bool(last)


def test_a_line_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_files, "LINE_SIZE_MAX", 10)
    splitter = LineSplitter()
    assert list(splitter.feed(b"0123456789\n01234")) == [b"0123456789"]
    with pytest.raises(UsageError, match="line 2 is longer than 10 bytes"):
        list(splitter.feed(b"567890"))


def test_a_file_is_read_from_a_line_on(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"one\n \n\nfour\r\nfive")
    assert list(file_lines(path)) == [(1, b"one"), (4, b"four\r"), (5, b"five")]
    assert list(file_lines(path, 5)) == [(5, b"five")]
    with pytest.raises(ConfigError, match="cannot be read"):
        list(file_lines(tmp_path))


def test_a_line_that_is_no_message_is_named(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_text('{"body": "x"}\n\n{"body": "y", "keys": ["a b"]}')
    documents = file_documents(path)
    assert next(documents)[1].content == b"x"
    with pytest.raises(ConfigError, match="lines:3: a key is empty or holds a space"):
        next(documents)
