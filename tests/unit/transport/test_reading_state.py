from __future__ import annotations

import pytest

from pocketmq.transport.reading_state import TRANSITIONS, ReadingEvent, ReadingState, after

PUT_OFF = {ReadingState.PUT_OFF, ReadingState.DRAINING_PUT_OFF}
DRAINING = {ReadingState.DRAINING, ReadingState.DRAINING_PUT_OFF}


@pytest.mark.parametrize("state", ReadingState)
@pytest.mark.parametrize("event", ReadingEvent)
def test_an_event_changes_one_thing_or_cannot_happen(
    state: ReadingState, event: ReadingEvent
) -> None:
    is_put_off, is_draining = state in PUT_OFF, state in DRAINING
    if event is ReadingEvent.PEER_CLOSED:
        is_draining = True
    elif is_put_off == (event is ReadingEvent.SHARE_USED_UP):
        with pytest.raises(AssertionError, match=f"{event.name} while {state.name}"):
            after(state, event)
        return
    else:
        is_put_off = not is_put_off
    following = after(state, event)
    assert (following in PUT_OFF, following in DRAINING) == (is_put_off, is_draining)


def test_every_state_is_in_the_table_and_can_be_reached() -> None:
    reached = {ReadingState.READING}
    for _ in ReadingState:
        reached |= {following for state in reached for following in TRANSITIONS[state].values()}
    assert reached == set(ReadingState) == set(TRANSITIONS)
