"""One run of a broker set in a world of its own: load, faults, healing, and what came of all that.

python -m support.failover.play FOLDER '{"seed": 7, "members": 3}'

It has to be started in a new world (`world.entering`). It prints its report as JSON; what the
servers and clients said is in the folder.
"""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec
import uvloop
from support.failover import clocks
from support.failover.contents import content_of
from support.failover.faults import Faults
from support.failover.history import History, contents_of, summary, violations
from support.failover.java_load import JavaLoad
from support.failover.load import BROKER, GROUP, QUEUES, TOPIC, Load
from support.failover.machines import ArbiterMachine, Member
from support.failover.world import World
from support.interop.java_probe import JavaProbe

from pocketmq.broker.replication.set_state import SetState, decode_state
from pocketmq.broker.store.disk.files import Files
from pocketmq.broker.store.mending.check import check_directory
from pocketmq.broker.store.mending.dump import StoredRecord, dump_directory
from pocketmq.client import Admin
from pocketmq.protocol.errors import PocketMQError
from pocketmq.protocol.messages.records import decode_records
from pocketmq.protocol.requests.extensions.replication import ArbiterReadRequest
from pocketmq.runtime.clock import SystemClock, within
from pocketmq.transport.pool import ConnectionPool

STATE_KEY = f"/pocketmq/DefaultCluster/{BROKER}"
JAVA_GROUP = "java-load"
SENDERS = 4
FAULTS_MAX = 10
START_S_MAX, WHOLE_S_MAX, DRAINED_S_MAX, STOPPED_S_MAX = 60.0, 90.0, 120.0, 60.0
LOOK_S = 0.2
ROUTES_MS = 5000
"""How often Apache's client asks for routes here; 30 s by itself."""


class Plan(msgspec.Struct, kw_only=True):
    """What a run is to be.

    Attributes:
        seed: decides everything that the machine's speed does not.
        members: of the set.
        faults: how many; -1 lets the seed decide.
        java: the class path and home folder of the Java probe, for Apache's client as load, too.
    """

    seed: int
    members: int
    faults: int = -1
    java: tuple[str, str] | None = None


class Report(msgspec.Struct, kw_only=True):
    """What came of a run.

    Attributes:
        violations: everything that is wrong.
        counts: see `history.summary`.
        settings: of the members.
        events: the faults and leaders, with their times in seconds.
    """

    violations: list[str]
    counts: dict[str, int]
    settings: dict[str, object]
    events: list[str]


