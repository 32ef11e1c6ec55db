"""A broker set with two name servers and etcd: leaders and members of etcd are killed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.arbiters.broker_sets import BrokerSet, broker_set
from support.arbiters.etcd import Etcd, etcd
from support.commands.here import ok

pytestmark = pytest.mark.timeout(240)
QUEUE = ("--queues", "1")


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcd]:
    with etcd(tmp_path_factory.mktemp("etcd"), members=3) as running:
        yield running


def consumed(cluster: BrokerSet, topic: str, count: int) -> list[str]:
    done = ok("consume", topic, "-c", str(count), "--from-beginning", "--namesrv", cluster.namesrv)
    return sorted(line.split("\t")[-1] for line in done.splitlines())


def test_messages_outlive_leaders_and_etcd(three: Etcd, tmp_path: Path) -> None:
    with broker_set(tmp_path, namesrvs=2, controller=three.url) as cluster:
        names = ("--namesrv", cluster.namesrv)
        cluster.wait_until_in_sync(1, 2)
        first = cluster.leader(1, 2)
        second = 3 - first
        ok("topic", "create", "Orders", *QUEUE, *names)
        ok("produce", "Orders", *names, stdin="one")

        def switched(to: int) -> None:
            cluster.run_until(
                lambda done: done.returncode == 0, "broker", "switch", "--to", str(to)
            )
            cluster.wait_until_in_sync(1, 2)

        switched(second)
        cluster.members[second].stop()
        assert cluster.leader(first) == first
        ok("produce", "Orders", *names, stdin="two")
        cluster.members[second].start()
        switched(second)

        three.members[0].kill()
        switched(first)

        for member in three.members[1:]:
            member.kill()
        ok("produce", "Orders", *names, stdin="three")
        assert cluster.leader(first) == first
        refused = cluster.run_until(lambda done: done.returncode != 0, "broker", "switch")
        assert "the arbiter does not answer (etcd: " in refused.stderr
        ok("produce", "Orders", *names, stdin="four")
        for member in three.members:
            member.start()
        for member in three.members:
            member.wait_until_ready()
        switched(second)
        assert consumed(cluster, "Orders", 4) == ["four", "one", "three", "two"]
