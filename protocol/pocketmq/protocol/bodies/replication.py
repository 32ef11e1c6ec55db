"""Bodies with what a member of a broker set has (PocketMQ's own)."""

from __future__ import annotations

import msgspec

from pocketmq.protocol.errors import ContentError


class LogEnd(msgspec.Struct, frozen=True, array_like=True):
    """Where a member's copy of one log ends.

    Attributes:
        number, topic, queue_id: of the log.
        position: its end in bytes, over all that the log ever had.
        offset: of the message that comes next.
        history: (epoch, position) rows: where the leaderships began that the log has records of.
    """

    number: int
    topic: str
    queue_id: int
    position: int
    offset: int
    history: list[tuple[int, int]]


class MemberReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a member of a broker set is and has.

    Attributes:
        cluster, broker_name, member_id, address: its name, and where clients reach it.
        set_id: of the set to which its data belongs; empty for a new directory.
        directory_id: of its data directory.
        epoch: the highest that it has seen.
        role: `leader`, `follower` of a leader that lives, or `waiting`.
        promise_ms: for so long it has promised its leader not to stand for election.
        state: of the set, as the arbiter has it, as JSON; empty if the arbiter has none.
        version: of the state; 0 if the arbiter has none, -1 if it does not answer.
        gap: why acknowledged messages may be missing here; empty if none are.
        told: why the member neither leads nor follows, or what the arbiter's trouble is.
        logs: all that it has.
    """

    cluster: str
    broker_name: str
    member_id: int
    address: str
    set_id: str
    directory_id: str
    epoch: int
    role: str
    promise_ms: int
    state: bytes
    version: int
    gap: str
    told: str
    logs: list[LogEnd]

    def encode(self) -> bytes:
        """Encodes the report."""
        return msgspec.msgpack.encode(self)

    @classmethod
    def decode(cls, data: bytes | memoryview) -> MemberReport:
        """Decodes what `encode` returns.

        Raises:
            ContentError: it cannot be read.
        """
        try:
            return msgspec.msgpack.decode(data, type=cls)
        except msgspec.MsgspecError as e:
            raise ContentError(f"the report of a member cannot be read: {e}") from e
