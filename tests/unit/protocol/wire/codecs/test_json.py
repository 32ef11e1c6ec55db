from __future__ import annotations

import json as standard_json

import pytest
from hypothesis import given
from support.protocol.strategies import commands, essence

from pocketmq.protocol.codes import LanguageCode
from pocketmq.protocol.errors import FrameError
from pocketmq.protocol.requests.sending import SendMessageResponse
from pocketmq.protocol.wire.codecs import json
from pocketmq.protocol.wire.command import Codec, Command
from pocketmq.protocol.wire.header import NoFields


@given(commands(Codec.JSON))
def test_round_trip(sent: Command) -> None:
    read = json.decode(json.encode(sent), sent.body)
    assert essence(read) == essence(sent)
    assert read.fields == sent.fields
    if sent.header is not None:
        assert read.read(type(sent.header)) == sent.header
    if sent.fields:
        assert json.encode(read) == json.encode(sent)


@given(commands(Codec.JSON))
def test_writes_standard_json_with_sorted_keys_and_text_values(sent: Command) -> None:
    header = standard_json.loads(json.encode(sent))
    assert list(header) == sorted(header)
    assert header["serializeTypeCurrentRPC"] == "JSON"
    fields = header.get("extFields", {})
    assert list(fields) == sorted(fields)
    assert all(isinstance(value, str) for value in fields.values())


def test_a_response_with_a_header_class_but_no_values_has_an_empty_table() -> None:
    """As the real server writes it; one without a header class has no table at all."""
    assert b'"extFields":{},' in json.encode(Command(0, header=NoFields()))
    assert b"extFields" not in json.encode(Command(0))


def test_extra_fields_stand_among_the_others() -> None:
    header = SendMessageResponse(msg_id="m", queue_id=1, queue_offset=2, trace_on=True)
    encoded = json.encode(Command(0, header=header, extra={"pocketmq": "1"}))
    assert (
        b'"extFields":{"TRACE_ON":"true","msgId":"m","pocketmq":"1",'
        b'"queueId":"1","queueOffset":"2"}'
    ) in encoded


def test_escapes_as_the_real_client_does() -> None:
    encoded = json.encode(Command(0, remark='a\x01\x02"\\/\u2028é'))
    assert '"remark":"a\\u0001\\u0002\\"\\\\/\u2028é"'.encode() in encoded


def test_a_command_of_another_codec_is_written_as_text() -> None:
    command = Command(0, raw={"flag": True, "count": 3, "gone": None})
    assert b'"extFields":{"count":"3","flag":"true"},' in json.encode(command)


def test_reads_what_other_clients_write() -> None:
    command = json.decode(
        b' {"version":"401","language":"GO","code":"105","opaque":-3,"flag":2,"unknown":[{}],'
        b'"extFields":null,"remark":null} ',
        b"body",
    )
    assert (command.code, command.version, command.opaque, command.flag) == (105, 401, -3, 2)
    assert (command.language, command.remark, command.body) == (LanguageCode.GO, None, b"body")
    assert command.fields == {}


@pytest.mark.parametrize(
    ("language", "expected"),
    [
        (b'"JAVA"', LanguageCode.JAVA),
        (b'"KLINGON"', LanguageCode.OTHER),
        (b"null", LanguageCode.OTHER),
        (b"12", LanguageCode.RUST),
    ],
)
def test_language(language: bytes, expected: LanguageCode) -> None:
    assert json.decode(b'{"code":1,"language":%b}' % language, b"").language == expected


def test_an_unknown_language_number_is_written_as_other() -> None:
    assert b'"language":"OTHER"' in json.encode(Command(1, language=99))


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"{}",
        b'{"code":null}',
        b'{"code":"ten"}',
        b'{"code":1.5}',
        b'{"code":1}}',
        b'{"code":1,"remark":5}',
        b'{"code":1,"remark":"\xff"}',
        b'{"code":1,"language":[]}',
        b'{"code":%b}' % (b"9" * 5000),
        b'{"code":1,"extFields":%b}' % (b"[" * 1_000_000 + b"]" * 1_000_000),
        b'{"code":1,"other":%b}' % (b"[" * 1_000_000 + b"]" * 1_000_000),
    ],
)
def test_a_garbled_header_is_refused(header: bytes) -> None:
    with pytest.raises(FrameError, match="the JSON header cannot be read"):
        json.decode(header, b"")
