from __future__ import annotations

import pickle

import pytest

from pocketmq.protocol import errors
from pocketmq.protocol.codes import ResponseCode

EXAMPLES = [
    errors.IllegalNameError("topic", "a b", "it has a blank"),
    errors.MessageSizeError("body", 5, 4),
    errors.ConfigError("no such key"),
    errors.FrameError("garbled"),
    errors.ContentError("unreadable"),
    errors.ResponseError(1, "text", "127.0.0.1:1"),
    errors.response_error(17, None),
]


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda e: type(e).__name__)
def test_errors_travel_between_processes(error: Exception) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert vars(copy) == vars(error)


@pytest.mark.parametrize(("code", "cls"), errors.ERROR_BY_CODE.items())
def test_every_code_of_the_table_has_its_class(code: int, cls: type[errors.ResponseError]) -> None:
    error = errors.response_error(code, "why", "broker:10911")
    assert type(error) is cls
    assert (error.code, error.remark, error.address) == (code, "why", "broker:10911")
    assert str(error) == f"code {code} ({ResponseCode(code).name}) from broker:10911: why"


def test_other_codes_are_plain_response_errors() -> None:
    assert type(errors.response_error(9999, None)) is errors.ResponseError
    assert str(errors.response_error(9999, None)) == "code 9999 (unknown): no remark"


def test_three_branches() -> None:
    for cls in (errors.UsageError, errors.PeerError, errors.OperatingError):
        assert cls.__bases__[0] is errors.PocketMQError
    assert issubclass(errors.UsageError, ValueError)


def test_the_drawn_tree_is_the_real_one() -> None:
    drawn = {
        word
        for line in (errors.__doc__ or "").splitlines()
        if "── " in line
        for word in line.split("── ")[1].split()[:1]
    }
    real = {
        name
        for name, cls in vars(errors).items()
        if isinstance(cls, type) and issubclass(cls, errors.PocketMQError)
    }
    assert drawn == real - {"PocketMQError"}


def test_texts_name_cause_and_remedy() -> None:
    assert str(errors.MessageSizeError("body", 5_000_000, 4_194_304)) == (
        "the message body has 5000000 bytes, the limit is 4194304: send it in parts, "
        "compress it, or raise maxMessageSize on client and broker"
    )


def test_a_peer_that_does_not_know_a_request_of_this_project_is_told_by_its_release() -> None:
    own = errors.response_error(3, " request type 31040 not supported", "10.0.0.5:10911")
    assert "of a release of PocketMQ that does not know this yet: `pocketmq doctor`" in str(own)
    other = errors.response_error(3, " request type 200050 not supported")
    assert str(other).endswith("not supported")
