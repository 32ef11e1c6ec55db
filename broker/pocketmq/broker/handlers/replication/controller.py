"""What RocketMQ's controllers answer about broker sets: 1002, 1005, 1006, 1009 to 1011.

There is no controller: members elect themselves (`replication.member`). Any member answers in its
place, for all sets of its cluster, and passes on to a set's leader what only that may do.
"""

from __future__ import annotations

import msgspec

from pocketmq.auth.settings import SECRET_KEYS
from pocketmq.broker.config.config import BrokerConfig
from pocketmq.broker.replication.arbiter import Arbiter, ArbiterError, Versioned, state_key
from pocketmq.broker.replication.following import Identity
from pocketmq.broker.replication.leading import Leading
from pocketmq.broker.replication.set_state import SetState, decode_state
from pocketmq.protocol.bodies.controller import (
    BrokerReplicasInfo,
    ElectedMaster,
    ReplicaIdentity,
    ReplicasInfo,
    names_of_request,
)
from pocketmq.protocol.bodies.routes import MemberGroup
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.errors import ContentError, PocketMQError, ResponseError, response_error
from pocketmq.protocol.requests.brokers import (
    CleanBrokerDataRequest,
    ControllerMetadataResponse,
    ElectMasterRequest,
    ElectMasterResponse,
    SyncStateRequest,
)
from pocketmq.protocol.wire.command import Command
from pocketmq.protocol.wire.header import RequestHeader
from pocketmq.runtime.settings import properties_from_text, properties_text, settings_text
from pocketmq.transport.connection import Connection, Handler
from pocketmq.transport.pool import ConnectionPool

TIMEOUT_MS = 2500
"""How long a leader may take; mqadmin waits 3 s for the whole answer."""

_INT_MAX = (1 << 31) - 1

SHOWN_KEYS = frozenset(
    {
        "brokerClusterName", "brokerId", "brokerName", "brokerRole", "controllerAddr",
        "enableControllerMode", "leaderLease", "minInSyncReplicas", "namesrvAddr",
        "slaveTimeout",
    }
)  # fmt: skip
"""The settings on which elections and the in-sync set depend."""


