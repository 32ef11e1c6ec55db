"""What RocketMQ's controllers answer, of a name server with an arbiter: 1002, 1005 to 1011.

The arbiter decides nothing, and so names a member that does: any leader answers for all sets. It
answers itself who was in sync last, since no member may live.
"""

from __future__ import annotations

import msgspec

from pocketmq.auth.settings import SECRET_KEYS
from pocketmq.namesrv.arbiter import ArbiterFile
from pocketmq.namesrv.config import NamesrvConfig
from pocketmq.namesrv.route_table import RouteTable
from pocketmq.protocol.bodies.controller import (
    BrokerReplicasInfo,
    ReplicaIdentity,
    ReplicasInfo,
    names_of_request,
)
from pocketmq.protocol.codes import RequestCode as Code
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import ContentError, ResponseError
from pocketmq.protocol.requests.brokers import ControllerMetadataResponse
from pocketmq.protocol.wire.command import Command
from pocketmq.runtime.settings import settings_text
from pocketmq.transport.connection import Connection, Handler

_INT_MAX = (1 << 31) - 1


class _Member(msgspec.Struct, rename="camel"):
    address: str


class _SetState(msgspec.Struct, rename="camel"):
    """What is shown of a broker set's state; its members alone understand all of it."""

    leader_id: int
    epoch: int
    in_sync: list[int]
    members: dict[int, _Member]


class ControllerHandlers:
    """Answers about broker sets.

    Args:
        file: the states of the sets.
        routes: which members are registered.
        config: of the name server.
    """

    def __init__(self, file: ArbiterFile, routes: RouteTable, config: NamesrvConfig) -> None:
        self._file, self._routes, self._config = file, routes, config

    def table(self) -> dict[int, Handler]:
        """Returns the handlers by request code."""
        return {
            Code.CONTROLLER_GET_METADATA_INFO: self.metadata,
            Code.CONTROLLER_GET_SYNC_STATE_DATA: self.sync_state,
            Code.CONTROLLER_ELECT_MASTER: self.refuse,
            Code.CLEAN_BROKER_DATA: self.refuse,
            Code.GET_CONTROLLER_CONFIG: self.config,
            Code.UPDATE_CONTROLLER_CONFIG: self.update_config,
        }

    def metadata(self, _: Command, connection: Connection) -> Command:
        """1005: names a leader that is registered, else this name server."""
        leaders = {
            name: state.members[state.leader_id].address
            for name, state, _version in self._states()
            if self._is_registered(name, state.members[state.leader_id].address)
        }
        own = connection.local_address
        leader, address = next(iter(sorted(leaders.items())), ("namesrv", own))
        header = ControllerMetadataResponse(
            group="pocketmq",
            controller_leader_id=leader,
            controller_leader_address=address,
            is_leader=address == own,
            peers=";".join(f"{name}:{address}" for name, address in sorted(leaders.items()))
            or f"namesrv:{own}",
        )
        return Command(ResponseCode.SUCCESS, header=header)

    def sync_state(self, command: Command, _: Connection) -> Command:
        """1006: as the sets' leaders wrote it; alive are the members that are registered."""
        wanted, body = set(names_of_request(command.body)), BrokerReplicasInfo()
        for name, state, version in self._states():
            if name in wanted:
                body.replicas_info_table[name] = self._shown(name, state, version)
        return Command(ResponseCode.SUCCESS, body=body.encode())

    def _shown(self, name: str, state: _SetState, version: int) -> ReplicasInfo:
        members = [
            ReplicaIdentity(
                broker_name=name,
                broker_id=member,
                broker_address=entry.address,
                alive=self._is_registered(name, entry.address),
            )
            for member, entry in sorted(state.members.items())
        ]
        return ReplicasInfo(
            master_broker_id=state.leader_id,
            master_address=state.members[state.leader_id].address,
            master_epoch=state.epoch,
            sync_state_set_epoch=version & _INT_MAX,
            in_sync_replicas=[m for m in members if m.broker_id in state.in_sync],
            not_in_sync_replicas=[m for m in members if m.broker_id not in state.in_sync],
        )

    def _states(self) -> list[tuple[str, _SetState, int]]:
        """(broker name, state, version) of all sets."""
        states = []
        for key, entry in self._file.entries():
            name = key.rpartition("/")[2]
            try:
                state = msgspec.json.decode(entry.value, type=_SetState)
            except msgspec.MsgspecError as e:
                raise ContentError(f"the arbiter holds no state of a broker set: {e}") from e
            states.append((name, state, entry.version))
        return states

    def _is_registered(self, name: str, address: str) -> bool:
        return address in self._routes.addresses_of(name).values()

    def refuse(self, command: Command, _: Connection) -> Command:
        """1002, 1011: what a leader has to do, when none is registered."""
        raise ResponseError(
            ResponseCode.CONTROLLER_MASTER_NOT_AVAILABLE,
            "a member of a broker set does that, and no leader is registered here: ask a member "
            "(mqadmin -a HOST:PORT of a broker)",
        )

    def config(self, _: Command, __: Connection) -> Command:
        """1010: the settings of this name server."""
        text = settings_text(self._config, SECRET_KEYS)
        return Command(ResponseCode.SUCCESS, body=text.encode())

    def update_config(self, _: Command, __: Connection) -> Command:
        """1009: what can be changed is changed by updateNamesrvConfig."""
        raise ResponseError(
            ResponseCode.NO_PERMISSION,
            "Can not update config in black list. The arbiter has nothing to set but its file "
            "(arbiterPath), which is read at the start: use updateNamesrvConfig for others",
        )
