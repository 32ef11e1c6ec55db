"""A member that leads: keeps the in-sync set at the arbiter, and takes followers that join."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any

import msgspec

from pocketmq.broker.config.agreed import difference
from pocketmq.broker.replication.arbiter import Arbiter, ArbiterError
from pocketmq.broker.replication.following import FORMAT, Identity
from pocketmq.broker.replication.joining import LogReport, cuts_for
from pocketmq.broker.replication.leader import Leader
from pocketmq.broker.replication.lease import Lease
from pocketmq.broker.replication.peer import Answer, Peer, Place
from pocketmq.broker.replication.set_state import (
    MemberEntry,
    SetState,
    decode_state,
    encode_state,
)
from pocketmq.broker.store.metadata.log_epochs import LogEpochs
from pocketmq.broker.store.store import MessageStore
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import ContentError, OperatingError, ResponseError, response_error
from pocketmq.protocol.requests.extensions.replication import (
    FollowRequest,
    JoinBrokerSetRequest,
    JoinBrokerSetResponse,
    ReplicateRequest,
    SwitchLeaderRequest,
    SwitchLeaderResponse,
)
from pocketmq.protocol.wire.command import Command
from pocketmq.runtime.clock import Clock, within
from pocketmq.runtime.tasks import Tasks
from pocketmq.transport.connection import Connection, Handler

log = logging.getLogger("pocketmq.replication")

RETRY_S = 0.5
"""How soon the arbiter is asked again that did not answer."""

LOOK_PERIOD_S = 2.0
"""How often a leader looks whether the arbiter knows another one."""

BEATS_PER_LEASE = 6
"""Followers hear of the leader so often during a lease."""

SILENT_SHARE = 2 / 3
"""A follower that was silent for this share of the lease is lost: the rest of the lease is for the
arbiter's answer that the in-sync set is smaller, with which the leader leads on."""


class ConnectionLink:
    """Sends frames to a follower over the connection that the follower has opened."""

    def __init__(self, connection: Connection, timeout_ms: float) -> None:
        self.connection, self._timeout_ms = connection, timeout_ms

    def replicate(
        self, request: ReplicateRequest, body: bytes, on_answer: Callable[[Answer], object]
    ) -> None:
        """See `Link`."""
        command = Command(request.code, header=request, body=body)
        self.connection.send_request(command, self._timeout_ms, on_answer)

    def close(self, reason: str) -> None:
        """See `Link`."""
        self.connection.close(reason)