class ControllerHandlers:
    """Answers about broker sets.

    Args:
        identity: of this member.
        config: of the broker.
        arbiter: keeps the states of the sets.
        pool: connects to leaders.
        leading: the leadership; None while it follows.
    """

    def __init__(
        self,
        identity: Identity,
        config: BrokerConfig,
        arbiter: Arbiter,
        pool: ConnectionPool,
        leading: Leading | None,
    ) -> None:
        self._identity, self._config, self._arbiter = identity, config, arbiter
        self._pool, self._leading = pool, leading

    def table(self) -> dict[int, Handler]:
        """The handlers by request code."""
        return {
            RequestCode.CONTROLLER_GET_METADATA_INFO: self.metadata,
            RequestCode.CONTROLLER_GET_SYNC_STATE_DATA: self.sync_state,
            RequestCode.CONTROLLER_ELECT_MASTER: self.elect,
            RequestCode.CLEAN_BROKER_DATA: self.clean,
            RequestCode.GET_CONTROLLER_CONFIG: self.config,
            RequestCode.UPDATE_CONTROLLER_CONFIG: self.update_config,
        }

    def metadata(self, _: Command, __: Connection) -> Command:
        """1005: this member is as good as any other."""
        member = f"n{self._identity.member_id}"
        header = ControllerMetadataResponse(
            group=self._identity.broker_name,
            controller_leader_id=member,
            controller_leader_address=self._identity.address,
            is_leader=True,
            peers=f"{member}:{self._identity.address}",
        )
        return Command(ResponseCode.SUCCESS, header=header)

    def config(self, _: Command, __: Connection) -> Command:
        """1010: of this member's settings those that concern the set."""
        settings = properties_from_text(settings_text(self._config, SECRET_KEYS))
        shown = {key: value for key, value in settings.items() if key in SHOWN_KEYS}
        return Command(ResponseCode.SUCCESS, body=properties_text(shown).encode())

    def update_config(self, _: Command, __: Connection) -> Command:
        """1009: nothing of it changes while the members run."""
        raise response_error(
            ResponseCode.NO_PERMISSION,
            "Can not update config in black list. What concerns a broker set is read at the start: "
            "change it in the configuration files of all members and restart them, followers first",
        )

    # -- who is in sync -----------------------------------------------------------------------

    async def sync_state(self, command: Command, _: Connection) -> Command:
        """1006: of each set that exists, as its leader knows it, else as the arbiter does."""
        names = names_of_request(command.body)
        is_passed_on = bool(command.read(SyncStateRequest).is_passed_on)
        body = BrokerReplicasInfo()
        for name in names:
            info = await self._replicas(name, is_passed_on=is_passed_on)
            if info is not None:
                body.replicas_info_table[name] = info
        return Command(ResponseCode.SUCCESS, body=body.encode())

    async def _replicas(self, name: str, *, is_passed_on: bool) -> ReplicasInfo | None:
        leading = self._leading
        if leading is not None and name == self._identity.broker_name:
            alive = {self._identity.member_id, *leading.leader.peers}
            return _shown(name, leading.state, leading.version, alive)
        value, version = await self._read(self._identity.cluster, name)
        if not version:
            return None
        state = _decoded(value)
        if not is_passed_on and state.leader.address != self._identity.address:
            request = SyncStateRequest(is_passed_on=True)
            try:
                answer = await self._pool.ask(
                    state.leader.address, request, TIMEOUT_MS, msgspec.json.encode([name])
                )
                told = BrokerReplicasInfo.decode(answer.body).replicas_info_table.get(name)
            except PocketMQError:
                told = None  # the leader is not there, and nobody else knows who is alive
            if told is not None:
                return told
        return _shown(name, state, version, None)

    async def _read(self, cluster: str, name: str) -> Versioned:
        try:
            return await self._arbiter.read(state_key(cluster, name))
        except ArbiterError as e:
            raise response_error(ResponseCode.SYSTEM_ERROR, str(e)) from e

    # -- who leads ----------------------------------------------------------------------------

    async def elect(self, command: Command, _: Connection) -> Command:
        """1002: the planned switch, to a member that is in sync (designateElect or not)."""
        request = command.read(ElectMasterRequest)
        leading = self._leading_of(request.cluster_name, request.broker_name)
        if leading is None:
            passed_on = msgspec.structs.replace(request, is_passed_on=True)
            return await self._pass_on(
                request.cluster_name, request.broker_name, passed_on, is_last=request.is_passed_on
            )
        if request.broker_id == self._identity.member_id:
            raise response_error(
                ResponseCode.CONTROLLER_MASTER_STILL_EXIST,
                f"member {request.broker_id} of {request.broker_name} leads already",
            )
        state = await leading.hand_over(request.broker_id, "electMaster")
        members = {m: entry.address for m, entry in state.members.items() if m != state.leader_id}
        body = ElectedMaster(
            broker_member_group=MemberGroup(
                cluster=request.cluster_name,
                broker_name=request.broker_name,
                broker_addrs={0: state.leader.address, **members},
            ),
            sync_state_set=list(state.in_sync),
        )
        header = ElectMasterResponse(
            master_broker_id=state.leader_id,
            master_address=state.leader.address,
            master_epoch=state.epoch,
            sync_state_set_epoch=_short(leading.version + 1),
        )
        return Command(ResponseCode.SUCCESS, header=header, body=body.encode(quote_keys=True))

    async def clean(self, command: Command, _: Connection) -> Command:
        """1011: forgets members; one that comes back joins again, with what data it has."""
        request = command.read(CleanBrokerDataRequest)
        cluster = request.cluster_name or self._identity.cluster
        leading = self._leading_of(cluster, request.broker_name)
        if leading is None:
            passed_on = msgspec.structs.replace(request, is_passed_on=True)
            return await self._pass_on(
                cluster, request.broker_name, passed_on, is_last=request.is_passed_on
            )
        known = leading.state.members.keys()
        alive = {self._identity.member_id, *leading.leader.peers}
        ids = _ids(request.broker_controller_ids_to_clean)
        gone = {*(known - alive if ids is None else ids)}
        if unknown := sorted(gone - known):
            raise _not_cleaned(f"{request.broker_name} has no members {unknown}: {sorted(known)}")
        if alive & gone:
            raise _not_cleaned(
                f"members {sorted(alive & gone)} of {request.broker_name} are alive: stop them"
            )
        if in_sync := sorted(gone & set(leading.state.in_sync)):
            raise _not_cleaned(f"members {in_sync} of {request.broker_name} are in sync")
        await leading.forget(gone)
        return Command(ResponseCode.SUCCESS)

    def _leading_of(self, cluster: str, name: str) -> Leading | None:
        own = (self._identity.cluster, self._identity.broker_name)
        return self._leading if (cluster, name) == own else None

    async def _pass_on(
        self, cluster: str, name: str, request: RequestHeader, *, is_last: bool | None
    ) -> Command:
        """Has the leader of a set answer."""
        value, version = await self._read(cluster, name)
        if not version:
            raise response_error(
                ResponseCode.CONTROLLER_BROKER_METADATA_NOT_EXIST,
                f"there is no broker set {name} in {cluster}",
            )
        state = _decoded(value)
        address = state.leader.address
        try:
            if is_last or address == self._identity.address:
                raise response_error(
                    ResponseCode.CONTROLLER_MASTER_NOT_AVAILABLE, "it is being elected"
                )
            answer = await self._pool.ask(address, request, TIMEOUT_MS)
        except ResponseError:
            raise
        except PocketMQError as e:
            raise response_error(
                ResponseCode.CONTROLLER_MASTER_NOT_AVAILABLE,
                f"member {state.leader_id} leads {name} and does not answer: {e}",
            ) from e
        if request.code == RequestCode.CLEAN_BROKER_DATA:
            return Command(ResponseCode.SUCCESS)
        header = answer.read(ElectMasterResponse)
        return Command(ResponseCode.SUCCESS, header=header, body=answer.body)


