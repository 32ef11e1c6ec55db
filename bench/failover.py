"""Measures for how long a broker set takes no messages: its leader killed, frozen, or switched.

    make failover-times                 # PYTHONPATH=tests python bench/failover.py [--rounds N]

A set of two with its name server, in a world of its own (tests/support/failover/world.py), and
three clients that send one message after the other: this project's, Apache's with its own 30 s
between two looks at the routes, and Apache's with 1 s. The time of a client goes from the fault to
its first acknowledged send that began after the fault. What Apache's client needs beyond the route
at the name server is its own wait for the next look. Figures become a section of RESULTS.md.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import uvloop
from results import origin, put_section
from support.failover.history import History, Send
from support.failover.java_load import JavaLoad
from support.failover.load import QUEUES, TOPIC
from support.failover.machines import ArbiterMachine, Member
from support.failover.world import ENTER, World, missing
from support.interop import maven
from support.interop.java_probe import JavaProbe, build_probe

from pocketmq.client import Admin, Message, Producer
from pocketmq.client.results import SendStatus
from pocketmq.protocol.errors import PocketMQError

INSIDE = "--inside"
LEASE_MS = 5000
LOOK_S = 0.01
PAUSE_S = 0.005
SETTLED_S, WAIT_S_MAX = 3.0, 120.0
APACHE_MS, APACHE_OFTEN_MS = 30_000, 1_000
OWN, APACHE, APACHE_OFTEN = "PocketMQ's client", "Apache's client", "Apache's client, 1 s"
ROUTE = "route at the name server"


class Sample(NamedTuple):
    """What one client felt of one fault.

    Attributes:
        seconds: until it wrote again; of a switch, the longest pause between two acknowledgements.
        failed: sends that it was told have failed.
    """

    seconds: float
    failed: int


Samples = dict[tuple[str, str], list[Sample]]
"""By what happened and who felt it."""


class Bench:
    """A set under load, and what it is put through."""

    def __init__(self, folder: Path, java: tuple[str, str] | None) -> None:
        self._folder = folder
        world = World()
        self._arbiter = ArbiterMachine(world, folder)
        self._members = [
            Member(world, folder, number, self._arbiter.address, {"leaderLease": LEASE_MS})
            for number in (1, 2)
        ]
        self._java = java
        self._sends: list[Send] = []
        self.samples: Samples = {}

    # -- load ---------------------------------------------------------------------------------

    async def _send(self) -> None:
        async with Producer("bench", self._arbiter.address) as producer:
            while True:
                begun, place, is_ok = time.monotonic(), None, False
                try:
                    result = await producer.send(Message(TOPIC, b"x" * 100))
                    place = (result.queue.queue_id, result.queue_offset)
                    is_ok = result.status is SendStatus.SEND_OK
                except PocketMQError:
                    pass
                self._sends.append(Send("own", "", begun, time.monotonic(), 1, place, is_ok))
                await asyncio.sleep(PAUSE_S)

    def _start_java(self) -> dict[str, JavaLoad]:
        if self._java is None:
            return {}
        classpath, home = self._java
        probe = JavaProbe(classpath, Path(home), "5")
        return {
            name: JavaLoad(
                probe, self._folder, self._arbiter.address, TOPIC, f"java-{poll_ms}",
                poll_ms=poll_ms, seed=1, senders=1, pause_ms=10,
            )
            for name, poll_ms in ((APACHE, APACHE_MS), (APACHE_OFTEN, APACHE_OFTEN_MS))
        }  # fmt: skip

    def _sends_of(self, name: str) -> list[Send]:
        if name == OWN:
            return self._sends
        history = History()
        self._loads[name].add_to(history)
        return history.sends

    # -- the set ------------------------------------------------------------------------------

    async def _leader_address(self) -> str | None:
        try:
            rows = await self._admin.brokers()
        except PocketMQError:
            return None
        return next((row.address for row in rows if row.broker_id == 0), None)

    async def _until_whole(self) -> Member:
        """Waits until both members serve their roles and all clients write; returns the leader."""
        deadline_s = time.monotonic() + WAIT_S_MAX
        while time.monotonic() < deadline_s:
            rows = await self._admin.brokers()
            leader = [row for row in rows if row.broker_id == 0]
            since_s = time.monotonic() - SETTLED_S / 2
            if len(rows) == 2 and len(leader) == 1 and all(
                any(send.is_ok and send.begun_s > since_s for send in self._sends_of(name))
                for name in (OWN, *self._loads)
            ):  # fmt: skip
                return next(m for m in self._members if m.address == leader[0].address)
            await asyncio.sleep(LOOK_S * 20)
        raise TimeoutError("the set does not become whole")

    async def _until(self, condition: Callable[[], object]) -> bool:
        deadline_s = time.monotonic() + WAIT_S_MAX
        while time.monotonic() < deadline_s:
            if condition():
                return True
            await asyncio.sleep(LOOK_S)
        return False

    async def _route_after(self, begun_s: float, old: str) -> float:
        while True:
            if await self._leader_address() not in (None, old):
                return time.monotonic() - begun_s
            await asyncio.sleep(LOOK_S)

    def _note(self, what: str, who: str, sample: Sample) -> None:
        self.samples.setdefault((what, who), []).append(sample)
        print(f"{what}: {who}: {sample.seconds:.2f} s, {sample.failed} failed", file=sys.stderr)

    async def _felt_by(
        self, what: str, name: str, begun_s: float, switched_s: float | None = None
    ) -> None:
        """Waits until a client writes again, and notes how long that took.

        Of a switch that began at one time and was done at another, the longest pause between two
        acknowledgements is noted: there may be none without any.
        """

        def first() -> Send | None:
            sends = self._sends_of(name)
            since_s = begun_s if switched_s is None else switched_s
            return next((send for send in sends if send.is_ok and send.begun_s > since_s), None)

        await self._until(first)
        found = first()
        ended_s = float("inf") if found is None else found.ended_s
        failed = sum(
            1 for send in self._sends_of(name) if not send.is_ok and send.ended_s > begun_s
        )
        seconds = ended_s - begun_s
        if switched_s is not None:
            ok = [send.ended_s for send in self._sends_of(name) if send.is_ok]
            ended = [s for s in ok if begun_s - SETTLED_S < s <= ended_s]
            seconds = max(b - a for a, b in pairwise(ended))
        self._note(what, name, Sample(seconds, failed))

    # -- what is done -------------------------------------------------------------------------

    async def _lose_leader(self, what: str, *, freeze: bool) -> None:
        leader = await self._until_whole()
        begun_s = time.monotonic()
        if freeze:
            leader.pause()
        else:
            leader.kill()
        self._note(what, ROUTE, Sample(await self._route_after(begun_s, leader.address), 0))
        for name in (OWN, *self._loads):
            await self._felt_by(what, name, begun_s)
        if freeze:
            leader.resume()
        else:
            leader.start()
        await asyncio.sleep(SETTLED_S)

    async def _switch(self, what: str) -> None:
        leader = await self._until_whole()
        await asyncio.sleep(SETTLED_S)
        begun_s = time.monotonic()
        await self._admin.switch_leader(leader.address)
        switched_s = time.monotonic()
        self._note(what, ROUTE, Sample(await self._route_after(begun_s, leader.address), 0))
        for name in (OWN, *self._loads):
            await self._felt_by(what, name, begun_s, switched_s)
        await asyncio.sleep(SETTLED_S)

    async def run(self, rounds: int) -> None:
        """Does everything so many times."""
        self._arbiter.start()
        for member in self._members:
            member.start()
        async with Admin(self._arbiter.address) as self._admin:
            await self._route_after(0.0, "")
            leader = await self._leader_address()
            assert leader is not None
            await self._admin.create_topic(TOPIC, QUEUES, broker_addr=leader)
            self._loads = self._start_java()
            sending = asyncio.create_task(self._send())
            try:
                for _ in range(rounds):
                    await self._switch("planned switch")
                    await self._lose_leader("kill -9 of the leader", freeze=False)
                    await self._lose_leader("frozen leader (SIGSTOP)", freeze=True)
            finally:
                sending.cancel()
                for load in self._loads.values():
                    load.end()
                for member in self._members:
                    member.kill()
                    member.disk.close()


def table(samples: Samples) -> str:
    """The samples as Markdown."""
    lines = [
        "| what happens | until | min | median | max | failed sends, median |",
        "|---|---|---|---|---|---|",
    ]
    for (what, who), some in samples.items():
        seconds = [sample.seconds for sample in some]
        failed = statistics.median(sample.failed for sample in some)
        figures = (min(seconds), statistics.median(seconds), max(seconds))
        shown = " | ".join(f"{figure:.2f} s" for figure in figures)
        until = who if who == ROUTE else f"{who} writes"
        lines.append(f"| {what} | {until} | {shown} | {'' if who == ROUTE else f'{failed:g}'} |")
    return "\n".join(lines)


def main(arguments: Iterable[str]) -> None:
    """Measures, and writes the section."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--no-java", action="store_true", help="without Apache's client")
    parser.add_argument("--keep", action="store_true", help="leave RESULTS.md as it is")
    parser.add_argument(INSIDE, nargs="*", help=argparse.SUPPRESS)
    chosen = parser.parse_args(list(arguments))
    if chosen.inside is None:
        if reason := missing():
            sys.exit(reason)
        java: list[str] = []
        if not chosen.no_java and not maven.missing_tools():
            home = tempfile.gettempdir()
            java = [build_probe(Path(home)).classpath, home]
        os.execvp(ENTER[0], [*ENTER, sys.executable, __file__, *sys.argv[1:], INSIDE, *java])
    with tempfile.TemporaryDirectory(prefix="pocketmq-failover-") as folder:
        bench = Bench(Path(folder), tuple(chosen.inside) or None)
        uvloop.run(bench.run(chosen.rounds))
    text = (
        f"## How long a broker set takes no messages\n\n{origin()} A set of two, leaderLease "
        f"{LEASE_MS} ms, {chosen.rounds} rounds (bench/failover.py).\n\n{table(bench.samples)}"
    )
    print(text)
    if not chosen.keep:
        put_section("failover", text)


if __name__ == "__main__":
    main(sys.argv[1:])
