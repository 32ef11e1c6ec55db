"""Topics and groups of kombu's queues."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pocketmq.kombu.names import entity_name
from pocketmq.protocol.names.names import check_topic


@given(st.text(min_size=1, max_size=8), st.text(min_size=1, max_size=8))
def test_names_are_legal_and_never_meet(one: str, other: str) -> None:
    check_topic(entity_name(one))
    assert (entity_name(one) == entity_name(other)) == (one == other)


def test_a_name_stays_readable() -> None:
    assert entity_name("celery@web-1.pidbox", "dev_") == "dev_celery%40web-1%2Epidbox"
