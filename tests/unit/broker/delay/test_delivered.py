from __future__ import annotations

import random

import pytest

from pocketmq.broker.delay.delivered import OFFSETS_PER_PAGE, DeliveredSet
from pocketmq.broker.store.metadata.metadata import Metadata

PAGE = OFFSETS_PER_PAGE


def test_holds_what_was_added_and_keeps_it(metadata: Metadata, chance: random.Random) -> None:
    """Against a set of Python's, with saves and reloads in between."""
    delivered, model, end = DeliveredSet(metadata), set[int](), 5 * PAGE
    for _ in range(12):
        low = chance.randrange(end)
        added = set(range(low, min(end, low + chance.randrange(PAGE))))
        added |= {chance.randrange(end) for _ in range(100)}
        for offset in added:
            delivered.add(offset)
        model |= added
        if chance.random() < 0.5:
            delivered.save()
            delivered = DeliveredSet(metadata)
        asked = [chance.randrange(end + 10) for _ in range(1000)]
        assert [offset in delivered for offset in asked] == [offset in model for offset in asked]
        assert delivered.first_missing == next(o for o in range(end + 1) if o not in model)
        for offset in (*(chance.randrange(end) for _ in range(50)), *range(PAGE - 9, PAGE + 9)):
            expected = next(o for o in range(offset, end + 1) if o not in model)
            assert delivered.next_missing(offset) == expected
            assert not delivered.is_untouched(offset) or offset not in delivered


def test_complete_pages_cost_nothing(metadata: Metadata) -> None:
    delivered = DeliveredSet(metadata)
    for offset in range(PAGE, 2 * PAGE):
        delivered.add(offset)
    delivered.save()
    assert {page: len(bits) for page, bits in metadata.timer_pages().items()} == {1: 0}
    assert DeliveredSet(metadata).next_missing(PAGE) == 2 * PAGE
    for offset in range(PAGE):
        delivered.add(offset)
    delivered.save()
    assert metadata.timer_pages() == {}
    again = DeliveredSet(metadata)
    assert again.first_missing == 2 * PAGE
    assert PAGE in again
    assert 2 * PAGE not in again


@pytest.mark.parametrize("offset", [0, 5, 8, PAGE - 1, PAGE, PAGE + 9, 3 * PAGE + 1])
def test_everything_before_an_offset(metadata: Metadata, offset: int) -> None:
    delivered = DeliveredSet(metadata)
    delivered.add(PAGE + 3)
    delivered.add(offset)
    delivered.add_before(offset)
    assert delivered.first_missing == offset + 1
    delivered.add_before(1)
    assert delivered.first_missing == offset + 1


@pytest.mark.parametrize("offset", [0, 5, PAGE, PAGE + 9, 2 * PAGE - 1, 2 * PAGE, 3 * PAGE])
def test_what_a_power_cut_took_from_the_log_is_taken_away_for_good(
    metadata: Metadata, offset: int
) -> None:
    delivered = DeliveredSet(metadata)
    for added in range(2 * PAGE + 10):
        delivered.add(added)
    delivered.save()
    delivered.add(3 * PAGE - 1)
    delivered.discard_from(offset)
    for known in (delivered, DeliveredSet(metadata)):
        assert known.first_missing == min(offset, 2 * PAGE + 10)
        assert 3 * PAGE - 1 not in known or offset == 3 * PAGE
    delivered.save()
    assert DeliveredSet(metadata).first_missing == min(offset, 2 * PAGE + 10)
