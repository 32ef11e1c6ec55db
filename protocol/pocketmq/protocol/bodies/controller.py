"""Bodies of RocketMQ's controllers, and of brokers in their mode: 1002, 1006, 1007."""

from __future__ import annotations

import msgspec
from msgspec import field

from pocketmq.protocol.bodies import Body
from pocketmq.protocol.bodies.routes import MemberGroup
from pocketmq.protocol.errors import ContentError

NAMES_MAX = 1000
"""Broker names of one request."""


class ReplicaIdentity(Body, kw_only=True):
    """One member of a broker set; `alive` is None if nobody knows."""

    broker_name: str
    broker_id: int
    broker_address: str
    alive: bool | None = None


class ReplicasInfo(Body, kw_only=True):
    """Who leads a broker set, and who has everything."""

    master_broker_id: int | None = None
    master_address: str | None = None
    master_epoch: int
    sync_state_set_epoch: int
    in_sync_replicas: list[ReplicaIdentity] = field(default_factory=list)
    not_in_sync_replicas: list[ReplicaIdentity] = field(default_factory=list)


class BrokerReplicasInfo(Body, kw_only=True):
    """The answer of 1006, by broker name."""

    replicas_info_table: dict[str, ReplicasInfo] = field(default_factory=dict)


class ElectedMaster(Body, kw_only=True):
    """The answer of 1002 (`ElectMasterResponseBody`)."""

    broker_member_group: MemberGroup
    sync_state_set: list[int] = field(default_factory=list)


class EpochEntry(Body, kw_only=True):
    """What was written in one epoch."""

    epoch: int
    start_offset: int
    end_offset: int


class EpochEntryCache(Body, kw_only=True):
    """The answer of 1007."""

    cluster_name: str
    broker_name: str
    broker_id: int
    epoch_list: list[EpochEntry] = field(default_factory=list)
    max_offset: int = 0


def names_of_request(data: bytes) -> list[str]:
    """Reads the body of 1006, a list of broker names.

    Raises:
        ContentError: it is none, or too long.
    """
    try:
        names = msgspec.json.decode(data, type=list[str])
    except msgspec.MsgspecError as e:
        raise ContentError(f"the body must be a JSON list of broker names: {e}") from e
    if len(names) > NAMES_MAX:
        raise ContentError(f"{len(names)} broker names: ask for {NAMES_MAX} at a time")
    return names
