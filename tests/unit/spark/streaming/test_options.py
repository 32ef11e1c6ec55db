"""Options of a stream that is read."""

from __future__ import annotations

import pytest

from pocketmq.spark.errors import OptionError
from pocketmq.spark.streaming.options import (
    StreamOptions,
    check_batch_read,
    columns_options,
    stream_options,
)

WHERE = {"namesrvAddr": "127.0.0.1:9876", "subscribe": "T"}


def options(**given: str) -> StreamOptions:
    return stream_options({**WHERE, **given})


def test_what_a_stream_does_by_itself() -> None:
    found = options()
    assert found.starting_offsets == "latest"
    assert (found.max_offsets_per_trigger, found.min_offsets_per_trigger) == (None, None)
    assert found.max_trigger_delay_s == 15 * 60
    assert not found.has_group
    assert options(consumerGroup="mine").has_group


def test_names_are_taken_in_any_case_as_spark_gives_them() -> None:
    found = options(maxoffsetspertrigger="10", minoffsetspertrigger="5", maxtriggerdelay="2 h")
    assert (found.max_offsets_per_trigger, found.min_offsets_per_trigger) == (10, 5)
    assert found.max_trigger_delay_s == 7200


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"maxOffsetsPerTrigger": "many"}, "'maxOffsetsPerTrigger' is 'many'"),
        ({"maxOffsetsPerTrigger": "0"}, "at least 1"),
        ({"minOffsetsPerTrigger": "-1"}, "at least 1"),
        ({"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"}, "9, more than 8"),
        ({"maxTriggerDelay": "soon"}, "'soon': give a number and a unit"),
        ({"endingOffsets": "latest"}, "has no end"),
        ({"startingOffsets": '{"T"'}, "'startingOffsets' cannot be read"),
        ({"startingOffsets": "erliest"}, "'startingOffsets' is 'erliest'"),
        ({"startingTimestamp": "noon"}, "'startingTimestamp' is 'noon'"),
        ({"dropRepeats": "true", "commitTopic": "T"}, "read it by itself"),
        ({"maxOffsetPerTrigger": "9"}, "did you mean 'maxOffsetsPerTrigger'"),
    ],
)
def test_options_that_cannot_be_meant_are_refused(given: dict[str, str], reason: str) -> None:
    with pytest.raises(OptionError, match=reason):
        options(**given)


def test_the_columns_do_not_depend_on_what_kind_of_read_it_is() -> None:
    both = {**WHERE, "endingOffsets": "latest", "maxOffsetsPerTrigger": "5"}
    assert not columns_options({**both, "includeHeaders": "false"}).include_properties


def test_a_batch_read_has_no_triggers() -> None:
    check_batch_read(WHERE)
    with pytest.raises(OptionError, match=r"'maxOffsetsPerTrigger' is for streams.*readStream"):
        check_batch_read({**WHERE, "maxoffsetspertrigger": "5"})
