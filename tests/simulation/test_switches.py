"""Single faults of a simulated broker set, and what clients and members see of each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.simulation.broker_sets import LEASE_MS, TOPIC, Scene
from support.simulation.member import Member

from pocketmq.broker.store.metadata.metadata import SET_ID, Metadata
from pocketmq.protocol.errors import PocketMQError, ResponseError
from pocketmq.protocol.requests.offsets import (
    OffsetResponse,
    QueryConsumerOffsetRequest,
    UpdateConsumerOffsetRequest,
)
from pocketmq.transport.pool import ConnectionPool

pytestmark = pytest.mark.usefixtures("quiet")


@pytest.fixture
def scenes(tmp_path: Path, seed: int) -> Iterator[Any]:
    made: list[Scene] = []

    def make(members: int = 2, **settings: object) -> Scene:
        made.append(Scene(tmp_path, seed, members, **settings))
        made[-1].world.network.delay_s = 0.002
        made[-1].heal()
        return made[-1]

    yield make
    for scene in made:
        scene.close()


def leader_of(scene: Scene) -> Member:
    scene.world.run_until(lambda: scene.leader is not None, 60)
    assert scene.leader is not None
    return scene.leader


def reason_of(member: Member) -> str:
    """What a member has logged last."""
    assert member.broker is not None
    assert member.broker.broker_set is not None
    return member.broker.broker_set.member.told


def test_switches_on_order_fail_no_send(scenes: Any) -> None:
    scene = scenes(3)
    task = scene.produce(40)
    for _ in range(5):
        scene.heal()
        scene.hand_over()
    scene.world.run_until(task.done)
    scene.heal()
    assert scene.failures == 0
    assert len(scene.leaders) == 6
    scene.check()


def test_a_leader_that_is_stopped_hands_over(scenes: Any) -> None:
    scene = scenes()
    first = leader_of(scene)
    task = scene.produce(20)
    scene.world.run_for(1)
    assert first.process is not None
    assert first.broker is not None
    begun_s = scene.world.now_s
    scene.world.run(first.process, first.broker.close())
    first.stopped()
    assert leader_of(scene) is not first
    assert scene.world.now_s - begun_s < 0.2
    scene.world.run_until(task.done)
    assert scene.failures == 0
    scene.heal()
    scene.check()


def test_a_dead_process_is_replaced_at_once(scenes: Any) -> None:
    scene = scenes()
    task = scene.produce(20)
    scene.world.run_for(1)
    begun_s = scene.world.now_s
    leader_of(scene).kill()
    leader_of(scene)
    assert scene.world.now_s - begun_s < 0.2
    scene.world.run_until(task.done)
    scene.heal()
    scene.check()


def test_a_frozen_leader_is_replaced_when_its_lease_is_over(scenes: Any) -> None:
    scene = scenes()
    first = leader_of(scene)
    begun_s = scene.world.now_s
    assert first.process is not None
    first.process.is_stopped = True
    second = leader_of(scene)
    assert LEASE_MS / 1000 < scene.world.now_s - begun_s < 2 * LEASE_MS / 1000
    first.process.is_stopped = False
    assert not first.is_leading  # before it has made a single step
    scene.heal()
    assert leader_of(scene) is second
    scene.check()


def test_a_member_that_leaves_the_set_during_a_switch_does_not_lead(scenes: Any) -> None:
    """Everything is replicated when it has left: to the others, not to it."""
    scene = scenes()
    leader = leader_of(scene)
    follower = next(member for member in scene.members if member is not leader)
    task = scene.produce(40)
    scene.world.run_for(1)
    assert leader.process is not None
    assert follower.process is not None
    follower.process.is_stopped = True
    scene.world.run_for(0.5)  # something is sent that the follower lacks
    switch = leader.process.start(leader.leading.hand_over(follower.member_id, "it was asked to"))
    scene.world.run_until(switch.done)
    assert isinstance(switch.exception(), ResponseError)
    assert leader.is_leading
    scene.world.run_until(task.done)
    scene.heal()
    scene.check()


def test_a_machine_that_is_gone_is_not_made_the_leader(scenes: Any) -> None:
    """It is in sync until it was silent for a while, and has all there is."""
    scene = scenes(3)
    leader = leader_of(scene)
    gone, other = (member for member in scene.members if member is not leader)
    assert leader.process is not None
    gone.kill(with_machine=True, cuts_power=True)
    assert gone.member_id in leader.leading.state.in_sync
    switch = leader.process.start(leader.leading.hand_over(gone.member_id, "it was asked to"))
    scene.world.run_until(switch.done, 2 * LEASE_MS / 1000)
    assert isinstance(switch.exception(), ResponseError)
    assert leader.is_leading
    scene.hand_over()
    scene.world.run_until(lambda: other.is_leading, LEASE_MS / 1000)
    scene.heal()
    scene.check()


@pytest.mark.parametrize("with_machine", [False, True])
def test_a_member_that_dies_before_it_takes_over_is_replaced(
    scenes: Any, with_machine: bool
) -> None:
    scene = scenes(3)
    task = scene.produce(20)
    scene.world.run_for(1)
    leader = leader_of(scene)
    epoch, next_one = leader.epoch, next(m for m in scene.members if m is not leader)
    assert leader.process is not None
    switch = leader.process.start(leader.leading.hand_over(next_one.member_id, "it was asked to"))
    scene.world.run_until(switch.done)
    assert scene.state.leader_id == next_one.member_id
    next_one.kill(with_machine=with_machine, cuts_power=with_machine)
    begun_s = scene.world.now_s
    if with_machine:
        scene.isolate(next_one)
    assert leader_of(scene).epoch == epoch + 2
    assert scene.world.now_s - begun_s < (2 * LEASE_MS / 1000 if with_machine else 0.5)
    scene.heal()
    scene.world.run_until(task.done)
    scene.check()


def test_a_dead_leader_whose_address_goes_away_is_replaced_when_the_arbiter_answers(
    scenes: Any,
) -> None:
    """As with containers: the port is seen to be closed for a moment only."""
    scene = scenes()
    leader = leader_of(scene)
    scene.namesrv.is_stopped = True
    leader.kill()
    scene.world.run_for(0.1)
    scene.isolate(leader)
    scene.world.run_for(0.9)
    scene.namesrv.is_stopped = False
    begun_s = scene.world.now_s
    assert leader_of(scene) is not leader
    assert scene.world.now_s - begun_s < 0.5
    scene.heal()
    scene.check()


def test_a_member_that_cannot_write_does_not_stand_for_election(scenes: Any) -> None:
    """It would win, could not lead for a full disk, and would be the only member in the set."""
    scene = scenes()
    leader = leader_of(scene)
    assert leader.process is not None
    leader.store.metadata._db.execute("PRAGMA query_only = ON")
    lease, clock = leader.leading.lease, leader.process.clock
    leader.process.is_stopped = True
    scene.world.run_until(lambda: not lease.is_valid(clock.monotonic()), 10)
    leader.process.is_stopped = False  # it finds the lease over before the promise to it is
    scene.world.run_until(lambda: scene.leader not in (None, leader), 10)
    leader.store.metadata._db.execute("PRAGMA query_only = OFF")
    scene.heal()
    scene.check()


@pytest.mark.parametrize("members", [2, 3])
def test_a_silent_follower_leaves_the_set_and_the_leader_stays(scenes: Any, members: int) -> None:
    scene = scenes(members)
    leader = leader_of(scene)
    epoch, in_sync = leader.epoch, leader.leading.in_sync_count
    follower = next(member for member in scene.members if member is not leader)
    task = scene.produce(200)
    scene.world.run_for(1)
    assert follower.process is not None
    follower.process.is_stopped = True
    scene.world.run_until(lambda: leader.is_leading and leader.leading.in_sync_count < in_sync, 10)
    scene.world.run_until(task.done)
    assert (leader_of(scene), leader.epoch, scene.failures) == (leader, epoch, 0)
    scene.heal()
    assert leader.epoch == epoch
    scene.check()


def test_a_committed_offset_is_shown_when_all_in_sync_members_have_it(scenes: Any) -> None:
    scene = scenes(slave_timeout=300)
    leader = leader_of(scene)
    group = "TOOLS_CONSUMER"
    address = f"127.0.0.1:{leader.port}"
    pool = ConnectionPool(scene.client.clock)

    async def commit(offset: int) -> None:
        request = UpdateConsumerOffsetRequest(
            consumer_group=group, topic=TOPIC, queue_id=0, commit_offset=offset
        )
        await pool.ask(address, request, 60_000)

    async def query() -> int:
        request = QueryConsumerOffsetRequest(consumer_group=group, topic=TOPIC, queue_id=0)
        return (await pool.ask_for(address, request, OffsetResponse, 60_000)).offset

    scene.world.run(scene.client, commit(7))
    assert scene.world.run(scene.client, query()) == 7
    scene.isolate(leader)
    # The second commit changes nothing; the first one is not replicated yet.
    for tried in (commit(8), commit(8), query()):
        task = scene.client.start(tried)
        scene.world.run_until(task.done, LEASE_MS / 1000)
        assert isinstance(task.exception(), PocketMQError)
        assert leader.is_leading
    scene.heal()


def test_a_frozen_leader_takes_one_send_of_each_sender(scenes: Any) -> None:
    """Later sends wait for the next leader, though the frozen one's machine takes connections."""
    scene = scenes(leader_lease=5000)
    first = leader_of(scene)
    task = scene.produce(10, senders=3)
    scene.world.run_until(lambda: scene.acknowledged)
    assert first.process is not None
    first.process.is_stopped = True
    scene.world.run_until(task.done)
    assert scene.failures == 3
    scene.heal()
    scene.check()


