"""Messages in flight: their times, the first one, what they take of the memory."""

from __future__ import annotations

import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from pocketmq.broker.popping.in_flight import PAGE_SIZE, InFlight, Popped

STEPS = st.lists(
    st.tuples(st.sampled_from("padb"), st.integers(0, 3000), st.integers(1, 10**13)), max_size=80
)


@given(STEPS)
def test_it_behaves_as_a_dictionary_of_offsets(steps: list[tuple[str, int, int]]) -> None:
    flight, model = InFlight(), dict[int, tuple[int, bool]]()
    for kind, offset, due in steps:
        if kind in "pa":
            flight.put(offset, due, due - 1, is_suspended=kind == "a")
            model[offset] = due, kind == "a"
        elif kind == "d":
            assert flight.discard(offset) == (model.pop(offset, None) is not None)
        else:
            flight.discard_before(offset)
            model = {o: entry for o, entry in model.items() if o >= offset}
        assert flight.count == len(model)
        assert flight.first == min(model, default=None)
    assert list(flight) == [Popped(o, d, d - 1, s) for o, (d, s) in sorted(model.items())]
    assert all((offset in flight) == (offset in model) for offset in range(0, 3000, 7))


def test_the_first_is_found_among_many_pages() -> None:
    flight = InFlight()
    for offset in range(0, 300 * PAGE_SIZE, PAGE_SIZE):
        flight.put(offset, 5, 1)
    for offset in range(0, 299 * PAGE_SIZE, PAGE_SIZE):
        assert flight.first == offset
        flight.discard(offset)
    assert flight.first == 299 * PAGE_SIZE


def test_a_page_is_armed_for_its_first_due_message_only() -> None:
    flight = InFlight()
    assert flight.put(3, 1000, 1)
    assert flight.arm(0) == 1000
    assert not flight.put(4, 2000, 1)
    assert flight.put(5, 500, 1)
    assert flight.arm(0) == 500
    assert not flight.disarm(0, 1000), "an earlier time counts now"
    assert flight.disarm(0, 500)
    assert not flight.disarm(0, 500)
    flight.discard(5)
    assert flight.arm(0) == 1000
    flight.clear()
    assert flight.arm(0) is None


def test_a_million_neighbours_take_few_bytes() -> None:
    tracemalloc.start()
    try:
        flight = InFlight()
        for offset in range(100_000):
            flight.put(offset, 1_700_000_000_000, 1_700_000_000_000)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert taken / flight.count < 40
