"""A member of a broker set: leads or follows, as the arbiter's state of the set says.

The arbiter only keeps the state. Members elect themselves: one that is in the in-sync set and has
not heard of its leader for the time of its promise writes the next epoch with itself as the leader,
by compare-and-set. A leader whose port is closed is dead, or at least serves nobody there: then the
promise need not run out. What is acknowledged does not depend on that, since a leader cannot gather
acknowledgements of members that know a later epoch.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import random
from collections.abc import Callable, Mapping
from typing import Protocol

from pocketmq.broker.replication.arbiter import Arbiter, ArbiterError, state_key
from pocketmq.broker.replication.following import PROMISE_MARGIN, Following, Identity
from pocketmq.broker.replication.leader import Leader
from pocketmq.broker.replication.leading import Leading
from pocketmq.broker.replication.set_state import (
    MemberEntry,
    SetState,
    decode_state,
    encode_state,
    founded,
)
from pocketmq.broker.store.disk.errors import StoreError
from pocketmq.broker.store.metadata.log_epochs import LogEpochs
from pocketmq.broker.store.metadata.metadata import SET_ID
from pocketmq.broker.store.store import MessageStore
from pocketmq.protocol.errors import ContentError, OperatingError, PocketMQError
from pocketmq.runtime.clock import Clock, within
from pocketmq.transport.connection import Connection, Handler
from pocketmq.transport.errors import ConnectError
from pocketmq.transport.pool import ConnectionPool

log = logging.getLogger("pocketmq.replication")

RETRY_S, RETRY_S_MIN = 0.5, 0.03
"""How soon a member tries again what failed; a join sooner at first: a leader that was just elected
listens in a moment."""

RANK_DELAY_S = 0.3
"""The second of the members that could be elected waits so long for the first one, and so on."""

EPOCH, DIRECTORY_ID = "member_epoch", "member_directory_id"
"""Under these keys the metadata keeps the highest epoch seen, and the directory's id."""

FLUSHES, INCOMPLETE = "member_flushes", "member_incomplete"
"""Under these keys it keeps whether the last run flushed before it answered, and whether what was
acknowledged may be missing: the machine stopped, and not all was flushed."""

DAMAGED_NAMED_MAX = 5
"""So many damaged queues are named."""

REASONS_MAX = 16
"""So many different reasons why it neither leads nor follows are logged once; then all again."""

Dial = Callable[[Mapping[int, Handler], Callable[[Connection], object]], ConnectionPool]


class Serving(Protocol):
    """What a broker does beside replicating; each of the first two ends the one before."""

    async def lead(self, leading: Leading) -> None:
        """Serves clients as the leader; returns when it is registered."""

    async def rest(self, following: Following | None, state: SetState | None) -> None:
        """Serves what a follower serves; None while there is no leader to follow."""


class MemberSettings(Protocol):
    """What a member needs of a broker's configuration."""

    @property
    def waits_for_replicas(self) -> bool: ...  # noqa: D102
    @property
    def slave_timeout(self) -> int: ...  # noqa: D102
    @property
    def leader_lease(self) -> int: ...  # noqa: D102
    @property
    def ha_max_time_slave_not_catchup(self) -> int: ...  # noqa: D102
    @property
    def flushes_at_once(self) -> bool: ...  # noqa: D102