def test_too_few_members_refuse_before_anything_is_stored(scenes: Any) -> None:
    scene = scenes(2, min_in_sync_replicas=2)
    leader = leader_of(scene)
    follower = next(member for member in scene.members if member is not leader)
    follower.kill()
    scene.world.run_until(lambda: leader.leading.in_sync_count == 1, 30)
    task = scene.produce(1)
    scene.world.run_until(task.done)
    assert (scene.failures, scene.acknowledged) == (4, [])
    assert all(leader.store.find_log("Orders", q) is None for q in range(2))
    scene.heal()
    task = scene.produce(1)
    scene.world.run_until(task.done)
    assert len(scene.acknowledged) == 4


def test_an_asynchronous_leader_does_not_wait_and_still_shows_only_what_all_have(
    scenes: Any,
) -> None:
    scene = scenes(2, broker_role="ASYNC_MASTER")
    leader = leader_of(scene)
    scene.world.network.cut |= {("member 1", "member 2"), ("member 2", "member 1")}
    task = scene.produce(1)
    scene.world.run_until(task.done, LEASE_MS / 1000)
    assert len(scene.acknowledged) == 4
    assert all(
        log is None or log.end_offset == 0
        for log in (leader.store.find_log("Orders", q) for q in range(2))
    )
    scene.heal()
    scene.check()


