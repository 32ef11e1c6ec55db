"""Elections by an operator in a simulated broker set, where power cuts have left gaps."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from support.simulation.broker_sets import Scene
from support.simulation.member import Member

from pocketmq.protocol.bodies.replication import MemberReport
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.errors import ResponseError
from pocketmq.protocol.requests.extensions.replication import (
    DescribeMemberRequest,
    ElectMemberRequest,
)
from pocketmq.protocol.wire.command import Command
from pocketmq.protocol.wire.header import RequestHeader
from pocketmq.transport.connection import Connection

pytestmark = pytest.mark.usefixtures("quiet")


@pytest.fixture
def scene(tmp_path: Path, seed: int) -> Iterator[Scene]:
    made = Scene(tmp_path, seed, 2)
    made.world.network.delay_s = 0.002
    made.heal()
    yield made
    made.close()


def ask(scene: Scene, member: Member, request: RequestHeader) -> Command:
    """Asks a member what an operator asks."""
    assert member.process is not None
    assert member.broker is not None
    assert member.broker.broker_set is not None
    handler = member.broker.broker_set.elections()[request.code]
    command = Command(RequestCode(request.code), header=request)
    # These handlers do not look at who asks.
    reply: Any = handler(command, cast(Connection, None))
    return cast(Command, scene.world.run(member.process, reply))


def test_a_member_with_a_gap_leads_only_by_an_unclean_election(scene: Scene) -> None:
    scene.world.run_until(scene.produce(5).done)
    for member in scene.members:
        member.kill(cuts_power=True)
    for member in scene.members:
        member.start()
    scene.world.run_for(30)
    assert not any(
        m.is_leading for m in scene.members
    )  # each of them may lack what was acknowledged
    first = scene.members[0]
    report = MemberReport.decode(ask(scene, first, DescribeMemberRequest()).body)
    assert "acknowledged messages may be missing here" in report.gap
    assert report.role == "waiting"
    with pytest.raises(ResponseError, match="only --unclean has it lead all the same"):
        ask(scene, first, ElectMemberRequest(version=report.version))
    scene.world.run_for(5)
    assert not any(m.is_leading for m in scene.members)
    scene.seen.clear()  # what it lacks is lost: other messages may come in its place
    ask(scene, first, ElectMemberRequest(version=report.version, unclean=True))
    scene.heal()
    assert scene.leader is first
    report = MemberReport.decode(ask(scene, first, DescribeMemberRequest()).body)
    assert (report.gap, report.role) == ("", "leader")
    scene.world.run_until(scene.produce(2).done)
