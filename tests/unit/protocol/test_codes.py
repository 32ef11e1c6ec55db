from __future__ import annotations

from pocketmq.protocol.codes import (
    LANGUAGE_NAMES,
    LANGUAGES_BY_NAME,
    PROTOCOL_VERSION,
    LanguageCode,
    RequestCode,
    ResponseCode,
    Version,
)
from pocketmq.protocol.wire.codecs.binary import CODE_MAX


def test_well_known_numbers() -> None:
    assert (RequestCode.SEND_MESSAGE_V2, RequestCode.PULL_MESSAGE) == (310, 11)
    assert (ResponseCode.SUCCESS, ResponseCode.TOPIC_NOT_EXIST) == (0, 17)
    assert int(ResponseCode.GO_AWAY) == 1500
    assert (LanguageCode.JAVA, LanguageCode.PYTHON, LanguageCode.RUST) == (0, 3, 12)
    assert int(Version.V5_5_0) == PROTOCOL_VERSION


def test_own_codes_fit_every_codec() -> None:
    own = [code for code in RequestCode if 31000 <= code < 32000]
    assert own == [
        RequestCode.BULK_APPEND,
        RequestCode.BULK_PULL,
        RequestCode.AUTH_TELL,
        RequestCode.AUTH_GET_TABLE,
        RequestCode.JOIN_BROKER_SET,
        RequestCode.FOLLOW_BROKER,
        RequestCode.REPLICATE,
        RequestCode.ARBITER_READ,
        RequestCode.ARBITER_WRITE,
        RequestCode.SWITCH_LEADER,
        RequestCode.BACKUP_TABLES,
        RequestCode.BACKUP_LOGS,
        RequestCode.DESCRIBE_MEMBER,
        RequestCode.ELECT_MEMBER,
        RequestCode.TOPIC_FIGURES,
        RequestCode.IN_FLIGHT,
        RequestCode.PLAN_REDRIVE,
        RequestCode.START_REDRIVE,
        RequestCode.CHANGE_REDRIVE,
        RequestCode.LIST_REDRIVES,
        RequestCode.REDRIVE_RESULTS,
        RequestCode.DEAD_LETTER_STATES,
    ]
    assert max(own) <= CODE_MAX


def test_no_number_has_two_names() -> None:
    for codes in (RequestCode, ResponseCode, LanguageCode, Version):
        assert len(codes) == len(codes.__members__)


def test_language_tables_are_each_other_s_reverse() -> None:
    assert {name: number for number, name in LANGUAGE_NAMES.items()} == LANGUAGES_BY_NAME