def _decoded(value: bytes) -> SetState:
    try:
        return decode_state(value)
    except ContentError as e:
        raise response_error(ResponseCode.SYSTEM_ERROR, str(e)) from e


def _shown(name: str, state: SetState, version: int, alive: set[int] | None) -> ReplicasInfo:
    members = [
        ReplicaIdentity(
            broker_name=name,
            broker_id=member,
            broker_address=entry.address,
            alive=None if alive is None else member in alive,
        )
        for member, entry in sorted(state.members.items())
    ]
    return ReplicasInfo(
        master_broker_id=state.leader_id,
        master_address=state.leader.address,
        master_epoch=state.epoch,
        sync_state_set_epoch=_short(version),
        in_sync_replicas=[m for m in members if m.broker_id in state.in_sync],
        not_in_sync_replicas=[m for m in members if m.broker_id not in state.in_sync],
    )


def _short(version: int) -> int:
    """A version as RocketMQ's clients can read it, in 32 bits."""
    return version & _INT_MAX


def _ids(text: str | None) -> set[int] | None:
    if not text:
        return None
    try:
        return {int(part) for part in text.split(";") if part.strip()}
    except ValueError as e:
        raise _not_cleaned(f"{text!r} is no list of ids such as 1;2") from e


def _not_cleaned(reason: str) -> ResponseError:
    return response_error(ResponseCode.CONTROLLER_INVALID_CLEAN_BROKER_METADATA, reason)
