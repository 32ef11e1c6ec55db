"""Options of a stream that is read: those of a batch read without an end, and a batch's limits."""

from __future__ import annotations

import re
from collections.abc import Mapping

from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.spark.errors import OptionError
from pocketmq.spark.options import TOOLS_CONSUMER, ReadOptions, read_options_of
from pocketmq.spark.reading import offsets
from pocketmq.spark.reading.selection import assigned_queues, read_assignment
from pocketmq.spark.reading.time_bounds import read_timestamp

_DURATION = re.compile(r"(\d+) *(ms|s|m|min|h|d)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


class StreamOptions(ReadOptions, rename="camel", frozen=True, kw_only=True):
    """How a stream is read.

    Attributes:
        starting_offsets: where a new query begins: `latest`, or what a batch read takes. A query
            that is started again goes on where its checkpoint says; new queues begin at their
            start.
        max_offsets_per_trigger: messages of one batch, spread over the queues.
        min_offsets_per_trigger: a batch waits until there are so many.
        max_trigger_delay: but not longer than this.
        consumer_group: the group whose offsets are committed in the brokers; by default none.
    """

    starting_offsets: str = "latest"
    max_offsets_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_trigger_delay: str = "15m"

    @property
    def named_topics(self) -> tuple[str, ...]:
        """The topics of `subscribe` or `assign`; none with a pattern.

        Raises:
            OptionError: `assign` cannot be read.
        """
        return tuple(read_assignment(self.assign)) if self.assign else self.topics

    @property
    def assigned(self) -> frozenset[MessageQueue] | None:
        """The queues of `assign`; None if whole topics are read.

        Raises:
            OptionError: it cannot be read.
        """
        return frozenset(assigned_queues(read_assignment(self.assign))) if self.assign else None

    @property
    def has_group(self) -> bool:
        """Whether a group was named, whose offsets are to be committed."""
        return self.consumer_group != TOOLS_CONSUMER

    @property
    def max_trigger_delay_s(self) -> float:
        """How long a batch waits for more messages at the most.

        Raises:
            OptionError: it is no duration.
        """
        match = _DURATION.fullmatch(self.max_trigger_delay.strip().lower())
        if match is None:
            raise OptionError(
                f"option 'maxTriggerDelay' is {self.max_trigger_delay!r}: give a number and a unit "
                f"(ms, s, m, h, d), as in 15m"
            )
        return int(match.group(1)) * _SECONDS[match.group(2)]


STREAM_ONLY = frozenset(StreamOptions.__struct_encode_fields__) - frozenset(
    ReadOptions.__struct_encode_fields__
)


def stream_options(given: Mapping[str, str]) -> StreamOptions:
    """Reads the options of a stream.

    Raises:
        OptionError: an option is unknown, missing or does not fit.
    """
    if ending := sorted(name for name in given if name.lower().startswith("ending")):
        raise OptionError(f"option {ending[0]!r}: a stream has no end; it is for batch reads")
    options = read_options_of(StreamOptions, given)
    least, most = options.min_offsets_per_trigger, options.max_offsets_per_trigger
    if least is not None and most is not None and least > most:
        raise OptionError(
            f"option 'minOffsetsPerTrigger' is {least}, more than {most} of 'maxOffsetsPerTrigger'"
        )
    if options.drop_repeats and options.commit_topic in options.named_topics:
        raise OptionError(
            f"option 'dropRepeats' reads {options.commit_topic} for what it says of other topics: "
            f"read it by itself without that"
        )
    assert options.max_trigger_delay_s >= 0
    # Read once more when the query begins; an error is better raised before.
    starting = options.starting_offsets.strip()
    if starting.startswith("{"):
        offsets.starting(starting)
    elif starting.lower() not in ("latest", "earliest"):
        raise OptionError(
            f"option 'startingOffsets' is {starting!r}: a stream takes 'latest', 'earliest' or a "
            f'table {{"topic": {{"broker": {{"queue": offset}}}}}}'
        )
    if options.starting_timestamp:
        read_timestamp("startingTimestamp", options.starting_timestamp)
    return options


def columns_options(given: Mapping[str, str]) -> ReadOptions:
    """Reads the options of a read that may be a batch or a stream, to find its columns.

    Raises:
        OptionError: an option is unknown, missing or does not fit.
    """
    return read_options_of(StreamOptions, given)


def check_batch_read(given: Mapping[str, str]) -> None:
    """Checks that a batch read has no option that only a stream has.

    Raises:
        OptionError: it is.
    """
    known = {name.lower(): name for name in STREAM_ONLY}
    if names := sorted(known[name.lower()] for name in given if name.lower() in known):
        raise OptionError(f"option {names[0]!r} is for streams: use spark.readStream")
