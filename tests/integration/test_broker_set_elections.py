"""`pocketmq broker elect`: what is shown before, what is refused, and what is lost."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.arbiters.broker_sets import BrokerSet, broker_set
from support.commands.here import ok, pocketmq

pytestmark = pytest.mark.timeout(240)


@pytest.fixture
def behind(tmp_path: Path) -> Iterator[BrokerSet]:
    """Member 1 has five messages, and is in sync alone; member 2 has two of them."""
    with broker_set(tmp_path) as cluster:
        names = ("--namesrv", cluster.namesrv)
        cluster.wait_until_in_sync(1, 2)
        assert cluster.leader(1, 2) == 1
        ok("topic", "create", "Orders", "--queues", "1", *names)
        ok("produce", "Orders", *names, stdin="one\ntwo")
        cluster.members[2].stop(signal.SIGTERM)
        cluster.wait_until_in_sync(1)
        ok("produce", "Orders", *names, stdin="three\nfour\nfive")
        yield cluster


def elect(cluster: BrokerSet, *words: str, stdin: str = "") -> tuple[int, str, str]:
    found = [option for m in cluster.members.values() for option in ("--member", m.address)]
    done = pocketmq("broker", "elect", *words, *found, "--namesrv", cluster.namesrv, stdin=stdin)
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout, done.stderr


def bodies(cluster: BrokerSet, count: int) -> list[str]:
    done = ok("consume", "Orders", "-c", str(count), "--from-beginning", "--namesrv",
              cluster.namesrv)  # fmt: skip
    return [line.split("\t")[-1] for line in done.splitlines()]


def test_a_member_that_is_not_in_sync_leads_only_by_an_unclean_election(behind: BrokerSet) -> None:
    behind.members[1].stop()
    behind.members[2].start()
    code, _, told = elect(behind, "--to", "2", "--yes")
    assert code == 1
    assert "it is not in sync, only [1] are" in told
    assert f"{behind.members[1].address} does not answer" in told
    code, _, told = elect(behind, "--to", "1", "--yes")
    assert code == 1
    assert "0 members with the id 1 of broker-a answer; answering: 2 at" in told

    code, _, told = elect(behind, "--to", "2", "--unclean", stdin="n\n")
    assert code == 1
    assert "member 2 is not in sync, [1] are: what was acknowledged since it fell behind" in told
    (report,) = behind.reports()
    assert (report.role, report.epoch) == ("waiting", 1)

    code, told, _ = elect(behind, "--to", "2", "--unclean", "--yes", "-o", "json")
    assert code == 0
    outcome = json.loads(told)
    assert (outcome["member"], outcome["epoch"], outcome["lost"]) == (2, 2, [])
    assert behind.leader(2) == 2
    assert bodies(behind, 2) == ["one", "two"]
    ok("produce", "Orders", "--namesrv", behind.namesrv, stdin="other")

    behind.members[1].start()  # it cuts off what the others lack, and keeps it aside
    behind.wait_until_in_sync(1, 2)
    assert bodies(behind, 3) == ["one", "two", "other"]
    (cut,) = (behind.directory / "1" / "cut").iterdir()
    assert b"three" in cut.read_bytes()
    assert b"five" in cut.read_bytes()


def test_an_arbiter_that_has_lost_its_data_gets_it_from_the_member_with_the_most(
    behind: BrokerSet,
) -> None:
    behind.members[1].stop()
    (namesrv,) = behind.namesrvs
    namesrv.stop()
    for file in behind.directory.glob("arbiter.db*"):
        file.unlink()
    namesrv.start()
    for member in behind.members.values():
        member.start()
    code, _, told = elect(behind, "--to", "1", "--yes")
    assert code == 1
    assert "only --unclean can found it again" in told
    assert "the arbiter knows no such set" in told
    code, shown, told = elect(behind, "--to", "2", "--unclean", stdin="\n")
    assert code == 1
    assert "bytes in 1 logs are lost" in told
    lost = next(line for line in shown.splitlines() if "Orders" in line)
    assert lost.split()[:4] == ["Orders", "0", "1", "3"]
    assert {report.role for report in behind.reports()} == {"waiting"}
    assert "was the arbiter's data lost" in behind.reports()[0].told

    code, _, told = elect(behind, "--to", "1", "--unclean", "--yes")
    assert code == 0
    assert "no member that answers has anything that 1 lacks" in told
    behind.wait_until_in_sync(1, 2)
    assert bodies(behind, 5) == ["one", "two", "three", "four", "five"]
    assert {report.epoch for report in behind.reports()} == {2}
    code, _, told = elect(behind, "--to", "2", "--yes")
    assert code == 2
    assert "member 1 at" in told
    assert "use `pocketmq broker switch`" in told


def test_a_leader_that_lives_tells_an_arbiter_what_it_has_lost(behind: BrokerSet) -> None:
    (namesrv,) = behind.namesrvs
    namesrv.stop()
    for file in behind.directory.glob("arbiter.db*"):
        file.unlink()
    namesrv.start()
    code, _, told = elect(behind, "--to", "1", "--unclean", "--yes")
    assert code == 0
    assert "member 1 still leads: nothing is lost" in told
    behind.members[2].start()
    behind.wait_until_in_sync(1, 2)
    assert {report.epoch for report in behind.reports()} == {1}


def test_a_leader_that_answers_is_not_replaced_and_one_that_stands_still_is(
    tmp_path: Path,
) -> None:
    with broker_set(tmp_path) as cluster:
        cluster.wait_until_in_sync(1, 2)
        code, _, told = elect(cluster, "--to", "7", "--yes")
        assert code == 1
        assert "0 members with the id 7" in told
        code, _, told = elect(cluster, "--to", "2", "--yes")
        assert code == 2
        assert "use `pocketmq broker switch`" in told
        code, _, told = elect(cluster, "--to", "1", "--yes")
        assert code == 0
        assert "member 1 leads broker-a already, in epoch 1" in told
        cluster.members[1].send(signal.SIGSTOP)
        code, _, told = elect(cluster, "--to", "2", "--yes")
        assert code == 0
        assert f"{cluster.members[1].address} does not answer" in told or "already" in told
        assert cluster.leader(2) == 2
        cluster.members[1].send(signal.SIGCONT)
        cluster.wait_until_in_sync(1, 2)


def test_nothing_is_elected_while_nobody_can_be_asked(tmp_path: Path) -> None:
    with broker_set(tmp_path, members=1) as cluster:
        cluster.namesrvs[0].stop()
        cluster.members[1].stop()
        code, _, told = elect(cluster, "--to", "1", "--unclean", "--yes")
        assert code == 1
        assert "0 members with the id 1" in told
