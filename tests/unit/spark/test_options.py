"""Options are read strictly: a misspelt one is an error that names the right one."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from pocketmq.protocol.signing import Credentials
from pocketmq.spark.errors import OptionError
from pocketmq.spark.options import MEBIBYTE, read_options, write_options

NAMESRV = {"namesrvAddr": "a:9876;b:9876"}


def test_defaults() -> None:
    written = write_options({**NAMESRV, "topic": "Orders"})
    assert (written.topic, written.routing, written.batch_bytes) == ("Orders", "auto", 4 * MEBIBYTE)
    read = read_options({**NAMESRV, "subscribe": "Orders"})
    assert (read.starting_offsets, read.ending_offsets) == ("earliest", "latest")
    assert read.fail_on_data_loss
    assert read.include_properties


def test_options_travel_to_tasks() -> None:
    options = write_options({**NAMESRV, "topic": "Orders", "batchRows": "7"})
    assert pickle.loads(pickle.dumps(options)) == options


def test_names_are_not_case_sensitive_and_have_aliases() -> None:
    options = read_options(
        {"NAMESERVER": "a:9876", "Topic": "A, B,A", "includeHeaders": "false", "group": "g"}
    )
    assert options.namesrv_addr == "a:9876"
    assert options.topics == ("A", "B")
    assert not options.include_properties
    assert options.consumer_group == "g"
    assert write_options({**NAMESRV, "subscribe": "T"}).topic == "T"


def test_the_name_servers_can_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", "env:9876")
    assert write_options({"topic": "T"}).namesrv_addr == "env:9876"
    monkeypatch.delenv("NAMESRV_ADDR")
    with pytest.raises(OptionError, match="'namesrvAddr' is missing"):
        write_options({"topic": "T"})


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"topik": "T"}, "unknown option 'topik'; did you mean 'topic'"),
        ({"topic": "T", "batchByte": "1"}, "did you mean 'batchBytes'"),
        ({"topic": "T", "batchBytes": "many"}, "option 'batchBytes' is 'many'"),
        ({"topic": "T", "batchBytes": "0"}, "must be at least 1"),
        ({"topic": "T", "batchBytes": str(64 * MEBIBYTE)}, "do not fit a frame"),
        ({"topic": "T", "retryTimesWhenSendFailed": "-1"}, "must be at least 0"),
        ({"topic": "T", "routing": "keys"}, "did you mean 'key'"),
        ({"topic": "a b"}, "illegal"),
        ({"topic": "T", "subscribe": "U"}, "given twice"),
        ({"topic": "T", "kafka.bootstrap.servers": "x"}, "given by 'namesrvAddr'"),
        ({"topic": "T", "namesrvAddr": "nowhere"}, "option 'namesrvAddr'"),
    ],
)
def test_what_does_not_fit_is_refused(options: dict[str, str], text: str) -> None:
    with pytest.raises(OptionError, match=text):
        write_options({**NAMESRV, **options})


def test_a_read_needs_topics() -> None:
    with pytest.raises(OptionError, match="names no topic"):
        read_options({**NAMESRV, "subscribe": " , "})


def test_credentials_come_from_a_file_and_are_not_shown(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text("AccessKey=alice\nSecretKey=s3cret\n")
    path.chmod(0o600)
    options = write_options({**NAMESRV, "topic": "T", "credentialsFile": str(path)})
    assert options.credentials == Credentials("alice", "s3cret")
    assert pickle.loads(pickle.dumps(options)) == options
    assert "s3cret" not in repr(options)
    assert options.client().credentials == options.credentials
    with pytest.raises(OptionError, match=r"'credentialsFile': .*cannot be read"):
        read_options({**NAMESRV, "topic": "T", "credentialsFile": str(tmp_path / "none")})


@pytest.mark.parametrize("name", ["secretKey", "accessKey", "credentials"])
def test_secrets_are_no_options(name: str) -> None:
    with pytest.raises(OptionError, match="credentialsFile") as caught:
        read_options({**NAMESRV, "topic": "T", name: "s3cret"})
    assert "s3cret" not in str(caught.value)