class Leading:
    """One leadership, from the election to its end.

    Args:
        identity: of this member.
        state, version: of the set, in which this member leads, as the arbiter has it.
        key: of the state.
        arbiter: keeps the state.
        store, epochs: of this member.
        clock: for leases.
        leader: replicates.
        lease_s: see `Lease`.
        lag_s_max: a follower that lacks what was written so long ago leaves the in-sync set.
        before_join: called before a follower gets the metadata: what is only in memory is saved.

    Attributes:
        leader: the same.
        lease: whether this member may act as the leader.
        state: of the set, as far as it is known here.
        ended: done when this member leads no more; why.
        further: what else the leader is asked, by request code.
    """

    def __init__(
        self,
        identity: Identity,
        state: SetState,
        version: int,
        key: str,
        arbiter: Arbiter,
        store: MessageStore,
        epochs: LogEpochs,
        clock: Clock,
        leader: Leader,
        lease_s: float,
        lag_s_max: float,
    ) -> None:
        self._identity, self._key, self._arbiter = identity, key, arbiter
        self.state, self._version, self._lag_s_max = state, version, lag_s_max
        self._store, self._epochs, self._clock = store, epochs, clock.machine
        self.leader, self.lease = leader, Lease(lease_s)
        self.before_join: Callable[[], object] = lambda: None
        self.ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.further: Mapping[int, Handler] = {}
        self._entries: dict[int, MemberEntry] = {}
        self._joining: dict[int, JoinBrokerSetRequest] = {}
        self._coming: set[int] = set()  # caught up, and not in step yet
        self._in_step: set[int] = set()
        self._changed = asyncio.Event()
        self._is_unsure = False
        self._wanted: set[int] = set(state.in_sync)
        self._tasks = Tasks()
        self._is_handing_over = False
        leader.caught_up.add(self._caught_up)
        leader.in_step.add(self._now_in_step)
        leader.lost.add(self._lost)
        leader.heard.add(lambda peer, sent_s: self.lease.heard(peer.member_id, sent_s))
        leader.fenced.add(lambda epoch: self.end(f"a member knows a leader of epoch {epoch}"))
        self._require()

    # -- its life -----------------------------------------------------------------------------

    def start(self) -> None:
        """Holds back what the store commits, and starts to tell followers of this leader."""
        self.leader.begin()
        self._run(self._beat(), "tell followers of their leader")
        self._run(self._keep_set(), "keep the in-sync set")
        self._run(self._look(), "look for another leader")

    def _run(self, coroutine: Coroutine[Any, Any, object], name: str) -> None:
        """Starts a task without which nobody may lead: a mistake in it ends the leadership."""

        def ended(task: asyncio.Task[Any]) -> None:
            if not task.cancelled() and task.exception() is not None:
                self.end(f"a mistake of its own: {name}: {task.exception()!r}")

        self._tasks.spawn(coroutine, name).add_done_callback(ended)

    def end(self, reason: str) -> None:
        """Ends the leadership."""
        if not self.ended.done():
            self.ended.set_result(reason)

    async def close(self) -> None:
        """Ends the tasks."""
        await self._tasks.close()

    @property
    def is_serving(self) -> bool:
        """Whether this member may answer clients as the leader."""
        return (
            not self.ended.done()
            and not self._is_handing_over
            and self.lease.is_valid(self._clock.monotonic())
        )

    @property
    def in_sync_count(self) -> int:
        """How many members have everything that is acknowledged from now on."""
        return len(self.state.in_sync)

    async def _beat(self) -> None:
        period_s = self.lease.lease_s / BEATS_PER_LEASE
        while True:
            await self._clock.sleep(period_s)
            now_s = self._clock.monotonic()
            if not self.lease.is_valid(now_s):
                # Before anybody is dropped: those who have everything may lead in its place.
                self.end("the lease has run out: not all in-sync members were heard of")
                return
            self.leader.keep_alive()
            self.leader.drop_silent(now_s - self.lease.lease_s * SILENT_SHARE)
            self._drop_late(now_s)
            if self._store.disk.failed_reason is not None:
                self.end(self._store.disk.failed_reason)

    def _drop_late(self, now_s: float) -> None:
        """Drops the followers that answer, but do not keep up: senders would wait for them."""
        for member in self.leader.turns.late(now_s - self._lag_s_max):
            peer = self.leader.peers.get(member)
            if peer is not None:
                reason = f"it lacks what was written {self._lag_s_max:g} s ago"
                peer.close(reason)
                self.leader.lost_peer(peer, reason)

    async def _look(self) -> None:
        while True:
            await self._clock.sleep(LOOK_PERIOD_S)
            try:
                await self._read()
            except ArbiterError as e:
                log.info("%s", e)

    # -- the in-sync set ----------------------------------------------------------------------

    def _caught_up(self, peer: Peer) -> None:
        self._coming.add(peer.member_id)
        self._require()

    def _now_in_step(self, peer: Peer) -> None:
        self._in_step.add(peer.member_id)
        self._changed.set()

    def _lost(self, peer: Peer, reason: str) -> None:
        log.warning("member %d of %s is lost: %s", peer.member_id, self._identity.broker_name,
                    reason)  # fmt: skip
        self._in_step.discard(peer.member_id)
        self._coming.discard(peer.member_id)
        self._changed.set()

    def _require(self) -> None:
        """Requires all members that may be in the set that the arbiter holds, or soon are."""
        followers = {*self.state.in_sync} | self._wanted | self._coming
        followers.discard(self._identity.member_id)
        self.leader.turns.require(followers)
        self.lease.require(followers)

    async def _keep_set(self) -> None:
        """Has the arbiter hold the members that are in step."""
        while True:
            wanted = {self._identity.member_id, *self._in_step}
            state = self.state.with_in_sync(wanted, self._entries)
            if state == self.state and not self._is_unsure:
                self._wanted = wanted
                self._require()
                await self._changed.wait()
                self._changed.clear()
                continue
            self._wanted |= wanted
            self._require()
            try:
                if self._is_unsure:
                    await self._read()
                else:
                    await self._write(state)
            except ArbiterError as e:
                log.warning("the in-sync set stays as it is: %s", e)
                self._is_unsure = True
                await self._clock.sleep(RETRY_S)

    async def _write(self, state: SetState) -> bool:
        """Replaces the state; False if somebody else did.

        Raises:
            ArbiterError: nobody knows.
        """
        version = await self._arbiter.write(self._key, encode_state(state), self._version)
        if version is None:
            self._is_unsure = True
            return False
        self._take(state, version)
        return True

    async def _read(self) -> None:
        """Learns which state the arbiter has.

        Raises:
            ArbiterError: it does not answer.
        """
        value, version = await self._arbiter.read(self._key)
        try:
            state = decode_state(value)
        except ContentError as e:
            raise ArbiterError(str(e)) from e
        if state.epoch != self.state.epoch or state.set_id != self.state.set_id:
            self.end(f"member {state.leader_id} leads in epoch {state.epoch}: {state.reason}")
            return
        if version >= self._version:
            self._take(state, version)
            self._is_unsure = False
            self._changed.set()

    def _take(self, state: SetState, version: int) -> None:
        if state.in_sync != self.state.in_sync:
            log.info("in-sync set of %s: %s", self._identity.broker_name, list(state.in_sync))
        self.state, self._version = state, version
        self._wanted = {*state.in_sync}
        self._coming -= self._wanted
        self._require()

    async def restore(self) -> SetState:
        """Writes the state of this leadership to an arbiter that has lost it.

        Raises:
            ArbiterError: nobody knows.
            ResponseError: the arbiter has a state.
        """
        version = await self._arbiter.write(self._key, encode_state(self.state), 0)
        if version is None:
            raise _refused("the arbiter has a state of the set: look again")
        self._take(self.state, version)
        return self.state

    async def forget(self, members: Iterable[int]) -> SetState:
        """Removes members from the set that are gone for good.

        Args:
            members: the ids; of members that follow none.

        Returns:
            the state of the set.

        Raises:
            ResponseError: the set was being changed, or the arbiter does not answer.
        """
        gone = set(members)
        left = {m: entry for m, entry in self.state.members.items() if m not in gone}
        state = msgspec.structs.replace(self.state, members=left)
        try:
            if not await self._write(state):
                raise response_error(
                    ResponseCode.CONTROLLER_INVALID_CLEAN_BROKER_METADATA,
                    "the in-sync set was being changed: try again",
                )
        except ArbiterError as e:
            self._is_unsure = True
            self._changed.set()
            raise response_error(
                ResponseCode.CONTROLLER_INVALID_CLEAN_BROKER_METADATA, str(e)
            ) from e
        for member in gone:
            self._entries.pop(member, None)
        return self.state

    @property
    def version(self) -> int:
        """Of the state: it grows with each change."""
        return self._version

    @property
    def in_sync_followers(self) -> list[int]:
        """The followers that have everything and are connected."""
        mine, peers = self._identity.member_id, self.leader.peers
        return [m for m in self.state.in_sync if m != mine and m in peers]

    # -- handing over -------------------------------------------------------------------------

    async def hand_over(self, member_id: int, reason: str) -> SetState:
        """Has another in-sync member lead, when that has everything; this one ends.

        Args:
            member_id: which; -1 for any.
            reason: of the switch.

        Returns:
            the state of the set.

        Raises:
            ResponseError: no such member is in sync, or the arbiter does not answer; this member
                leads on.
        """
        self._target_of(member_id)
        self._is_handing_over = True  # sends are refused from now on
        try:
            await self._confirm()
            target = self._target_of(member_id)  # whoever left the set meanwhile may lack something
            state = self.state.handed_over(target, self._clock.now_ms(), reason)
            if not await self._write_state(state):
                raise response_error(
                    ResponseCode.CONTROLLER_ELECT_MASTER_FAILED,
                    "the in-sync set was being changed: try again",
                )
        except ArbiterError as e:
            self._is_unsure = True
            self._changed.set()
            raise response_error(ResponseCode.CONTROLLER_ELECT_MASTER_FAILED, str(e)) from e
        finally:
            self._is_handing_over = False
        self.end(f"it has handed over to member {target}: {reason}")
        return state

    def _target_of(self, member_id: int) -> int:
        """The follower that is to lead: one with an id, or any for -1.

        Raises:
            ResponseError: no such member is connected and in sync.
        """
        others = self.in_sync_followers
        target = others[0] if member_id < 0 and others else member_id
        if target not in others:
            raise response_error(
                ResponseCode.CONTROLLER_ELECT_MASTER_FAILED,
                f"member {target if target >= 0 else 'other than the leader'} of "
                f"{self._identity.broker_name} is not in sync: {list(self.state.in_sync)} are",
            )
        return target

    async def _confirm(self) -> None:
        """Returns when all in-sync members live and have everything; they are asked now.

        A machine that is gone is in the set until it was silent for a while, and must not lead.

        Raises:
            ResponseError: somebody does not answer, or this leadership has ended.
        """
        done: asyncio.Future[OperatingError | None] = asyncio.get_running_loop().create_future()

        def answered(error: OperatingError | None) -> None:
            if not done.done():
                done.set_result(error)

        self._store.commit()
        self.leader.when_answered(answered)
        try:
            error = await within(self._clock, self.lease.lease_s, done)
        except TimeoutError:
            error = OperatingError(
                f"not all in-sync members answer within {self.lease.lease_s:g} s: "
                f"{list(self.state.in_sync)}"
            )
        if error is not None:
            raise response_error(ResponseCode.CONTROLLER_ELECT_MASTER_FAILED, str(error))

    async def _write_state(self, state: SetState) -> bool:
        version = await self._arbiter.write(self._key, encode_state(state), self._version)
        return version is not None

    # -- followers ----------------------------------------------------------------------------

    def handlers(self) -> dict[int, Handler]:
        """What followers and operators ask."""
        return {
            **self.further,
            JoinBrokerSetRequest.code: self.join,
            FollowRequest.code: self.follow,
            SwitchLeaderRequest.code: self.switch,
        }

    async def switch(self, command: Command, _: Connection) -> Command:
        """31015: hands over to another member."""
        request = command.read(SwitchLeaderRequest)
        state = await self.hand_over(request.member_id, request.reason or "somebody asked for it")
        header = SwitchLeaderResponse(leader_id=state.leader_id, epoch=state.epoch)
        return Command(ResponseCode.SUCCESS, header=header)

    def join(self, command: Command, connection: Connection) -> Command:
        """31010: tells a member where its logs differ."""
        request = command.read(JoinBrokerSetRequest)
        reports = msgspec.msgpack.decode(command.body, type=list[LogReport])
        self._check(request, is_new=not request.set_id and not reports)
        cuts = cuts_for(reports, self._store, self._epochs)
        self._joining[request.member_id] = request
        header = JoinBrokerSetResponse(
            set_id=self.state.set_id, leader_id=self.state.leader_id, epoch=self.state.epoch
        )
        return Command(ResponseCode.SUCCESS, header=header, body=msgspec.msgpack.encode(cuts))

    def _check(self, request: JoinBrokerSetRequest, *, is_new: bool) -> None:
        identity = self._identity
        own = (identity.cluster, identity.broker_name)
        if (request.cluster_name, request.broker_name) != own:
            raise _refused(
                f"this is broker {identity.broker_name} of {identity.cluster}, not "
                f"{request.broker_name} of {request.cluster_name}: check controllerAddr"
            )
        if request.format != FORMAT:
            raise _refused(
                f"the member speaks format {request.format}, this leader {FORMAT}: run the same "
                f"version of PocketMQ in all members, the newer one last as the leader"
            )
        theirs = msgspec.json.decode(request.settings, type=dict[str, str])
        unequal = difference(identity.agreed, theirs)
        if unequal is not None:
            raise _refused(unequal)
        if request.member_id == identity.member_id:
            raise _refused(f"the leader has the id {identity.member_id} itself: set another "
                           f"brokerId")  # fmt: skip
        if request.set_id != self.state.set_id and not is_new:
            raise _refused(
                f"the member's data is of broker set {request.set_id or 'none'}, this is "
                f"{self.state.set_id}: start the member with an empty storePathRootDir, or bring "
                f"it to its own set"
            )
        known = self.leader.peers.get(request.member_id)
        entry = self._entries.get(request.member_id)
        if known is not None and entry is not None and entry.directory_id != request.directory_id:
            raise _refused(
                f"another member with the id {request.member_id} is connected, at "
                f"{entry.address}: give each member its own brokerId"
            )
        in_sync = self.state.members.get(request.member_id)
        if (
            request.member_id in self.state.in_sync
            and in_sync is not None
            and in_sync.directory_id != request.directory_id
        ):
            # Else the arbiter could have the other directory lead, which lacks what this one gets.
            raise _refused(
                f"member {request.member_id} was in sync with another directory until now: the "
                f"arbiter has to take that one out of the in-sync set first"
            )
        if request.epoch > self.state.epoch:
            self.end(f"member {request.member_id} knows a leader of epoch {request.epoch}")
            raise _refused(f"epoch {request.epoch} is later than this leader's", fenced=True)

    def follow(self, command: Command, connection: Connection) -> Command:
        """31011: starts to replicate to the connection that asks."""
        request = command.read(FollowRequest)
        joined = self._joining.pop(request.member_id, None)
        if joined is None or request.epoch != self.state.epoch:
            raise _refused("the member has to join first, in this epoch")
        rows = msgspec.msgpack.decode(command.body, type=list[tuple[int, int, int]])
        places = {number: Place(position, offset) for number, position, offset in rows}
        self._entries[request.member_id] = MemberEntry(joined.address, joined.directory_id)
        self.before_join()
        link = ConnectionLink(connection, 2000 * self.lease.lease_s)
        peer = self.leader.add_peer(request.member_id, joined.address, link, places)
        connection.attributes["peer"] = peer
        log.info("member %d of %s follows from %s", request.member_id,
                 self._identity.broker_name, connection.remote_address)  # fmt: skip
        self._tasks.spawn(peer.catch_up(), f"member {request.member_id} catches up")
        return Command(ResponseCode.SUCCESS)

    def disconnected(self, connection: Connection) -> None:
        """Notes that a connection is gone, which may be a follower's."""
        peer: Peer | None = connection.attributes.get("peer")
        if peer is not None and self.leader.peers.get(peer.member_id) is peer:
            peer.close(connection.close_reason)
            self.leader.lost_peer(peer, connection.close_reason)


def _refused(reason: str, *, fenced: bool = False) -> ResponseError:
    code = ResponseCode.CONTROLLER_FENCED_MASTER_EPOCH if fenced else ResponseCode.NO_PERMISSION
    return response_error(code, reason)
