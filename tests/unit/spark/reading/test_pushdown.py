"""Whatever is pushed, what is read is no less than the conditions leave."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.spark.reading.offsets import Range

ds = pytest.importorskip("pyspark.sql.datasource")
if not hasattr(ds, "EqualTo"):
    pytest.skip("this PySpark tells a source no conditions", allow_module_level=True)

from pocketmq.spark.reading.pushdown import CLOCK_STEP_MS_MAX, Pushed  # noqa: E402

COMPARISONS: dict[Any, Any] = {
    ds.EqualTo: lambda a, b: a == b,
    ds.EqualNullSafe: lambda a, b: a == b,
    ds.GreaterThan: lambda a, b: a > b,
    ds.GreaterThanOrEqual: lambda a, b: a >= b,
    ds.LessThan: lambda a, b: a < b,
    ds.LessThanOrEqual: lambda a, b: a <= b,
    ds.In: lambda a, b: a in b,
}
ONE = st.sampled_from([c for c in COMPARISONS if c is not ds.In])
OFFSET = st.integers(-2, 12)
CONDITION = st.one_of(
    st.builds(lambda cls, o: cls(("queueOffset",), o), ONE, OFFSET),
    st.builds(lambda os: ds.In(("queueOffset",), tuple(os)), st.lists(OFFSET, max_size=3)),
    st.builds(lambda cls, q: cls(("queueId",), q), ONE, st.integers(-1, 3)),
    st.builds(lambda qs: ds.In(("queueId",), tuple(qs)), st.lists(st.integers(0, 3), max_size=2)),
)


def holds(condition: Any, place: dict[str, int]) -> bool:
    met: bool = COMPARISONS[type(condition)](place[condition.attribute[0]], condition.value)
    return met


@given(st.lists(CONDITION, max_size=4))
def test_what_is_read_and_left_is_what_the_conditions_say(conditions: list[Any]) -> None:
    pushed = Pushed()
    left = pushed.take(conditions)
    found = set()
    for queue_id in range(3):
        queue = MessageQueue("Orders", "a", queue_id)
        if not pushed.takes_queue(queue):
            continue
        cut = pushed.cut(Range(queue, 0, 10))
        assert 0 <= cut.start <= cut.end
        for offset in range(cut.start, cut.end):
            if all(holds(c, {"queueId": queue_id, "queueOffset": offset}) for c in left):
                found.add((queue_id, offset))
    assert found == {
        (q, o)
        for q in range(3)
        for o in range(10)
        if all(holds(c, {"queueId": q, "queueOffset": o}) for c in conditions)
    }


def test_times_leave_room_for_a_clock_that_was_set() -> None:
    at = datetime(2026, 11, 21, tzinfo=UTC)
    at_ms = int(at.timestamp() * 1000)
    pushed = Pushed()
    both = [ds.GreaterThan(("storeTimestamp",), at), ds.LessThanOrEqual(("storeTimestamp",), at)]
    assert pushed.take(both) == both
    assert pushed.times_ms == (at_ms - CLOCK_STEP_MS_MAX, at_ms + CLOCK_STEP_MS_MAX + 1)
    assert Pushed().times_ms == (None, None)
    # A time without a zone could be any.
    naive = Pushed()
    naive.take([ds.EqualTo(("storeTimestamp",), at.replace(tzinfo=None))])
    assert naive.times_ms == (None, None)