class Member:
    """Runs one member.

    Args:
        identity: of the member.
        settings: of the broker.
        store: of the broker.
        arbiter: of the set.
        dial: makes a pool of connections with handlers for what leaders ask.
        serving: the broker.
        clock: for promises.
        chance: makes ids.

    Attributes:
        identity, arbiter: the same.
        key: of the set's state.
        leading: the leadership of this member; None while it does not lead.
        following: the connection to its leader; None without one.
        told: why it neither leads nor follows, or what happened last.
        accepted_epoch: in which somebody wants this member to lead whatever it lacks.
    """

    def __init__(
        self,
        identity: Identity,
        settings: Callable[[], MemberSettings],
        store: MessageStore,
        arbiter: Arbiter,
        dial: Dial,
        serving: Serving,
        clock: Clock,
        chance: random.Random,
    ) -> None:
        self._random = chance
        self.identity, self._settings, self._store = identity, settings, store
        self.arbiter, self._dial, self._serving = arbiter, dial, serving
        self._wall, self._clock = clock, clock.machine
        self._epochs = LogEpochs(store.metadata)
        self.key = state_key(identity.cluster, identity.broker_name)
        self._replicated: dict[int, int] = {}
        self._promised_until_s = self._clock.monotonic() + self._promise_s
        self.told = ""
        self._logged: set[str] = set()
        self.accepted_epoch = 0
        self._join_pause_s = RETRY_S_MIN
        self.leading: Leading | None = None
        self.following: Following | None = None

    @property
    def _promise_s(self) -> float:
        return self._settings().leader_lease / 1000 * PROMISE_MARGIN

    @property
    def promise_left_s(self) -> float:
        """For so long this member has promised its leader not to stand for election."""
        return self._promised_until_s - self._clock.monotonic()

    @property
    def seen_epoch(self) -> int:
        """The highest epoch that this member has seen."""
        return int(self._store.metadata.state(EPOCH) or 0)

    def _see(self, epoch: int) -> None:
        if epoch > self.seen_epoch:
            self._store.metadata.set_state(EPOCH, str(epoch), durably=True)

    @property
    def entry(self) -> MemberEntry:
        """This member in the set's state."""
        return MemberEntry(self.identity.address, self.identity.directory_id)

    def _note_losses(self) -> None:
        """Notes durably whether something acknowledged may be missing, and how this run flushes."""
        metadata = self._store.metadata
        if self._store.lost_power and self.seen_epoch and metadata.state(FLUSHES) != "yes":
            metadata.set_state(INCOMPLETE, "yes")
        flushes = "yes" if self._settings().flushes_at_once else "no"
        metadata.set_state(FLUSHES, flushes, durably=True)

    def _is_complete_again(self) -> None:
        if self._store.metadata.state(INCOMPLETE) is not None:
            self._store.metadata.remove_state(INCOMPLETE)

    @property
    def gap(self) -> str:
        """Why this member may lack what was acknowledged, and must not be elected; empty if not."""
        if self._store.metadata.state(INCOMPLETE) is not None:
            return (
                "its machine stopped before everything was flushed (flushDiskType: ASYNC_FLUSH), "
                "so acknowledged messages may be missing here"
            )
        if damaged := [f"{error.topic} {error.queue_id}" for error in self._store.damaged]:
            return f"queues are damaged here: {', '.join(damaged[:DAMAGED_NAMED_MAX])}"
        return ""

    def _check_disk(self) -> None:
        """Refuses to take part while nobody knows what the disk holds.

        Raises:
            OperatingError: a flush has failed.
        """
        if self._store.disk.failed_reason is not None:
            raise OperatingError(f"it neither leads nor follows: {self._store.disk.failed_reason}")

    async def run(self) -> None:
        """Leads or follows, until it is cancelled."""
        self._note_losses()
        while True:
            try:
                self._check_disk()
                state, version = await self.read()
                if state is None:
                    await self._found(version)
                elif state.leader_id == self.identity.member_id:
                    await self._claim(state, version)
                else:
                    await self._follow(state, version)
            except (PocketMQError, OSError) as e:
                self._tell(str(e))
                await self._clock.sleep(RETRY_S)

    def _tell(self, reason: str) -> None:
        """Logs a reason once, until this member leads or follows again."""
        if reason not in self._logged:
            log.warning("member %d of %s: %s", self.identity.member_id,
                        self.identity.broker_name, reason)  # fmt: skip
            if len(self._logged) >= REASONS_MAX:
                self._logged.clear()
            self._logged.add(reason)
        self.told = reason

    async def read(self) -> tuple[SetState | None, int]:
        """The set's state, as the arbiter has it, and its version; 0 if there is none.

        Raises:
            ArbiterError: it does not answer, or has something else.
        """
        value, version = await self.arbiter.read(self.key)
        if not version:
            return None, 0
        try:
            return decode_state(value), version
        except ContentError as e:
            raise ArbiterError(str(e)) from e

    # -- leading ------------------------------------------------------------------------------

    async def _found(self, version: int) -> None:
        """Begins a new set with this member's data.

        Raises:
            OperatingError: this member was in a set already, which the arbiter does not know.
        """
        if self.seen_epoch:
            raise OperatingError(
                f"the arbiter knows no broker set {self.identity.broker_name}, but this member "
                f"has been in one up to epoch {self.seen_epoch}: was the arbiter's data lost, or "
                f"is it another arbiter? Correct controllerAddr, or have the member with the most "
                f"data lead by `pocketmq broker elect --unclean`"
            )
        now_ms = self._wall.now_ms()
        state = founded(
            new_id(self._random), self.identity.member_id, self.entry, now_ms, "the set is new"
        )
        await self._win(state, version)

    async def _claim(self, state: SetState, version: int) -> None:
        """Leads because the arbiter says so: appointed by the last leader, or after a restart.

        Raises:
            OperatingError: the leader with this id has other data.
        """
        own = self._store.metadata.state(SET_ID)
        if own is not None:
            self._check_set(own, state)
        if state.leader.directory_id != self.identity.directory_id:
            raise OperatingError(
                f"member {state.leader_id} at {state.leader.address} leads, with another data "
                f"directory than this one: if it lives, give this member a brokerId of its own; "
                f"if its directory is lost, an in-sync member will be elected in its place"
            )
        if self.gap and state.epoch != self.accepted_epoch:
            raise OperatingError(
                f"it was the leader, and does not lead again: {self.gap}. Another in-sync member "
                f"will be elected; if there is none, `pocketmq broker elect --unclean` has the "
                f"member lead that has most"
            )
        if state.epoch > self.seen_epoch:
            if state.epoch == self.accepted_epoch:
                self._is_complete_again()  # what is here is what the set has, from now on
            await self._take_over(state, version)
            return
        now_ms = self._wall.now_ms()
        elected = state.elected(self.identity.member_id, self.entry, now_ms, "it was restarted")
        await self._win(elected, version)

    def _check_writable(self) -> None:
        """Stays out of an election whose epoch could not be noted here: nobody would lead then.

        Raises:
            WriteFailedError: the metadata cannot be written, for the disk is full, for example.
        """
        self._store.metadata.set_state(EPOCH, str(self.seen_epoch), durably=True)

    async def _win(self, state: SetState, version: int) -> None:
        self._check_writable()
        won = await self.arbiter.write(self.key, encode_state(state), version)
        if won is not None:
            await self._lead(state, won)

    async def _take_over(self, state: SetState, version: int) -> None:
        """Leads in an epoch that another member has begun for this one."""
        if state.in_sync == (self.identity.member_id,):
            await self._lead(state, version)
        else:  # the others must not be elected any more when readers see what is here alone
            await self._win(state.alone(), version)

    async def _lead(self, state: SetState, version: int) -> None:
        """Leads until this leadership ends."""
        metadata, settings = self._store.metadata, self._settings()
        metadata.set_state(SET_ID, state.set_id)
        self._see(state.epoch)
        log.info("member %d leads %s in epoch %d: %s", self.identity.member_id,
                 self.identity.broker_name, state.epoch, state.reason)  # fmt: skip
        for queue_log in self._store.logs.open_logs():
            queue_log.show(queue_log.written_position, queue_log.written_offset)
        self._store.logs.renew_numbers()
        leader = Leader(
            self._store, self._epochs, self._clock, state.epoch,
            waits=settings.waits_for_replicas, timeout_ms=settings.slave_timeout,
            lease_ms=settings.leader_lease,
        )  # fmt: skip
        leading = Leading(
            self.identity, state, version, self.key, self.arbiter, self._store, self._epochs,
            self._clock, leader, settings.leader_lease / 1000,
            settings.ha_max_time_slave_not_catchup / 1000,
        )  # fmt: skip
        self._replicated.clear()
        reason = "this member stops"
        try:
            leading.start()
            self.leading = leading
            self._logged.clear()
            await self._serving.lead(leading)
            reason = await leading.ended
            self._tell(f"it leads no more: {reason}")
        finally:
            self.leading, self._join_pause_s = None, RETRY_S_MIN
            await leading.close()
            leader.end(StoreError(f"this member leads no more: {reason}"))
            # If another one leads now, it has to take over first: as much time as others give it.
            self._promised_until_s = self._clock.monotonic() + self._promise_s
            await self._serving.rest(None, None)
            await self._store.drain()
            leader.detach()

    # -- following ----------------------------------------------------------------------------

    async def _follow(self, state: SetState, version: int) -> None:
        """Follows the leader until it is lost, and stands for election then.

        Raises:
            OperatingError: this member's data is of another set; nothing in it was changed.
        """
        own = self._store.metadata.state(SET_ID)
        if own is not None:
            self._check_set(own, state)
            self._see(state.epoch)
            self.told = ""
        following = Following(
            self.identity, self._store, self._epochs, self._wall,
            flush_sync=lambda: self._settings().flushes_at_once, replicated=self._replicated,
        )  # fmt: skip
        following.seen_epoch = self.seen_epoch
        following.caught_up = self._is_complete_again
        pool = self._dial(following.handlers(), following.lost)
        is_dead, joined_s = False, math.inf
        try:
            await self._serving.rest(following, state)
            connection = await pool.get(state.leader.address)
            await following.join(
                connection,
                state,
                self._store.metadata.state(SET_ID) or "",
                self._settings().leader_lease,
            )
            self._see(following.seen_epoch)
            self.following, joined_s = following, self._clock.monotonic()
            self._logged.clear()
            log.info("member %d of %s follows member %d in epoch %d", self.identity.member_id,
                     self.identity.broker_name, state.leader_id, state.epoch)  # fmt: skip
            self._tell(await self._until_lost(following))
            if following.is_disconnected:
                # Now, not after the arbiter has answered: a container's address goes away soon
                # after the process, and then nobody says any more that the port is closed.
                with contextlib.suppress(TimeoutError):
                    await within(self._clock, RETRY_S, pool.get(state.leader.address))
        except ConnectError as e:
            is_dead = isinstance(e.__cause__, ConnectionRefusedError)
            self._tell(str(e))
        except (PocketMQError, OSError) as e:
            self._tell(str(e))
        finally:
            self.following = None
            following.end("it ends")
            self._promised_until_s = max(self._promised_until_s, following.promised_until_s)
            await pool.close()
            following.follower.save_offsets()
        if not await self._stand(state, is_dead=is_dead):
            # A leader that is lost after a while may have handed over, or its port is closed: look.
            if self._clock.monotonic() - joined_s > RETRY_S:
                self._join_pause_s = RETRY_S_MIN
                return
            await self._clock.sleep(self._join_pause_s)
            self._join_pause_s = min(2 * self._join_pause_s, RETRY_S)

    def _check_set(self, own: str, state: SetState) -> None:
        if own != state.set_id:
            raise OperatingError(
                f"the member's data is of broker set {own}, but the arbiter has {state.set_id} "
                f"under the name {self.identity.broker_name}: correct controllerAddr or "
                f"brokerName, or start this member with an empty storePathRootDir"
            )

    async def _until_lost(self, following: Following) -> str:
        """Returns when the leader is lost, or was silent for as long as it may be; why."""
        following.promised_until_s = self._clock.monotonic() + self._promise_s
        while not following.ended.done():
            left_s = following.promised_until_s - self._clock.monotonic()
            if left_s <= 0:
                return "the leader is silent"
            with contextlib.suppress(TimeoutError):
                await within(self._clock, left_s, asyncio.shield(following.ended))
        return following.ended.result()

    async def _stand(self, state: SetState, *, is_dead: bool) -> bool:
        """Stands for election if the leader is gone; whether this member was elected."""
        if not is_dead and self._clock.monotonic() < self._promised_until_s:
            return False
        if self.gap:
            self._tell(f"it does not stand for election: {self.gap}")
            return False
        mine = self.identity.member_id
        now, _ = await self.read()  # the set may have grown since this member began to follow
        if now is None or now.epoch != state.epoch:
            return False
        candidates = [m for m in now.in_sync if m != now.leader_id]
        if mine not in candidates:
            return False
        await self._clock.sleep(candidates.index(mine) * RANK_DELAY_S)
        now, version = await self.read()
        if now is None or now.epoch != state.epoch or mine not in now.in_sync:
            return False
        if now.members[mine].directory_id != self.identity.directory_id:
            return False  # the directory that is in sync was another one
        reason = "its port is closed" if is_dead else "it was silent for too long"
        elected = now.elected(
            mine,
            self.entry,
            self._wall.now_ms(),
            f"member {state.leader_id} is gone: {reason}",
        )
        self._check_writable()
        won = await self.arbiter.write(self.key, encode_state(elected), version)
        if won is None:
            return False
        await self._lead(elected, won)
        return True


def directory_id(store: MessageStore, chance: random.Random) -> str:
    """The id of a data directory, which is made with the first use."""
    known = store.metadata.state(DIRECTORY_ID)
    if known is None:
        known = new_id(chance)
        store.metadata.set_state(DIRECTORY_ID, known, durably=True)
    return known


def new_id(chance: random.Random) -> str:
    """Makes an id that nobody else has."""
    return f"{chance.getrandbits(128):032x}"
