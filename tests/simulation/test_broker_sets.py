"""A broker set of three and its arbiter, simulated: a seed decides all faults and repeats a run.

make simulate                       # 1,000 seeds
.venv/bin/python -m pytest tests/simulation --seed 7 --simulations 1
"""

from __future__ import annotations

from pathlib import Path

import pytest
from support.simulation.broker_sets import Scene

pytestmark = pytest.mark.usefixtures("quiet")

FAULTS_MAX = 12
MESSAGES, CHANGES = 50, 30
CLOCK_STEP_MS = 600_000
PARTS = 8
"""Tests that share the seeds, so that several cores run them."""


def disturb(scene: Scene) -> None:
    """Does something bad to the set, or ends something bad."""
    chance, world = scene.chance, scene.world
    member = chance.choice(scene.members)
    match chance.randrange(14):
        case 0 | 1:
            if member.process is not None:
                with_machine = chance.random() < 0.5
                cuts_power = with_machine and scene.may_lose_power(member)
                member.kill(with_machine=with_machine, cuts_power=cuts_power)
        case 11:
            if scene.flushes_at_once:
                for each in scene.members:
                    if each.process is not None:
                        each.kill(with_machine=True, cuts_power=True)
        case 12:
            scene.retire()
        case 13:
            if member.process is not None:
                member.process.clock.ahead_ms += chance.randrange(-CLOCK_STEP_MS, CLOCK_STEP_MS)
        case 2:
            if member.process is None:
                member.start()
        case 3:
            if member.process is not None:
                member.process.is_stopped = not member.process.is_stopped
        case 4 | 5:
            names = [f"member {m.member_id}" for m in scene.members] + ["arbiter"]
            one, other = chance.sample(names, 2)
            world.network.cut.add((one, other))
            if chance.random() < 0.7:
                world.network.cut.add((other, one))
        case 6:
            world.network.cut.clear()
        case 7:
            scene.hand_over()
        case 9:
            scene.isolate(member)
        case 10:
            if scene.leader is not None:
                scene.isolate(scene.leader)
        case 8:
            if scene.namesrv is None:
                scene.start_namesrv()
            else:
                scene.kill_namesrv()


def run(directory: Path, seed: int) -> Scene:
    """One simulation."""
    flush = "SYNC_FLUSH" if seed % 2 else "ASYNC_FLUSH"
    scene = Scene(directory, seed, flush_disk_type=flush)
    try:
        task, changes = scene.produce(MESSAGES), scene.administrate(CHANGES)
        for _ in range(scene.chance.randint(1, FAULTS_MAX)):
            scene.world.run_for(scene.chance.random() * 4)
            disturb(scene)
        scene.world.run_for(scene.chance.random() * 5)
        scene.heal()
        scene.world.run_until(task.done, 300)
        task.result()
        scene.world.run_until(changes.done, 300)
        changes.result()
        scene.heal()
        scene.check()
    finally:
        scene.close()
    return scene


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("part", range(PARTS))
def test_nothing_acknowledged_is_lost(
    tmp_path: Path, seed: int, simulations: int, part: int
) -> None:
    acknowledged = 0
    for number in range(part, simulations, PARTS):
        directory = tmp_path / str(number)
        directory.mkdir()
        try:
            acknowledged += len(run(directory, seed + number).acknowledged)
        except BaseException as e:
            e.add_note(f"repeat it with --seed {seed + number} --simulations 1")
            raise
    assert acknowledged or part >= simulations


def test_a_seed_repeats_a_simulation(tmp_path: Path, seed: int) -> None:
    runs = []
    for number in range(2):
        directory = tmp_path / str(number)
        directory.mkdir()
        scene = run(directory, seed)
        runs.append((scene.world.steps, scene.world.now_s, scene.acknowledged, scene.leaders))
    assert runs[0] == runs[1]
