"""Requests between members of a broker set, and to its arbiter (PocketMQ's own): 31010 to 31021."""

from __future__ import annotations

from typing import ClassVar

from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.wire.header import Header, RequestHeader


class JoinBrokerSetRequest(RequestHeader, kw_only=True):
    """Asks the leader where a follower's logs differ from its own (31010).

    The body is a `replication.joining.Report`.

    Attributes:
        set_id: of the set to which the follower's data belongs; empty for a new directory.
        directory_id: of the follower's data directory.
        epoch: the highest that the follower has seen.
        format: of what members tell each other.
        address: where clients reach the follower.
        settings: those that must be the same in all members, as JSON.
    """

    code: ClassVar[RequestCode] = RequestCode.JOIN_BROKER_SET

    cluster_name: str
    broker_name: str
    member_id: int
    set_id: str
    directory_id: str
    epoch: int
    format: int
    address: str
    settings: str = "{}"


class JoinBrokerSetResponse(Header, kw_only=True):
    """Tells a follower whom it follows; the body is a `replication.joining.Cuts`."""

    set_id: str
    leader_id: int
    epoch: int


class FollowRequest(RequestHeader, kw_only=True):
    """Asks the leader to replicate to this connection from now on (31011).

    The body tells where each log of the follower ends.
    """

    code: ClassVar[RequestCode] = RequestCode.FOLLOW_BROKER

    member_id: int
    epoch: int


class ReplicateRequest(RequestHeader, kw_only=True):
    """What a leader has written; the answer says that the follower has it (31012).

    Attributes:
        epoch: of the leader.
        sequence: counts the frames of a connection.
        turn: with this frame the follower has all turns up to this one; 0 while it catches up.
        shown: up to this turn all members of the in-sync set have everything.
        lease_ms: for so long the follower promises not to stand for election.
    """

    code: ClassVar[RequestCode] = RequestCode.REPLICATE

    epoch: int
    sequence: int
    turn: int
    shown: int
    lease_ms: int = 0


class ReplicateResponse(Header, kw_only=True):
    """Says that a follower has a frame, or the epoch for which it refuses."""

    epoch: int


class ArbiterReadRequest(RequestHeader, kw_only=True):
    """Asks the arbiter in a name server for the value of a key (31013)."""

    code: ClassVar[RequestCode] = RequestCode.ARBITER_READ

    key: str


class ArbiterReadResponse(Header, kw_only=True):
    """Tells the version of a value, which is the body; version 0 says that there is none."""

    version: int


class ArbiterWriteRequest(RequestHeader, kw_only=True):
    """Replaces the value of a key if it still has a version (31014); the body is the new one."""

    code: ClassVar[RequestCode] = RequestCode.ARBITER_WRITE

    key: str
    version: int


class ArbiterWriteResponse(Header, kw_only=True):
    """Tells the version that the key has now, and whether it was replaced."""

    version: int
    replaced: bool


class SwitchLeaderRequest(RequestHeader, kw_only=True):
    """Asks a leader to hand over to another member (31015).

    Attributes:
        member_id: to whom; -1 for any member of the in-sync set.
        reason: what is told as the cause of the switch.
    """

    code: ClassVar[RequestCode] = RequestCode.SWITCH_LEADER

    member_id: int = -1
    reason: str = ""


class SwitchLeaderResponse(Header, kw_only=True):
    """Tells who leads now, in which epoch."""

    leader_id: int
    epoch: int


class DescribeMemberRequest(RequestHeader, kw_only=True):
    """Asks a member of a broker set what it has (31020); the answer's body is a `MemberReport`."""

    code: ClassVar[RequestCode] = RequestCode.DESCRIBE_MEMBER


class ElectMemberRequest(RequestHeader, kw_only=True):
    """Has the member that is asked lead its broker set from now on (31021).

    Attributes:
        version: of the set's state that whoever asks has seen; another one is refused.
        epoch: the highest that any member has seen.
        unclean: also if the member is not in sync, or the arbiter has no state any more.
        reason: what is told as the cause of the election.
    """

    code: ClassVar[RequestCode] = RequestCode.ELECT_MEMBER

    version: int
    epoch: int = 0
    unclean: bool = False
    reason: str = ""


class ElectMemberResponse(Header, kw_only=True):
    """Tells who leads now, in which epoch."""

    leader_id: int
    epoch: int
