"""What the arbiter knows of a broker set: who leads in which epoch, and who is in sync.

Pure. All changes of it are made by compare-and-set, so that of two members that see the same state
only one succeeds.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from pocketmq.protocol.errors import ContentError


class MemberEntry(msgspec.Struct, frozen=True, rename="camel"):
    """One member of a broker set.

    Attributes:
        address: where clients and other members reach it.
        directory_id: of its data directory.
    """

    address: str
    directory_id: str


class SetState(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The state of one broker set.

    Attributes:
        set_id: of the set; members keep it beside their data.
        epoch: of the leader; a new one with each leadership.
        leader_id: the leader.
        in_sync: the members that have everything that was acknowledged, the leader among them.
        members: all members that were ever in sync, by id.
        changed_ms: when the leader changed.
        reason: why.
    """

    set_id: str
    epoch: int
    leader_id: int
    in_sync: tuple[int, ...]
    members: dict[int, MemberEntry]
    changed_ms: int
    reason: str

    @property
    def leader(self) -> MemberEntry:
        """The leader's entry."""
        return self.members[self.leader_id]

    def elected(self, member_id: int, entry: MemberEntry, now_ms: int, reason: str) -> SetState:
        """The state in which a member leads in the next epoch, at first alone in the set.

        The others come into the set again when they have cut off what the new leader lacks.
        """
        return msgspec.structs.replace(
            self,
            epoch=self.epoch + 1,
            leader_id=member_id,
            in_sync=(member_id,),
            members={**self.members, member_id: entry},
            changed_ms=now_ms,
            reason=reason,
        )

    def handed_over(self, member_id: int, now_ms: int, reason: str) -> SetState:
        """The state in which a member is to lead in the next epoch that has all the leader has.

        The others have all of that, too. They stay in the set until the member takes over
        (`alone`): should it die before, one of them is elected.
        """
        return msgspec.structs.replace(
            self,
            epoch=self.epoch + 1,
            leader_id=member_id,
            changed_ms=now_ms,
            reason=reason,
        )

    def alone(self) -> SetState:
        """The state in which only the leader is in sync: readers may see all that it has."""
        return msgspec.structs.replace(self, in_sync=(self.leader_id,))

    def with_in_sync(self, members: Iterable[int], entries: dict[int, MemberEntry]) -> SetState:
        """The state with another in-sync set.

        Args:
            members: the ids.
            entries: of members, as they are now.
        """
        in_sync = tuple(sorted({*members, self.leader_id}))
        return msgspec.structs.replace(self, in_sync=in_sync, members={**self.members, **entries})


def founded(set_id: str, member_id: int, entry: MemberEntry, now_ms: int, reason: str) -> SetState:
    """The first state of a set."""
    return SetState(
        set_id=set_id,
        epoch=1,
        leader_id=member_id,
        in_sync=(member_id,),
        members={member_id: entry},
        changed_ms=now_ms,
        reason=reason,
    )


def encode_state(state: SetState) -> bytes:
    """Encodes a state as JSON."""
    return msgspec.json.encode(state)


def decode_state(data: bytes) -> SetState:
    """Decodes what `encode_state` returns.

    Raises:
        ContentError: it is no state of a set.
    """
    try:
        state = msgspec.json.decode(data, type=SetState)
    except msgspec.MsgspecError as e:
        raise ContentError(f"the arbiter holds no state of a broker set: {e}") from e
    if state.leader_id not in state.members or state.leader_id not in state.in_sync:
        raise ContentError("the arbiter holds a state whose leader is no member of the set")
    return state
