from __future__ import annotations

from pathlib import Path

import pytest

from pocketmq.broker.store.metadata.metadata import Metadata
from pocketmq.broker.store.metadata.metadata_gaps import METADATA_LAG_MS, SPANS_MAX, MetadataGaps

T = 1_700_000_000_000


@pytest.fixture
def metadata(tmp_path: Path) -> Metadata:
    return Metadata(tmp_path / "meta.db")


def test_the_time_before_a_stop_is_unsure(metadata: Metadata) -> None:
    times = MetadataGaps(metadata)
    assert T not in times
    times.note_stop(T, T, lost_all=False)
    for known in (times, MetadataGaps(metadata)):
        assert T in known
        assert T - METADATA_LAG_MS in known
        assert T - METADATA_LAG_MS - 1 not in known
        assert T + 1 not in known
    times.note_stop(T + 10, T + 10, lost_all=True)
    assert 0 in MetadataGaps(metadata)
    metadata.close()


def test_not_too_many_are_kept(metadata: Metadata) -> None:
    times = MetadataGaps(metadata)
    step_ms = 2 * METADATA_LAG_MS
    stops = [T + number * step_ms for number in range(SPANS_MAX + 3)]
    for stop_ms in stops:
        times.note_stop(stop_ms, stop_ms, lost_all=False)
    assert all(stop_ms in MetadataGaps(metadata) for stop_ms in stops)
    assert len(times._spans) == SPANS_MAX
    assert stops[-2] + 1 not in times
    metadata.close()
