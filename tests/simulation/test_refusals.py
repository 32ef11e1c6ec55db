"""What a broker set refuses: each with its cause and remedy, and nothing is changed on the disk."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.simulation.broker_sets import CLUSTER, NAME, Scene
from support.simulation.member import Member

from pocketmq.broker.replication import following
from pocketmq.broker.replication.arbiter import state_key
from pocketmq.broker.replication.member import DIRECTORY_ID, EPOCH, FLUSHES
from pocketmq.broker.replication.set_state import decode_state, encode_state
from pocketmq.broker.store.metadata.metadata import CLEAN_STATE, SET_ID, Metadata
from pocketmq.protocol.errors import OperatingError

pytestmark = pytest.mark.usefixtures("quiet")

KEY = state_key(CLUSTER, NAME)
OF_EACH_START = {CLEAN_STATE, DIRECTORY_ID, FLUSHES, "unsure_times"}
"""States that starts write, also those of brokers that are then refused."""


@pytest.fixture
def scene(tmp_path: Path, seed: int) -> Iterator[Scene]:
    made = Scene(tmp_path, seed, 2)
    made.world.network.delay_s = 0.002
    made.heal()
    made.world.run_until(made.produce(5).done)
    yield made
    made.close()


def members_of(scene: Scene) -> tuple[Member, Member]:
    """The leader and its follower."""
    scene.world.run_until(lambda: scene.leader is not None, 60)
    leader = scene.leader
    assert leader is not None
    return leader, next(member for member in scene.members if member is not leader)


def reason_of(member: Member) -> str:
    assert member.broker is not None
    assert member.broker.broker_set is not None
    return member.broker.broker_set.member.told


def tree(directory: Path, *ignored: str) -> dict[str, object]:
    """All that a directory holds: files with their bytes, and the rows of its metadata.

    Args:
        directory: of a member.
        ignored: keys of states that may change.
    """
    found: dict[str, object] = {
        str(path.relative_to(directory)): path.read_bytes() if path.is_file() else None
        for path in directory.rglob("*")
        if not path.name.startswith(("meta.db", "LOCK", "lock"))
    }
    with closing(sqlite3.connect(directory / "meta.db")) as database:
        names = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        for (name,) in names:
            rows = database.execute(f"SELECT * FROM {name}").fetchall()
            found[f"table {name}"] = [
                row for row in rows if name != "state" or row[0] not in {*OF_EACH_START, *ignored}
            ]
    return found


def stop(scene: Scene, member: Member) -> None:
    """Stops a member cleanly: the next start has nothing to mend."""
    assert member.process is not None
    assert member.broker is not None
    scene.world.run(member.process, member.broker.close())
    member.stopped()


def change_states(directory: Path, **states: str | None) -> None:
    """Changes what the metadata of a stopped member keep of it."""
    metadata = Metadata(directory / "meta.db")
    for key, value in states.items():
        if value is None:
            metadata.remove_state(key)
        else:
            metadata.set_state(key, value)
    metadata.close()


def of_another_set(scene: Scene, member: Member) -> None:
    change_states(member.directory, **{SET_ID: "another set", EPOCH: "0"})


def of_no_set(scene: Scene, member: Member) -> None:
    change_states(member.directory, **{SET_ID: None, EPOCH: None})


def of_another_set_far_ahead(scene: Scene, member: Member) -> None:
    change_states(member.directory, **{SET_ID: "another set", EPOCH: "70"})


def with_settings(**settings: object) -> Callable[[Scene, Member], None]:
    def prepare(scene: Scene, member: Member) -> None:
        member.settings = dict(settings)

    return prepare


def of_a_newer_format(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "FORMAT", following.FORMAT + 1)


@pytest.mark.parametrize(
    ("prepare", "told"),
    [
        (of_another_set, r"is of broker set another set, .*correct controllerAddr or brokerName, "
                         r"or start this member with an empty storePathRootDir"),
        (of_another_set_far_ahead, "is of broker set another set"),
        (of_no_set, r"is of broker set none, this is .* empty storePathRootDir"),
        (with_settings(flush_disk_type="SYNC_FLUSH"),
         "flushDiskType is SYNC_FLUSH in the member and ASYNC_FLUSH in its leader"),
        (with_settings(broker_role="ASYNC_MASTER"),
         "brokerRole is ASYNC_MASTER in the member and SYNC_MASTER in its leader"),
        (with_settings(min_in_sync_replicas=2),
         "minInSyncReplicas is 2 in the member and 1 in its leader"),
        (with_settings(leader_lease=2001), "leaderLease is 2001 in the member and 2000"),
    ],
    ids=["set", "epoch", "no_set", "flush", "role", "in_sync", "lease"],
)  # fmt: skip
def test_a_member_is_refused_and_its_directory_stays_as_it_is(
    scene: Scene, prepare: Callable[[Scene, Member], None], told: str
) -> None:
    leader, other = members_of(scene)
    stop(scene, other)
    prepare(scene, other)
    scene.world.run_until(lambda: leader.leading.state.in_sync == (leader.member_id,), 60)
    before = tree(other.directory)
    other.start()
    scene.world.run_until(lambda: bool(reason_of(other)), 60)
    reason = reason_of(other)
    stop(scene, other)
    assert_told(told, reason)
    assert tree(other.directory) == before
    assert scene.leader is leader
    assert leader.leading.state.in_sync == (leader.member_id,)
    scene.world.run_until(scene.produce(1).done)
    assert scene.failures == 0


def assert_told(told: str, reason: str) -> None:
    with pytest.raises(OperatingError, match=told):
        raise OperatingError(reason)


def test_what_only_shapes_files_or_speed_may_differ(scene: Scene) -> None:
    _, other = members_of(scene)
    other.kill()
    other.settings = {"segment_size": 1024 * 1024, "slave_timeout": 9000, "max_message_size": 70000,
                      "file_reserved_time": 1, "message_delay_level": "7s"}  # fmt: skip
    other.start()
    scene.heal()
    scene.world.run_until(scene.produce(5).done)
    scene.heal()
    scene.check()


def test_a_member_that_speaks_a_newer_format_is_refused(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, other = members_of(scene)
    stop(scene, other)
    before = tree(other.directory)
    of_a_newer_format(monkeypatch)
    other.start()
    scene.world.run_until(lambda: bool(reason_of(other)), 60)
    reason = reason_of(other)
    stop(scene, other)
    assert_told(r"the member speaks format 2, this leader 1: run the same version", reason)
    assert tree(other.directory) == before


# -- leaders that lack what others have ------------------------------------------------------------


def test_a_leader_whose_files_were_replaced_by_older_ones_is_not_followed(scene: Scene) -> None:
    first, _ = members_of(scene)
    first.kill()
    old = scene.directory / "old"
    shutil.copytree(first.directory, old)
    first.start()
    scene.heal()
    scene.world.run_until(scene.produce(5).done)
    if scene.leader is not first:
        scene.hand_over()
        scene.heal()
    scene.world.run_for(3)  # followers hear what all have
    leader, other = members_of(scene)
    assert leader is first
    assert other.process is not None
    other.process.is_stopped = True
    leader.kill()
    shutil.rmtree(leader.directory)
    shutil.copytree(old, leader.directory)
    leader.start()
    before = tree(other.directory, EPOCH)  # it must note that its own set has another leader
    other.process.is_stopped = False
    scene.world.run_until(lambda: "the leader lacks" in reason_of(other), 60)
    reason = reason_of(other)
    assert_told(r"the leader lacks .* though all in-sync members had it .* Nothing was cut", reason)
    assert tree(other.directory, EPOCH) == before


# -- arbiters that answer wrongly ------------------------------------------------------------------


def kept(scene: Scene) -> Any:
    arbiter = scene._server.arbiter
    assert arbiter is not None
    return arbiter


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (b"", "holds no state of a broker set"),
        (b"\xff\x00garbage", "holds no state of a broker set"),
        (b'{"epoch":7}', "holds no state of a broker set"),
        (b'{"setId":"s","epoch":7,"leaderId":9,"inSync":[1],"members":{},"changedMs":1,"reason":""}',
         "whose leader is no member"),
    ],
    ids=["empty", "garbage", "part", "no_leader"],
)  # fmt: skip
def test_an_arbiter_with_something_else_moves_nobody(scene: Scene, value: bytes, told: str) -> None:
    leader, other = members_of(scene)
    state, version = kept(scene).read(KEY)
    kept(scene).write(KEY, value, version)
    scene.world.run_until(scene.produce(3).done)  # nobody needs the arbiter for that
    assert scene.failures == 0
    assert scene.leader is leader
    other.kill()
    other.start()
    scene.world.run_for(10)
    assert_told(told, reason_of(other))
    # A leader that hears of nobody cannot go on alone without the arbiter.
    assert not any(member.is_leading for member in scene.members)
    kept(scene).write(KEY, state, version + 1)
    scene.heal()
    scene.world.run_until(scene.produce(2).done)
    scene.heal()
    scene.check()


def test_an_arbiter_with_another_sets_state_ends_the_leader_and_founds_nothing(
    scene: Scene,
) -> None:
    value, version = kept(scene).read(KEY)
    state = decode_state(value)
    another = msgspec.structs.replace(state, set_id="another set", epoch=state.epoch + 1)
    kept(scene).write(KEY, encode_state(another), version)
    scene.world.run_for(10)
    assert scene.leader is None
    for member in scene.members:
        assert_told("is of broker set .*, but the arbiter has another set", reason_of(member))
    assert kept(scene).read(KEY).value == encode_state(another)
    back = msgspec.structs.replace(state, epoch=state.epoch + 1)
    kept(scene).write(KEY, encode_state(back), version + 1)
    scene.heal()
    scene.check()