def test_the_arbiter_may_be_away_as_long_as_nothing_else_is(scenes: Any) -> None:
    scene = scenes(3)
    task = scene.produce(100)
    scene.world.run_until(lambda: scene.acknowledged)
    scene.kill_namesrv()
    scene.world.run_for(10)
    assert len(scene.acknowledged) > 100
    assert scene.failures == 0
    leader_of(scene).kill()
    scene.world.run_for(10)
    assert scene.leader is None
    scene.heal()
    scene.world.run_until(task.done)
    scene.heal()
    scene.check()


def test_a_member_of_another_set_is_refused_and_keeps_its_data(scenes: Any) -> None:
    scene = scenes()
    scene.world.run_until(scene.produce(5).done)
    leader = leader_of(scene)
    other = next(member for member in scene.members if member is not leader)
    other.kill()
    metadata = Metadata(other.directory / "meta.db")
    metadata.set_state(SET_ID, "another set")
    metadata.close()
    other.forget_disk()
    before = {p: p.read_bytes() for p in other.directory.rglob("*.log")}
    other.start()
    scene.world.run_for(3)
    assert "is of broker set another set" in reason_of(other)
    assert leader.leading.state.in_sync == (leader.member_id,)
    assert before == {p: p.read_bytes() for p in other.directory.rglob("*.log")}


def test_data_of_before_is_not_mixed_with_a_sets(scenes: Any) -> None:
    scene = scenes()
    scene.world.run_until(scene.produce(5).done)
    leader = leader_of(scene)
    other = next(member for member in scene.members if member is not leader)
    other.kill()
    metadata = Metadata(other.directory / "meta.db")
    metadata.remove_state(SET_ID)
    metadata.close()
    other.forget_disk()
    other.start()
    scene.world.run_for(3)
    assert "is of broker set none" in reason_of(other)


def test_an_arbiter_without_its_data_elects_nobody(scenes: Any) -> None:
    scene = scenes()
    scene.world.run_until(scene.produce(5).done)
    for member in scene.members:
        member.kill()
    scene.kill_namesrv()
    for path in scene.directory.glob("arbiter.db*"):
        path.unlink()
    scene.start_namesrv()
    for member in scene.members:
        member.start()
    scene.world.run_for(10)
    assert scene.leader is None
    assert all("the arbiter knows no broker set a" in reason_of(m) for m in scene.members)


def test_two_members_with_one_id_do_not_replace_each_other(scenes: Any) -> None:
    scene = scenes()
    leader = leader_of(scene)
    other = next(member for member in scene.members if member is not leader)
    twin = Member(scene, other.member_id)
    twin.rename("twin", 11_009)
    scene.members.append(twin)
    twin.start()
    scene.world.run_for(3)
    assert "another member with the id" in reason_of(twin)
    assert set(leader.leading.state.in_sync) == {1, 2}


def test_a_member_with_the_leaders_id_is_refused(scenes: Any) -> None:
    scene = scenes()
    leader = leader_of(scene)
    twin = Member(scene, leader.member_id)
    twin.rename("twin", 11_009)
    scene.members.append(twin)
    twin.start()
    scene.world.run_for(3)
    assert leader_of(scene) is leader
    assert "with another data directory" in reason_of(twin)
    assert not twin.is_leading


def test_a_lost_directory_is_replaced_only_when_the_arbiter_knows(scenes: Any) -> None:
    scene = scenes()
    scene.world.run_until(scene.produce(5).done)
    leader = leader_of(scene)
    other = next(member for member in scene.members if member is not leader)
    name = f"member {leader.member_id}"
    scene.world.network.cut |= {(name, "arbiter"), ("arbiter", name)}
    other.kill()
    other.rename("replaced", other.port)
    other.forget_disk()
    other.start()
    scene.world.run_for(5)
    assert "was in sync with another directory" in reason_of(other)
    scene.heal()
    entry = leader.leading.state.members[other.member_id]
    assert entry.directory_id == other.store.metadata.state("member_directory_id")
    scene.check()
