"""Records in the place of lost ones."""

from __future__ import annotations

import pytest

from pocketmq.broker.store.log.lost_records import is_lost, lost_records
from pocketmq.broker.store.log.segment import physical_offset
from pocketmq.protocol.messages.records import RECORD_SIZE_MIN, check_record, decode_records

MIN = RECORD_SIZE_MIN + 1


@pytest.mark.parametrize(("count", "size"), [(1, MIN), (1, 5000), (3, 3 * MIN), (7, 7 * MIN + 6)])
def test_they_fill_the_place_exactly(count: int, size: int) -> None:
    data = lost_records(b"T", 4, 9, (1000, 50), (1000 + size, 50 + count), 77)
    assert data is not None
    assert len(data) == size
    found = list(decode_records(data))
    assert [m.queue_offset for m in found] == list(range(50, 50 + count))
    position = 0
    for message in found:
        assert is_lost(data, position)
        assert message.physical_offset == physical_offset(9, 1000 + position)
        assert (message.topic, message.queue_id, message.store_timestamp) == ("T", 4, 77)
        position += check_record(data, position, len(data))
    assert position == size


@pytest.mark.parametrize(("count", "size"), [(0, 500), (-1, 500), (1, MIN - 1), (3, 3 * MIN - 1)])
def test_what_does_not_fit_is_told(count: int, size: int) -> None:
    assert lost_records(b"T", 4, 9, (1000, 50), (1000 + size, 50 + count), 77) is None
