"""Stores that replicate to each other within a test, without sockets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from support.store.stores import SMALL, open_store

from pocketmq.broker.replication.follower import Follower
from pocketmq.broker.replication.joining import (
    apply_cuts,
    cuts_for,
    places_of,
    report_of,
    set_damaged_aside,
)
from pocketmq.broker.replication.leader import Leader
from pocketmq.broker.replication.peer import Answer, Peer
from pocketmq.broker.store.metadata.log_epochs import LogEpochs
from pocketmq.broker.store.settings import StoreSettings
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import OperatingError
from pocketmq.protocol.requests.extensions.replication import ReplicateRequest
from pocketmq.protocol.wire.command import Command
from pocketmq.runtime.clock import Clock


class Member:
    """One store of a set, as a leader or as a follower."""

    def __init__(self, directory: Path, clock: Clock, settings: StoreSettings = SMALL) -> None:
        self.clock = clock
        self.store = open_store(directory, clock, settings)
        self.epochs = LogEpochs(self.store.metadata)
        self.leader: Leader | None = None
        self.follower = Follower(self.store, self.epochs)

    def lead(self, epoch: int, *required: int, waits: bool = True) -> Leader:
        self.follower.show_all()
        self.leader = Leader(
            self.store, self.epochs, self.clock, epoch, waits=waits, timeout_ms=3000, lease_ms=3000
        )
        self.leader.begin()
        self.leader.turns.require(required)
        return self.leader

    @property
    def leader_now(self) -> Leader:
        assert self.leader is not None
        return self.leader

    async def step_down(self) -> None:
        """Ends a leadership, and prepares for following."""
        assert self.leader is not None
        self.leader.end(OperatingError("it leads no more"))
        await self.store.drain()
        self.leader.detach()
        self.leader = None
        self.follower = Follower(self.store, self.epochs)

    async def follow(self, leader: Member, member_id: int = 2) -> Link:
        """Joins a leader and catches up."""
        assert leader.leader is not None
        cuts = cuts_for(report_of(self.store, self.epochs), leader.store, leader.epochs)
        set_damaged_aside(self.store, self.epochs)
        await apply_cuts(self.store, self.epochs, cuts, {})
        self.follower = Follower(self.store, self.epochs)
        link = Link(self.follower)
        link.peer = leader.leader.add_peer(member_id, f"member:{member_id}", link,
                                           places_of(self.store))  # fmt: skip
        await link.peer.catch_up()
        return link


class Link:
    """Hands frames to a follower in the same turn, or keeps them while it is cut."""

    def __init__(self, follower: Follower) -> None:
        self._follower = follower
        self.peer: Peer
        self.is_cut = self.is_closed = False
        self.kept: list[tuple[ReplicateRequest, bytes, Callable[[Answer], object]]] = []
        self.frames = 0

    def replicate(
        self, request: ReplicateRequest, body: bytes, on_answer: Callable[[Answer], object]
    ) -> None:
        self.frames += 1
        self.kept.append((request, body, on_answer))
        if not self.is_cut:
            asyncio.get_running_loop().call_soon(self.deliver)

    def deliver(self) -> None:
        """Hands over what was kept."""
        kept, self.kept = self.kept, []
        for request, body, on_answer in kept:
            self._follower.apply(body, request.turn)
            self._follower.show(request.shown)
            on_answer(Command(ResponseCode.SUCCESS))

    def close(self, reason: str) -> None:
        self.is_closed = True
