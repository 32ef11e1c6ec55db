from __future__ import annotations

import contextlib
import enum
from pathlib import Path
from typing import Annotated

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta

from pocketmq.protocol.errors import ConfigError
from pocketmq.runtime.settings import (
    changed_settings,
    load_settings,
    properties_from_text,
    settings_text,
)


class Flush(enum.Enum):
    ASYNC = "ASYNC_FLUSH"
    SYNC = "SYNC_FLUSH"


class Rule(msgspec.Struct, rename="camel", kw_only=True):
    addr: str
    callers: list[str] = []


class Settings(msgspec.Struct, rename="camel", kw_only=True):
    listen_port: Annotated[int, Meta(ge=0, le=65535)] = 9876
    broker_name: str = "broker-a"
    auto_create: bool = True
    flush_disk_type: Flush = Flush.ASYNC
    ratio: float = 0.75
    store_path: str | None = None
    advertise: list[Rule] | None = None
    limits: dict[str, int] = {}


class Named(msgspec.Struct, rename="camel", kw_only=True):
    broker_name: str


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "broker.yaml"


def loaded(path: Path, text: str) -> Settings:
    path.write_text(text, encoding="utf-8")
    return load_settings(path, Settings)


def refusal(path: Path, text: str) -> str:
    with pytest.raises(ConfigError) as e:
        loaded(path, text)
    assert str(path) in str(e.value)
    return str(e.value)


def test_settings_are_read_by_their_wire_names(path: Path) -> None:
    text = """
    # a comment
    listenPort: 10911
    brokerName: größer
    autoCreate: false
    flushDiskType: SYNC_FLUSH
    advertise:
      - addr: 127.0.0.1:10911
        callers: [172.30.76.1/32]
      - addr: broker-a:10911
    limits: {a: 1}
    """
    assert loaded(path, text) == Settings(
        listen_port=10911,
        broker_name="größer",
        auto_create=False,
        flush_disk_type=Flush.SYNC,
        advertise=[
            Rule(addr="127.0.0.1:10911", callers=["172.30.76.1/32"]),
            Rule(addr="broker-a:10911"),
        ],
        limits={"a": 1},
    )


@pytest.mark.parametrize("text", ["", "# only a comment\n", "---\n"])
def test_an_empty_file_leaves_the_defaults(path: Path, text: str) -> None:
    assert loaded(path, text) == Settings()


def test_numbers_and_booleans_may_stand_in_quotes(path: Path) -> None:
    assert loaded(path, "listenPort: '1'\nautoCreate: 'false'") == Settings(
        listen_port=1, auto_create=False
    )


@pytest.mark.parametrize(
    ("key", "right"),
    [
        ("listenport", "listenPort"),
        ("brokerNane", "brokerName"),
        ("broker_name", "brokerName"),
        ("autoCreat", "autoCreate"),
    ],
)
def test_an_unknown_key_names_the_nearest_right_one(path: Path, key: str, right: str) -> None:
    text = refusal(path, f"listenPort: 1\n\n{key}: 2\n")
    assert text == f"{path}, line 3: unknown key {key!r}; did you mean {right!r}?"


def test_an_unknown_key_like_no_other(path: Path) -> None:
    assert "unknown key 'zzz'; no setting has a similar name" in refusal(path, "zzz: 1")


def test_unknown_keys_are_found_at_any_depth(path: Path) -> None:
    text = refusal(path, "advertise:\n  - addr: a:1\n    caller: []\n")
    assert "line 3: unknown key 'caller'; did you mean 'callers'?" in text


def test_a_key_that_stands_twice(path: Path) -> None:
    text = refusal(path, "listenPort: 1\nbrokerName: b\nlistenPort: 2\n")
    assert "line 3: the key 'listenPort' stands twice, first in line 1" in text


