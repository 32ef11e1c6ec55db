from __future__ import annotations

import copy
import pickle

from pocketmq.protocol.errors import UsageError
from pocketmq.protocol.filters import TEXT_LENGTH_MAX, FilterSyntaxError


def test_the_message_shows_the_place() -> None:
    error = FilterSyntaxError("a = 1 AND b > 'x'", 14, "a number", "put in a number")
    assert str(error) == (
        "the filter expression is wrong at character 15: a number expected, not \"'x'\": put in a "
        "number"
    )
    assert isinstance(error, UsageError)


def test_the_message_says_that_the_text_ended() -> None:
    assert "a value expected, not the end: add" in str(
        FilterSyntaxError("a =", 3, "a value", "add")
    )


def test_the_message_is_short_whatever_the_text() -> None:
    assert len(str(FilterSyntaxError("!" * TEXT_LENGTH_MAX, 0, "a value", "add one"))) < 200


def test_copies_keep_the_data() -> None:
    error = FilterSyntaxError("a =", 3, "a value", "add one")
    for other in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert (other.text, other.position, other.expected, other.remedy) == error.args
