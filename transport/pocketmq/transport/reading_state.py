"""The states in which a connection reads, as data: which event leads from which state to which."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto


class ReadingState(Enum):
    """How far a connection is with what its peer has sent.

    Attributes:
        READING: takes the frames of each read when they come.
        PUT_OFF: has frames left that it may only take in a later iteration of the loop.
        DRAINING: the peer has closed; takes the frames that came before.
        DRAINING_PUT_OFF: the peer has closed, and frames are left for a later iteration.
    """

    READING = auto()
    PUT_OFF = auto()
    DRAINING = auto()
    DRAINING_PUT_OFF = auto()


class ReadingEvent(Enum):
    """What leads from one state to another.

    Attributes:
        SHARE_USED_UP: more frames have come than may be taken in this iteration of the loop.
        SHARE_RENEWED: a later iteration has come, and it is this connection's place in the queue.
        PEER_CLOSED: the peer sends nothing more; a socket that is read from again says it again.
    """

    SHARE_USED_UP = auto()
    SHARE_RENEWED = auto()
    PEER_CLOSED = auto()


TRANSITIONS: Mapping[ReadingState, Mapping[ReadingEvent, ReadingState]] = {
    ReadingState.READING: {
        ReadingEvent.SHARE_USED_UP: ReadingState.PUT_OFF,
        ReadingEvent.PEER_CLOSED: ReadingState.DRAINING,
    },
    ReadingState.PUT_OFF: {
        ReadingEvent.SHARE_RENEWED: ReadingState.READING,
        ReadingEvent.PEER_CLOSED: ReadingState.DRAINING_PUT_OFF,
    },
    ReadingState.DRAINING: {
        ReadingEvent.SHARE_USED_UP: ReadingState.DRAINING_PUT_OFF,
        ReadingEvent.PEER_CLOSED: ReadingState.DRAINING,
    },
    ReadingState.DRAINING_PUT_OFF: {
        ReadingEvent.SHARE_RENEWED: ReadingState.DRAINING,
        ReadingEvent.PEER_CLOSED: ReadingState.DRAINING_PUT_OFF,
    },
}


def after(state: ReadingState, event: ReadingEvent) -> ReadingState:
    """The state to which an event leads.

    Raises:
        AssertionError: the event cannot happen in this state: the caller has made a mistake.
    """
    following = TRANSITIONS[state].get(event)
    assert following is not None, f"{event.name} while {state.name}"
    return following


class Hold(Enum):
    """Why nothing is read from a connection's peer; several reasons may hold at a time.

    Attributes:
        PUT_OFF: more bytes came while frames were left for a later iteration of the loop.
        UNREAD_ANSWERS: the peer does not read its answers.
        FRAME_BUDGET: its large frame waits for room in the `FrameBudget`.
        WRITE_BACKLOG: what it sends waits for the disk.
        BULK_APPEND: its last request is checked bit by bit.
        WORK_SHARE: its last request waits for a turn of the loop in which less is done.
        TURN_SHARE: its last request waits for its turns.
        KV_CONFIG: its last request changes a name server's KV configuration, or lists much of it.
        SIGNATURE: the large body of its last request is hashed, to check who sent it.
        PERMISSIONS: its last request needs very many permissions, which are looked up.
        PENALTY: its last requests came from strangers.
    """

    PUT_OFF = auto()
    UNREAD_ANSWERS = auto()
    FRAME_BUDGET = auto()
    WRITE_BACKLOG = auto()
    BULK_APPEND = auto()
    WORK_SHARE = auto()
    TURN_SHARE = auto()
    KV_CONFIG = auto()
    SIGNATURE = auto()
    PERMISSIONS = auto()
    PENALTY = auto()


NO_HOLDS: frozenset[Hold] = frozenset()