def test_merged_keys_may_be_overridden(path: Path) -> None:
    text = "advertise:\n  - &r {addr: a:1, callers: [10.0.0.1]}\n  - {<<: *r, addr: b:1}\n"
    settings = loaded(path, text)
    assert settings.advertise is not None
    assert settings.advertise[1] == Rule(addr="b:1", callers=["10.0.0.1"])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("listenPort: many", "line 1: the value of listenPort does not fit: expected int, got str"),
        ("\nlistenPort: 70000", "line 2: the value of listenPort does not fit: expected int <= 6"),
        ("brokerName: 5", "the value of brokerName does not fit: expected str, got int"),
        ("autoCreate: 7", "the value of autoCreate does not fit: expected bool, got int"),
        ("flushDiskType: NEVER", "the value of flushDiskType does not fit: invalid enum value"),
        ("advertise:\n  - addr: 5", "line 2: the value of advertise[0].addr does not fit"),
        ("advertise:\n  - callers: []", "the value of advertise[0] does not fit: object missing"),
        ("limits: {a: x}", "the value of limits.a does not fit: expected int, got str"),
        ("brokerName: [", "line 1: this is no YAML"),
        ("brokerName: \x07", "this is no YAML: unacceptable character"),
        ("brokerName: *nobody", "this is no YAML: found undefined alias"),
        ("brokerName: !!python/object:x 1", "this is no YAML: could not determine a constructor"),
        ("listenPort=9876\nbrokerName=b\n", "Java properties"),
        ("- a\n- b\n", "lines of the form 'key: value' are expected"),
    ],
)
def test_what_does_not_fit_is_told_with_place_and_reason(
    path: Path, text: str, reason: str
) -> None:
    assert reason in refusal(path, text)


def test_a_missing_required_key(path: Path) -> None:
    path.write_text("")
    with pytest.raises(ConfigError, match="missing required field brokerName"):
        load_settings(path, Named)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.yaml does not exist"):
        load_settings(tmp_path / "nowhere.yaml", Settings)
    with pytest.raises(ConfigError, match="cannot be read"):
        load_settings(tmp_path, Settings)
    binary = tmp_path / "binary.yaml"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="is not UTF-8"):
        load_settings(binary, Settings)


def test_settings_as_properties_text() -> None:
    settings = Settings(
        auto_create=False, store_path="C:\\data\nx", advertise=[Rule(addr="a:1")], limits={"a": 1}
    )
    assert settings_text(settings).splitlines() == [
        'advertise=[{"addr":"a:1","callers":[]}]',
        "autoCreate=false",
        "brokerName=broker-a",
        "flushDiskType=ASYNC_FLUSH",
        'limits={"a":1}',
        "listenPort=9876",
        "ratio=0.75",
        "storePath=C:\\\\data\\nx",
    ]
    assert "storePath" not in settings_text(Settings())


def test_changes_come_as_text() -> None:
    changed = changed_settings(
        Settings(broker_name="b"),
        {"listenPort": "1", "autoCreate": "false", "flushDiskType": "SYNC_FLUSH", "ratio": "0.5"},
    )
    assert changed == Settings(
        listen_port=1,
        broker_name="b",
        auto_create=False,
        flush_disk_type=Flush.SYNC,
        ratio=0.5,
    )


def test_changes_that_do_not_fit() -> None:
    with pytest.raises(ConfigError, match="no setting 'listenPrt'; did you mean 'listenPort'"):
        changed_settings(Settings(), {"listenPrt": "1"})
    with pytest.raises(ConfigError, match="the value of listenPort does not fit: expected int"):
        changed_settings(Settings(), {"listenPort": "x"})


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("a=1\nb = 2\r\nc: 3\nd 4\n", {"a": "1", "b": "2", "c": "3", "d": "4"}),
        ("# comment\n! another\n\n  a=1", {"a": "1"}),
        ("a=1\\\n   2\nb=3", {"a": "12", "b": "3"}),
        ("a\\ b=c\\td\\\\", {"a b": "c\td\\"}),
        ("a=\\u00e9", {"a": "é"}),
        ("a=b=c:d", {"a": "b=c:d"}),
        ("a", {"a": ""}),
        ("", {}),
        ("a=1\\", {"a": "1"}),
    ],
)
def test_java_properties(text: str, pairs: dict[str, str]) -> None:
    assert properties_from_text(text) == pairs


def test_a_broken_escape_in_properties() -> None:
    with pytest.raises(ConfigError, match="four hexadecimal digits"):
        properties_from_text("a=\\u12")


@given(st.text())
def test_no_text_does_more_than_to_be_refused(text: str) -> None:
    with contextlib.suppress(ConfigError):
        properties_from_text(text)


@given(st.text(), st.integers(0, 65535), st.booleans())
def test_what_is_written_is_read_back(name: str, port: int, auto_create: bool) -> None:
    settings = Settings(broker_name=name, listen_port=port, auto_create=auto_create)
    pairs = properties_from_text(settings_text(settings))
    pairs.pop("limits")
    assert changed_settings(Settings(), pairs) == settings
