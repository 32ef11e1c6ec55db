"""One member of a simulated broker set: its disk, and the process that serves it."""

from __future__ import annotations

import random
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from support.crash.disk_losses import Anything, Content, Everything, Loss, Metadata, Torn
from support.crash.simulated_disk import SimulatedDisk
from support.simulation.world import Process

from pocketmq.broker import Broker, BrokerConfig
from pocketmq.broker.replication.leading import Leading
from pocketmq.broker.replication.member import INCOMPLETE
from pocketmq.broker.store.store import MessageStore

if TYPE_CHECKING:
    from support.simulation.broker_sets import Scene

LOSSES: tuple[Callable[[random.Random], Loss], ...] = (
    lambda _: Everything(),
    lambda _: Content(as_zeros=False),
    lambda _: Content(as_zeros=True),
    Torn,
    Metadata,
    Anything,
)
"""What a power cut may take."""


class MemberDisk(SimulatedDisk):
    """A simulated disk on which the metadata may be read over a second connection."""

    def __init__(self, root: Path, now_ms: Callable[[], int], boots: int) -> None:
        super().__init__(root, now_ms)
        self.boot_id = f"boot {boots}"
        self._is_open = False

    def database(self, path: Path) -> sqlite3.Connection:
        if self._is_open:
            return sqlite3.connect(path, isolation_level=None)
        self._is_open = True
        return super().database(path)


class Member:
    """One member: a data directory, and the process that serves it, if there is one.

    Attributes:
        settings: of this member alone.
        is_incomplete: whether a power cut may have taken what was acknowledged, until the member
            has caught up.
    """

    def __init__(self, scene: Scene, member_id: int) -> None:
        self._scene, self.member_id = scene, member_id
        self._parent = scene.directory / f"member-{member_id}"
        self.port = 11_000 + member_id
        self.settings: dict[str, Any] = {}
        self.process: Process | None = None
        self.broker: Broker | None = None
        self._starts = self._boots = 0
        self._was_incomplete = False
        self._disk: MemberDisk | None = None
        self._loss: Loss | None = Loss()

    def rename(self, name: str, port: int) -> None:
        """Gives the member a directory and a port of its own, though its id is another member's."""
        self._parent, self.port = self._scene.directory / name, port

    @property
    def directory(self) -> Path:
        """The data directory, as the next start finds it."""
        return self._parent / str(self._starts) / "store"

    def start(self) -> None:
        scene = self._scene
        self.process = process = scene.world.process(f"member {self.member_id}")
        self.disk = disk = self._mount(process.clock.now_ms)
        settings: dict[str, Any] = {
            **scene.all_settings,
            "broker_id": self.member_id,
            "listen_port": self.port,
            "store_path_root_dir": str(self.directory),
            **self.settings,
        }
        config = BrokerConfig(**settings)
        self.broker = Broker(
            config, process.clock, files=disk, seed=scene.world.chance.getrandbits(32)
        )
        scene.world.run(process, self.broker.__aenter__())

    def _mount(self, now_ms: Callable[[], int]) -> MemberDisk:
        """The disk that the last run has left, as it is after a kill or a power cut."""
        root, before = self._parent / str(self._starts), self._disk
        if not root.exists():
            root.mkdir(parents=True)
        disk = MemberDisk(root, now_ms, self._boots)
        if before is not None and self._loss is None:
            disk.go_on(before, before.position)
        return disk

    def _unmount(self, loss: Loss | None) -> None:
        """Makes of the disk what the next start finds; without a loss nothing was cut off."""
        disk, before = self.disk, self._parent / str(self._starts)
        self._starts += 1
        left = disk.left_by(disk.position, loss or Loss())
        left.make(self._parent / str(self._starts))
        shutil.rmtree(before)
        self._disk, self._loss = disk, loss

    def kill(self, *, with_machine: bool = False, cuts_power: bool = False) -> None:
        """Kills the process, or stops its machine.

        Args:
            with_machine: nobody is told that the connections have ended.
            cuts_power: the disk loses of what was not synced what it may lose.
        """
        assert self.process is not None
        assert self.broker is not None
        self._was_incomplete = self.is_incomplete
        self.disk.cut_power(self.directory / "meta.db")
        self.process.kill(with_machine=with_machine)
        store = self.broker.store
        store.metadata.close()
        store._directory.lock.release()
        store.files.close()
        self.process = self.broker = None
        loss = None
        if cuts_power:
            loss = self._scene.chance.choice(LOSSES)(self._scene.chance)
            self._boots += 1
            self._was_incomplete |= not self._scene.flushes_at_once
        self._unmount(loss)

    def stopped(self) -> None:
        """Notes that the broker was closed, and ends the process."""
        assert self.process is not None
        self._was_incomplete = False
        self.disk.is_off = True
        self.process.kill()
        self.process = self.broker = None
        self._unmount(None)

    def forget_disk(self) -> None:
        """Takes what is in the directory now as what is on the disk: a test has changed it."""
        self._disk = None

    @property
    def is_incomplete(self) -> bool:
        if self.broker is None:
            return self._was_incomplete
        return self.store.metadata.state(INCOMPLETE) is not None or len(self.store.damaged) > 0

    @property
    def is_leading(self) -> bool:
        """Whether it runs, and may act as the leader."""
        broker = self.broker
        if broker is None or broker.broker_set is None or self.process is None:
            return False
        leading = broker.broker_set.leading
        return leading is not None and leading.is_serving and not self.process.is_stopped

    @property
    def follows_epoch(self) -> int | None:
        """The epoch of the leader of which it serves a copy; None while it serves none."""
        broker = self.broker
        if broker is None or broker.broker_set is None or self.process is None or self.is_leading:
            return None
        state = broker.broker_set._state
        return state.epoch if broker.broker_set.is_readable and state is not None else None

    @property
    def leading(self) -> Leading:
        assert self.broker is not None
        assert self.broker.broker_set is not None
        assert self.broker.broker_set.leading is not None
        return self.broker.broker_set.leading

    @property
    def epoch(self) -> int:
        return self.leading.state.epoch

    @property
    def store(self) -> MessageStore:
        assert self.broker is not None
        return self.broker.store
