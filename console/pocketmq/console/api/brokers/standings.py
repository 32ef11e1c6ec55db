"""How the members of broker sets stand, by requests that cost a broker little: 1006 and 907."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import PocketMQError, ResponseError

if TYPE_CHECKING:
    from pocketmq.client import Admin, BrokerRow
    from pocketmq.protocol.bodies.controller import ReplicaIdentity, ReplicasInfo


class Standings(NamedTuple):
    """How the members of one broker set stand.

    Attributes:
        replicas: who leads, and who is in sync; None if no member tells.
        lags: the bytes that each connected follower lacks, by address.
        is_set: False if the brokers say that they are of no set.
    """

    replicas: ReplicasInfo | None = None
    lags: dict[str, int] = {}  # noqa: RUF012  nobody changes it
    is_set: bool = True

    @property
    def members(self) -> list[ReplicaIdentity]:
        """All members that were ever in sync, by id."""
        if self.replicas is None:
            return []
        everyone = (*self.replicas.in_sync_replicas, *self.replicas.not_in_sync_replicas)
        return sorted(everyone, key=attrgetter("broker_id"))

    @property
    def in_sync(self) -> list[int] | None:
        """The ids of the members in sync; None if no member tells."""
        if self.replicas is None:
            return None
        return sorted(member.broker_id for member in self.replicas.in_sync_replicas)

    def columns(self, row: BrokerRow) -> dict[str, Any]:
        """What a listing says of one registered member; nothing if no member tells."""
        if self.replicas is None:
            return {}
        member = self.member_of(row)
        if member is None:
            return {"role": "follower", "epoch": self.replicas.master_epoch, "inSync": False}
        leads = member.broker_id == self.replicas.master_broker_id and not row.broker_id
        return {
            "role": "leader" if leads else "follower",
            "epoch": self.replicas.master_epoch,
            "inSync": member in self.replicas.in_sync_replicas,
            "lag": 0 if leads else self.lags.get(member.broker_address),
        }

    def member_of(self, row: BrokerRow) -> ReplicaIdentity | None:
        """The member that is registered; name servers may tell another address (`advertise`)."""
        if self.replicas is None:
            return None
        member_id = row.broker_id or self.replicas.master_broker_id
        return next(
            (member for member in self.members if member.broker_address == row.address),
            next((member for member in self.members if member.broker_id == member_id), None),
        )


async def standings(admin: Admin, name: str, rows: Sequence[BrokerRow]) -> Standings:
    """Asks the members of a broker set in turn, until one tells how they stand.

    A refusal is no error: whoever asks may lack the permission, or it is a broker of Apache's.

    Args:
        admin: asks.
        name: the set's brokerName.
        rows: the registered members, sorted by id: the leader has 0.
    """
    for row in rows:
        try:
            replicas = (await admin.sync_state_sets(row.address, name)).get(name)
        except ResponseError as e:
            if e.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                return Standings(is_set=False)
            continue
        except PocketMQError:
            continue
        if replicas is not None:
            return Standings(replicas, await _lags(admin, replicas, rows))
    return Standings()


async def _lags(admin: Admin, replicas: ReplicasInfo, rows: Sequence[BrokerRow]) -> dict[str, int]:
    """Asks the leader, where the caller reaches it: members may have other addresses for it."""
    address = next((row.address for row in rows if not row.broker_id), replicas.master_address)
    # Only while one leads do members tell of each other that they are alive.
    if address is None or not any(member.alive for member in replicas.in_sync_replicas):
        return {}
    try:
        status = await admin.ha_status(address)
    except PocketMQError:
        return {}
    return {follower.addr: follower.diff for follower in status.ha_connection_info}
