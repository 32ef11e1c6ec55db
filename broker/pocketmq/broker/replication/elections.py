"""Elections by an operator: what a member has, and how somebody has it lead."""

from __future__ import annotations

import msgspec

from pocketmq.broker.replication.arbiter import ArbiterError
from pocketmq.broker.replication.joining import places_of, report_of
from pocketmq.broker.replication.member import Member
from pocketmq.broker.replication.peer import Place
from pocketmq.broker.replication.set_state import SetState, encode_state, founded
from pocketmq.broker.store.metadata.log_epochs import LogEpochs
from pocketmq.broker.store.metadata.metadata import SET_ID
from pocketmq.broker.store.store import MessageStore
from pocketmq.protocol.bodies.replication import LogEnd, MemberReport
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import ResponseError, response_error
from pocketmq.protocol.requests.extensions.replication import (
    DescribeMemberRequest,
    ElectMemberRequest,
    ElectMemberResponse,
)
from pocketmq.protocol.wire.command import Command
from pocketmq.runtime.clock import Clock
from pocketmq.transport.connection import Connection, Handler


class Elections:
    """Answers what an operator asks of one member of a broker set.

    Args:
        member: the member.
        store: of this broker.
        clock: tells when somebody was elected.
    """

    def __init__(self, member: Member, store: MessageStore, clock: Clock) -> None:
        self._member, self._store, self._clock = member, store, clock

    def handlers(self) -> dict[int, Handler]:
        """What is asked."""
        return {DescribeMemberRequest.code: self.describe, ElectMemberRequest.code: self.elect}

    async def describe(self, command: Command, _: Connection) -> Command:
        """31020: tells what this member has, and what the arbiter tells it."""
        command.read(DescribeMemberRequest)
        member, identity = self._member, self._member.identity
        told, state, version = member.told, None, -1
        try:
            state, version = await member.read()
        except ArbiterError as e:
            told = str(e)
        report = MemberReport(
            cluster=identity.cluster,
            broker_name=identity.broker_name,
            member_id=identity.member_id,
            address=identity.address,
            set_id=self._set_id,
            directory_id=identity.directory_id,
            epoch=member.seen_epoch,
            role=self._role,
            promise_ms=max(0, round(member.promise_left_s * 1000)),
            state=b"" if state is None else encode_state(state),
            version=version,
            gap=member.gap,
            told="" if self._role != "waiting" and version > 0 else told,
            logs=self._logs(),
        )
        return Command(ResponseCode.SUCCESS, body=report.encode())

    @property
    def _set_id(self) -> str:
        return self._store.metadata.state(SET_ID) or ""

    @property
    def _role(self) -> str:
        if self._member.leading is not None:
            return "leader"
        return "waiting" if self._member.following is None else "follower"

    def _logs(self) -> list[LogEnd]:
        places = places_of(self._store)
        return [
            LogEnd(
                log.number, log.topic, log.queue_id, log.position,
                places.get(log.number, Place(0, 0)).offset,
                [(start.epoch, start.position) for start in log.history],
            )
            for log in report_of(self._store, LogEpochs(self._store.metadata))
        ]  # fmt: skip

    async def elect(self, command: Command, _: Connection) -> Command:
        """31021: has this member lead, though nobody else has said so."""
        request = command.read(ElectMemberRequest)
        member = self._member
        try:
            state, version = await member.read()
            if version != request.version:
                raise _refused(
                    f"the arbiter has version {version} of the set's state by now, not "
                    f"{request.version}: look again"
                )
            if member.leading is not None:
                if state is not None:
                    raise _refused("it leads already")
                restored = await member.leading.restore()
                return _elected(restored)
            if member.following is not None:
                raise _refused("it follows a leader that lives: use `pocketmq broker switch`")
            if member.promise_left_s > 0:
                raise _refused(
                    f"its leader was heard of, or may have been: it can be elected in "
                    f"{member.promise_left_s:.1f} s"
                )
            elected = self._choose(state, request)
            if request.unclean:
                member.accepted_epoch = elected.epoch
            if await member.arbiter.write(member.key, encode_state(elected), version) is None:
                raise _refused("the set's state was changed in the same moment: look again")
        except ArbiterError as e:
            raise _refused(f"nobody knows whether it was elected, look again: {e}") from e
        return _elected(elected)

    def _choose(self, state: SetState | None, request: ElectMemberRequest) -> SetState:
        """The state in which this member leads.

        Raises:
            ResponseError: this member may not.
        """
        member, mine = self._member, self._member.identity.member_id
        if not self._set_id:
            raise _refused("its directory is new: it has no data of the set")
        if state is not None and state.set_id != self._set_id:
            raise _refused(
                f"its data is of broker set {self._set_id}, the arbiter's state of "
                f"{state.set_id}: correct controllerAddr or storePathRootDir"
            )
        now_ms = self._clock.now_ms()
        reason = request.reason or "somebody asked for it"
        if not request.unclean:
            if state is None:
                raise _refused("the arbiter knows no such set: only --unclean can found it again")
            if mine not in state.in_sync:
                raise _refused(
                    f"it is not in sync, only {list(state.in_sync)} are: start one of them, or "
                    f"lose what they have with --unclean"
                )
            if state.members[mine].directory_id != member.identity.directory_id:
                raise _refused("the directory that is in sync was another one: bring it back")
            if member.gap:
                raise _refused(f"{member.gap}: only --unclean has it lead all the same")
            return state.elected(mine, member.entry, now_ms, reason)
        reason = f"unclean: {reason}"
        epoch = max(request.epoch, member.seen_epoch)
        if state is None:
            new = founded(self._set_id, mine, member.entry, now_ms, reason)
            return msgspec.structs.replace(new, epoch=epoch + 1)
        last = msgspec.structs.replace(state, epoch=max(epoch, state.epoch))
        return last.elected(mine, member.entry, now_ms, reason)


def _elected(state: SetState) -> Command:
    header = ElectMemberResponse(leader_id=state.leader_id, epoch=state.epoch)
    return Command(ResponseCode.SUCCESS, header=header)


def _refused(reason: str) -> ResponseError:
    return response_error(ResponseCode.CONTROLLER_ELECT_MASTER_FAILED, reason)