class Run:
    """A run, see the module."""

    def __init__(self, folder: Path, plan: Plan) -> None:
        self._folder, self._plan = folder, plan
        self._chance = random.Random(plan.seed)
        self._clock = SystemClock()
        self._begun_s = self._clock.monotonic()
        self._history = History()
        self._state: SetState | None = None
        self._load: Load | None = None
        self._java: JavaLoad | None = None
        self._joined_s: dict[int, float] = {}
        self.events: list[str] = []
        self.violations: list[str] = []
        self.settings: dict[str, object] = {
            "leaderLease": self._chance.choice((1500, 2500, 5000)),
            "flushDiskType": self._chance.choice(("ASYNC_FLUSH", "ASYNC_FLUSH", "SYNC_FLUSH")),
            "slaveTimeout": self._chance.choice((1000, 3000)),
            "minInSyncReplicas": self._chance.choice((1, 1, 2)),
            # Small, so that faults hit what happens around the ends of segments.
            "segmentSize": self._chance.choice((64 * 1024, 1024 * 1024)),
            "flushIntervalCommitLog": self._chance.choice((20, 500)),
            "flushConsumerOffsetInterval": 500,
        }
        self._make_machines()

    def _make_machines(self) -> None:
        plan, chance, world = self._plan, self._chance, World()
        self._arbiter = ArbiterMachine(world, self._folder)
        library = clocks.build(self._folder)
        wrong: dict[str, clocks.WrongClock] = {}
        self._members: list[Member] = []
        for number in range(1, plan.members + 1):
            environment = None
            if library is not None:
                # Real clocks are off by less than one in thousand; promises allow ten in hundred.
                clock = clocks.WrongClock(
                    library, self._folder / f"clock{number}", chance.randint(-20_000, 20_000)
                )
                environment = clock.environment
                wrong[f"member{number}"] = clock
            self._members.append(
                Member(world, self._folder, number, self._arbiter.address, self.settings,
                       environment)
            )  # fmt: skip
        self._faults = Faults(
            world, self._members, self._arbiter, wrong, self._leader, self._read_state,
            float(str(self.settings["leaderLease"])) / 1000, chance, self._tell,
        )  # fmt: skip

    def _tell(self, event: str) -> None:
        self.events.append(f"{self._clock.monotonic() - self._begun_s:7.2f} {event}")

    def _leader(self) -> str | None:
        return None if self._state is None else f"member{self._state.leader_id}"

    # -- the set ------------------------------------------------------------------------------

    async def _watch(self) -> None:
        """Follows the state of the set at the arbiter, past all cut links."""
        while True:
            self._note(await self._read_state())
            await self._clock.sleep(LOOK_S)

    async def _read_state(self) -> SetState | None:
        pool = ConnectionPool(self._clock, connect_timeout_ms=1000)
        try:
            answer = await pool.ask(self._arbiter.address, ArbiterReadRequest(key=STATE_KEY), 1000)
            return decode_state(bytes(answer.body)) if answer.body else None
        except PocketMQError:
            return None
        finally:
            await pool.close()

    def _note(self, state: SetState | None) -> None:
        before = self._state
        if state is None or (before is not None and before == state):
            return
        if before is not None and state.epoch < before.epoch:
            self.violations.append(f"epoch {before.epoch} was followed by {state.epoch}")
        for member_id in set(state.in_sync) - set(() if before is None else before.in_sync):
            if member_id != state.leader_id:
                self._joined_s[member_id] = self._clock.monotonic()
        if before is None or before.epoch != state.epoch:
            self._tell(f"member{state.leader_id} leads in epoch {state.epoch}: {state.reason}")
            started_s = self._members[state.leader_id - 1].started_s
            if self._joined_s.get(state.leader_id, 0.0) < started_s:
                self._history.forgotten.append(started_s)
                self._joined_s[state.leader_id] = self._clock.monotonic()
        if before is None or before.in_sync != state.in_sync:
            self._tell(f"in sync: {list(state.in_sync)}")
        self._state = state

    @property
    def _is_whole(self) -> bool:
        return self._state is not None and len(self._state.in_sync) == len(self._members)

    async def _until(self, what: str, is_so: Callable[[], bool], seconds: float) -> bool:
        """Waits for something; notes as a violation that it does not come."""
        until_s = self._clock.monotonic() + seconds
        while not is_so():
            for load in (self._load, self._java):
                if load is not None:
                    load.look()
            if self._clock.monotonic() > until_s:
                self.violations.append(f"{what}: not within {seconds:.0f} s")
                return False
            await self._clock.sleep(LOOK_S)
        return True

    async def play(self) -> None:
        """Does everything, in order."""
        history, plan = self._history, self._plan
        async with AsyncExitStack() as stack:
            self._arbiter.start()
            for member in self._members:
                member.start()
            watching = asyncio.create_task(self._watch())
            stack.callback(watching.cancel)
            if not await self._until("all members are in sync", lambda: self._is_whole,
                                     START_S_MAX):  # fmt: skip
                return
            await self._create_topic()
            load = self._load = await stack.enter_async_context(
                Load(
                    self._arbiter.address,
                    {member.name: member.address for member in self._members},
                    history, plan.seed, SENDERS,
                )
            )  # fmt: skip
            java = self._java = self._start_java()
            if java is not None:
                stack.callback(java.end)
                await self._until("Java sends", lambda: len(java.lines()) > 20, START_S_MAX)
            await self._until("messages are acknowledged", lambda: len(history.acknowledged) > 20,
                              START_S_MAX)  # fmt: skip
            count = plan.faults if plan.faults >= 0 else self._chance.randint(2, FAULTS_MAX)
            await self._faults.play(count)
            await self._clock.sleep(self._chance.random() * 3)
            self._faults.heal()
            await self._until("all members are in sync again", lambda: self._is_whole,
                              WHOLE_S_MAX)  # fmt: skip
            await self._until_written()
            await load.stop_sending()
            if java is not None:
                java.stop_sending()
                await self._until("Java's sends have ended", lambda: java.has_stopped_sending,
                                  START_S_MAX)  # fmt: skip
            await self._until_drained(java)
            await self._until("all members are in sync in the end", lambda: self._is_whole,
                              WHOLE_S_MAX)  # fmt: skip
            if java is not None:
                java.add_to(history)
        await self._stop()

    async def _until_written(self) -> None:
        """Waits until the healed set takes messages again, of this project's client."""
        before = len(self._history.acknowledged)
        await self._until(
            "messages are acknowledged again",
            lambda: len(self._history.acknowledged) > before + 10,
            WHOLE_S_MAX,
        )

    async def _until_drained(self, java: JavaLoad | None) -> None:
        """Waits until the groups have got everything that was acknowledged."""
        wanted = {send.content for send in self._history.acknowledged}

        def is_drained() -> bool:
            got = [self._history.consumed[GROUP]]
            everything = set(wanted)
            if java is not None:
                now = History()
                java.add_to(now)
                everything |= {send.content for send in now.acknowledged}
                got.append(now.consumed[JAVA_GROUP])
            return all(everything <= contents for contents in got)

        await self._until("groups have got all messages", is_drained, DRAINED_S_MAX)

    async def _create_topic(self) -> None:
        async with Admin(self._arbiter.address) as admin:
            (leader,) = [row for row in await admin.brokers() if not row.broker_id]
            await admin.create_topic(TOPIC, QUEUES, broker_addr=leader.address)

    def _start_java(self) -> JavaLoad | None:
        if self._plan.java is None:
            return None
        classpath, home = self._plan.java
        probe = JavaProbe(classpath, Path(home), "5")
        return JavaLoad(
            probe, self._folder, self._arbiter.address, TOPIC, JAVA_GROUP,
            poll_ms=ROUTES_MS, seed=self._plan.seed,
        )  # fmt: skip

    # -- the end ------------------------------------------------------------------------------

    async def _stop(self) -> None:
        """Stops all servers, the leader last, and reads what they have."""
        for member in sorted(self._members, key=lambda member: member.name == self._leader()):
            try:
                code = await within(self._clock, STOPPED_S_MAX, member.stop())
            except TimeoutError:
                self.violations.append(f"{member.name} does not stop")
                member.kill()
                continue
            if code:
                self.violations.append(f"{member.name} ended with {code}")
        self._arbiter.kill()
        for member in self._members:
            self._collect(member)

    def _collect(self, member: Member) -> None:
        history = self._history
        problems = check_directory(member.store_directory).problems
        self.violations += [f"{member.name}: {problem}" for problem in problems]
        logs: dict[str, list[bytes]] = {}
        files = Files(64, read_only=True)
        for record in dump_directory(files, member.store_directory):
            if isinstance(record, StoredRecord):
                topic, queue = record.path.parts[-3:-1]
                logs.setdefault(f"{topic} {queue}", []).append(record.data)
            else:
                self.violations.append(f"{member.name}: {record}")
        history.stored[member.name] = {log: b"".join(data) for log, data in logs.items()}
        if member.name == self._leader():
            history.final = contents_of(
                ((message.queue_id, message.queue_offset), content_of(message.body))
                for queue_id in range(QUEUES)
                for message in decode_records(b"".join(logs.get(f"{TOPIC} {queue_id}", [])))
            )

    def report(self) -> Report:
        """What came of it."""
        return Report(
            violations=self.violations + violations(self._history),
            counts=summary(self._history),
            settings=self.settings,
            events=self.events,
        )


def main() -> None:
    """Runs what the arguments say."""
    folder = Path(sys.argv[1])
    plan = msgspec.json.decode(sys.argv[2], type=Plan)
    run = Run(folder, plan)
    uvloop.run(run.play())
    report = msgspec.json.encode(run.report())
    (folder / "report.json").write_bytes(msgspec.json.format(report))
    sys.stdout.buffer.write(report)


if __name__ == "__main__":
    main()
