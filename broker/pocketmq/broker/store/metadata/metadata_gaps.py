"""Remembers spans of time whose metadata may be lost, by a power cut or with the whole file."""

from __future__ import annotations

import msgspec

from pocketmq.broker.store.metadata.metadata import Metadata

METADATA_LAG_MS = 300_000
"""So long before a power cut, at the most, was metadata written that is not on the disk: the
system writes after half a minute what nobody has flushed."""

SPANS_MAX = 16
"""Spans that are kept apart; with more of them the two oldest become one."""

_KEY = "unsure_times"


class MetadataGaps:
    """Keeps spans of time: a topic created in one of them may be unknown without being deleted.

    They are kept, since what was stored in them may wait for its topic for days.

    Args:
        metadata: where they are kept.
    """

    def __init__(self, metadata: Metadata) -> None:
        self._metadata = metadata
        text = metadata.state(_KEY)
        self._spans = [] if text is None else msgspec.json.decode(text, type=list[tuple[int, int]])

    def __contains__(self, timestamp_ms: int) -> bool:
        return any(since <= timestamp_ms <= until for since, until in self._spans)

    def note_stop(self, stored_ms: int, stopped_ms: int, *, lost_all: bool) -> None:
        """Adds the span before a stop that was not clean.

        Args:
            stored_ms: when the last message was stored that is known to have been.
            stopped_ms: a time from which on none was stored before the stop.
            lost_all: whether the whole metadata was lost.

        Raises:
            WriteFailedError: it is not kept.
        """
        self._spans.append((0 if lost_all else stored_ms - METADATA_LAG_MS, stopped_ms))
        if len(self._spans) > SPANS_MAX:
            (since, _), (_, until), *others = self._spans
            self._spans = [(since, until), *others]
        self._metadata.set_state(_KEY, msgspec.json.encode(self._spans).decode())
