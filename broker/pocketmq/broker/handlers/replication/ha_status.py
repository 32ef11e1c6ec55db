"""How a broker replicates: 907, and what it has of each epoch: 1007.

Offsets in these answers are bytes of all logs together (`size_of_all`): RocketMQ's are those of its
only log, and so comparable between members, too.
"""

from __future__ import annotations

from collections.abc import Callable

from pocketmq.broker.replication.following import Following, Identity
from pocketmq.broker.replication.leading import Leading
from pocketmq.broker.replication.peer import Peer
from pocketmq.broker.replication.set_state import SetState
from pocketmq.broker.statistics.store_figures import StoreFigures
from pocketmq.broker.store.log_ends import epoch_spans, size_of_all
from pocketmq.broker.store.metadata.log_epochs import LogEpochs
from pocketmq.broker.store.store import MessageStore
from pocketmq.protocol.bodies.brokers import HAClient, HAConnection, HAStatus
from pocketmq.protocol.bodies.controller import EpochEntry, EpochEntryCache
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.wire.command import Command
from pocketmq.runtime.clock import Clock
from pocketmq.transport.connection import Connection, Handler


class LoneStatusHandlers:
    """Answers 907 for a broker of no set: a master without slaves.

    Args:
        store: the figures of the store.
    """

    def __init__(self, store: StoreFigures) -> None:
        self._store = store

    def table(self) -> dict[int, Handler]:
        """The handlers by request code."""
        return {RequestCode.GET_BROKER_HA_STATUS: self.ha_status}

    def ha_status(self, _: Command, __: Connection) -> Command:
        """907."""
        body = HAStatus(master_commit_log_max_offset=self._store.physical_range()[1])
        return Command(ResponseCode.SUCCESS, body=body.encode())


class _Speed:
    """Bytes a second since the last question, which came from whomever."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last: dict[object, tuple[float, int]] = {}

    def of(self, link: object, size: int) -> int:
        """Returns the speed of a link that has carried so many bytes by now; 0 when it is new."""
        now_s = self._clock.monotonic()
        before_s, before = self._last.get(link, (now_s, size))
        self._last[link] = now_s, size
        return round((size - before) / (now_s - before_s)) if now_s > before_s else 0

    def keep(self, links: set[object]) -> None:
        """Forgets the other links."""
        self._last = {link: last for link, last in self._last.items() if link in links}


class MemberStatusHandlers:
    """Answers for a member of a broker set.

    Args:
        identity: of the member.
        store: of the member.
        leading: the leadership; None while it follows.
        following: the connection to the leader, if there is one.
        state: of the set, as the member knows it.
        clock: for speeds.
    """

    def __init__(
        self,
        identity: Identity,
        store: MessageStore,
        leading: Leading | None,
        following: Callable[[], Following | None],
        state: Callable[[], SetState | None],
        clock: Clock,
    ) -> None:
        self._identity, self._store = identity, store
        self._leading, self._following, self._state = leading, following, state
        self._speed = _Speed(clock.machine)

    def table(self) -> dict[int, Handler]:
        """The handlers by request code."""
        return {
            RequestCode.GET_BROKER_HA_STATUS: self.ha_status,
            RequestCode.GET_BROKER_EPOCH_CACHE: self.epochs,
        }

    def ha_status(self, _: Command, __: Connection) -> Command:
        """907: what each follower lacks, or what this follower has."""
        size = size_of_all(self._store)
        body = self._of_follower(size) if self._leading is None else self._of(self._leading, size)
        return Command(ResponseCode.SUCCESS, body=body.encode())

    def _of(self, leading: Leading, size: int) -> HAStatus:
        peers = list(leading.leader.peers.values())
        self._speed.keep(set(peers))
        in_sync = set(leading.in_sync_followers)
        return HAStatus(
            master_commit_log_max_offset=size,
            in_sync_slave_nums=len(in_sync),
            ha_connection_info=[
                self._connection(peer, size, in_sync=peer.member_id in in_sync) for peer in peers
            ],
        )

    def _connection(self, peer: Peer, size: int, *, in_sync: bool) -> HAConnection:
        behind = min(peer.behind_size, size)
        return HAConnection(
            addr=peer.address,
            slave_ack_offset=size - behind,
            diff=behind,
            in_sync=in_sync,
            transferred_byte_in_second=self._speed.of(peer, peer.sent_size),
            transfer_from_where=size - behind,
        )

    def _of_follower(self, size: int) -> HAStatus:
        following, state = self._following(), self._state()
        client = HAClient(
            max_offset=size, master_addr="" if state is None else state.leader.address
        )
        if following is not None:
            self._speed.keep({following})
            client.transferred_byte_in_second = self._speed.of(following, following.received_size)
            client.last_read_timestamp = following.heard_ms
            client.last_write_timestamp = following.written_ms
        return HAStatus(master=False, ha_client_runtime_info=client)

    def epochs(self, _: Command, __: Connection) -> Command:
        """1007: equal entries of two members are equal records."""
        identity = self._identity
        spans = epoch_spans(self._store, LogEpochs(self._store.metadata))
        body = EpochEntryCache(
            cluster_name=identity.cluster,
            broker_name=identity.broker_name,
            broker_id=0 if self._leading is not None else identity.member_id,
            epoch_list=[
                EpochEntry(epoch=span.epoch, start_offset=span.start, end_offset=span.end)
                for span in spans
            ],
            max_offset=size_of_all(self._store),
        )
        return Command(ResponseCode.SUCCESS, body=body.encode())
