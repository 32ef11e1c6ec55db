"""A member that follows: joins its leader over a connection, and takes what the leader sends."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping

import msgspec

from pocketmq.broker.replication.follower import Follower
from pocketmq.broker.replication.joining import (
    Cuts,
    apply_cuts,
    places_of,
    report_of,
    set_damaged_aside,
)
from pocketmq.broker.replication.set_state import SetState
from pocketmq.broker.store.metadata.log_epochs import LogEpochs
from pocketmq.broker.store.metadata.metadata import SET_ID
from pocketmq.broker.store.store import MessageStore
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import OperatingError, response_error
from pocketmq.protocol.requests.extensions.replication import (
    FollowRequest,
    JoinBrokerSetRequest,
    JoinBrokerSetResponse,
    ReplicateRequest,
    ReplicateResponse,
)
from pocketmq.protocol.wire.command import Command
from pocketmq.protocol.wire.header import RequestHeader
from pocketmq.runtime.clock import Clock
from pocketmq.transport.connection import Connection, Handler

log = logging.getLogger("pocketmq.replication")

FORMAT = 1
"""Of what members tell each other."""


PROMISE_MARGIN = 1.1
"""A follower's clock may run so much faster than its leader's."""


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """Who a member is.

    Attributes:
        cluster, broker_name, member_id: its name.
        address: where clients reach it.
        directory_id: of its data directory.
        agreed: its settings that must be the same in all members.
    """

    cluster: str
    broker_name: str
    member_id: int
    address: str
    directory_id: str
    agreed: dict[str, str] = {}


class Following:
    """One connection to a leader, from the join to its end.

    Args:
        identity: of this member.
        store, epochs: of this member.
        clock: for the promise.
        flush_sync: whether an answer says that the records are on the disk.
        replicated: up to where all in-sync members had a log, by number.

    Attributes:
        follower: applies what comes.
        caught_up: called when this member has everything that the leader had.
        ended: done when the leader is lost, or this member is out of step.
        promised_until_s: before this time this member does not stand for election.
        seen_epoch: the highest epoch that this member knows.
        heard_ms: when the leader's last frame came, and
        written_ms: the last one with records, in milliseconds since the epoch; 0 for never.
        received_size: bytes that came.
        is_disconnected: whether the connection to the leader is gone.
    """

    def __init__(
        self,
        identity: Identity,
        store: MessageStore,
        epochs: LogEpochs,
        clock: Clock,
        *,
        flush_sync: Callable[[], bool],
        replicated: dict[int, int],
    ) -> None:
        self._identity, self._store, self._epochs = identity, store, epochs
        self._wall, self._clock, self._flush_sync = clock, clock.machine, flush_sync
        self.heard_ms = self.written_ms = self.received_size = 0
        self._replicated = replicated
        self.follower = Follower(store, epochs)
        self.follower.shown.add(self._note_shown)
        self.caught_up: Callable[[], object] = lambda: None
        self.ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.promised_until_s = 0.0
        self.seen_epoch = 0
        self._sequence = 0
        self._is_over = self.is_disconnected = False

    def handlers(self) -> Mapping[int, Handler]:
        """What the leader asks."""
        return {ReplicateRequest.code: self.replicate}

    async def join(
        self, connection: Connection, state: SetState, set_id: str, timeout_ms: float
    ) -> None:
        """Compares the logs with the leader's, cuts off what differs, and starts to follow.

        Args:
            connection: to the leader.
            state: of the set, as the arbiter told it.
            set_id: of this member's data; empty for a new directory.
            timeout_ms: how long the leader may take to answer.

        Raises:
            OperatingError: the leader refuses, or is gone.
            WouldLoseError: see `apply_cuts`.
        """
        identity = self._identity
        self.seen_epoch = max(self.seen_epoch, state.epoch)
        request = JoinBrokerSetRequest(
            cluster_name=identity.cluster,
            broker_name=identity.broker_name,
            member_id=identity.member_id,
            set_id=set_id,
            directory_id=identity.directory_id,
            epoch=self.seen_epoch,
            format=FORMAT,
            address=identity.address,
            settings=msgspec.json.encode(identity.agreed).decode(),
        )
        body = msgspec.msgpack.encode(report_of(self._store, self._epochs))
        answer = await _ask(connection, request, body, timeout_ms)
        told = answer.read(JoinBrokerSetResponse)
        if told.epoch < self.seen_epoch:
            raise OperatingError(
                f"{connection.remote_address} leads in epoch {told.epoch}, but there was a leader "
                f"of epoch {self.seen_epoch} already"
            )
        cuts = msgspec.msgpack.decode(answer.body, type=Cuts)
        set_damaged_aside(self._store, self._epochs)
        await apply_cuts(self._store, self._epochs, cuts, self._replicated)
        if told.set_id != set_id:  # before anything of the set's is here
            self._store.metadata.set_state(SET_ID, told.set_id, durably=True)
        places = [(number, *place) for number, place in places_of(self._store).items()]
        await _ask(
            connection,
            FollowRequest(member_id=identity.member_id, epoch=told.epoch),
            msgspec.msgpack.encode(places),
            timeout_ms,
        )

    def replicate(self, command: Command, connection: Connection) -> Command | None:
        """31012: applies what the leader has written, and answers when it is safe."""
        header = command.read(ReplicateRequest)
        answer = ReplicateResponse(epoch=self.seen_epoch)
        if header.epoch < self.seen_epoch or self._is_over:
            return Command(
                ResponseCode.CONTROLLER_FENCED_MASTER_EPOCH,
                remark=f"member {self._identity.member_id} knows a leader of epoch "
                f"{self.seen_epoch}, this one has {header.epoch}",
                header=answer,
            )
        self._sequence += 1
        if header.sequence != self._sequence:
            return self._refuse(f"frame {self._sequence} is missing", answer)
        try:
            was_live = self.follower.is_live
            grown = self.follower.apply(command.body, header.turn)
            if self.follower.is_live and not was_live:
                self.caught_up()
        except (OperatingError, OSError) as e:
            return self._refuse(str(e), answer)
        self.follower.show(header.shown)
        self.heard_ms = self._wall.now_ms()
        self.received_size += len(command.body)
        if grown:
            self.written_ms = self.heard_ms
        promise_s = header.lease_ms / 1000 * PROMISE_MARGIN
        self.promised_until_s = self._clock.monotonic() + promise_s
        if not grown or not self._flush_sync():
            return Command(ResponseCode.SUCCESS, header=answer)
        left = len(grown)

        def flushed(error: OperatingError | None) -> None:
            nonlocal left
            left -= 1
            if error is not None and not self._is_over:
                connection.respond(command, self._refuse(str(error), answer))
            elif not left:
                connection.respond(command, Command(ResponseCode.SUCCESS, header=answer))

        for queue_log in grown:
            self._store.flusher.flush(queue_log, [flushed])
        return None

    def _refuse(self, reason: str, answer: ReplicateResponse) -> Command:
        log.warning("member %d has to join again: %s", self._identity.member_id, reason)
        self.end(reason)
        return Command(ResponseCode.SYSTEM_ERROR, remark=reason, header=answer)

    def _note_shown(self, queue_log: object) -> None:
        number, position = queue_log.number, queue_log.end_position  # type: ignore[attr-defined]
        self._replicated[number] = position

    def end(self, reason: str) -> None:
        """Takes nothing any more."""
        self._is_over = True
        if not self.ended.done():
            self.ended.set_result(reason)

    def lost(self, connection: Connection) -> None:
        """Notes that the connection to the leader is gone."""
        self.is_disconnected = True
        self.end(f"the connection to the leader is lost: {connection.close_reason}")


async def _ask(
    connection: Connection, request: RequestHeader, body: bytes, timeout_ms: float
) -> Command:
    command = Command(request.code, header=request, body=body)
    answer = await connection.call(command, timeout_ms)
    if answer.code != ResponseCode.SUCCESS:
        raise response_error(answer.code, answer.remark, connection.remote_address)
    return answer
