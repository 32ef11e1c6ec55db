"""RocketMQ 5's own SDKs, over gRPC, on this project's cluster and on RocketMQ's proxy.

The probe of each language plays the same scenarios and prints the same document. With
POCKETMQ_SDK5_ENDPOINT and POCKETMQ_SDK5_NAME_SERVER RocketMQ's proxy and name server take the place
of the cluster's; topics and groups must be made before, with the attributes below.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from support.interop.processes import running
from support.interop.sdk5 import SDKS

from pocketmq.client import Message
from pocketmq.client.blocking import Producer
from pocketmq.protocol.signing import Credentials
from pocketmq.testing import Cluster, LocalCluster

DEADLINE_S = 200

TOPICS: dict[str, Any] = {
    "Normal": {"queues": 2, "attributes": {"message.type": "NORMAL"}},
    "Filtered": {"queues": 2, "attributes": {"message.type": "NORMAL"}},
    "Batch": {"queues": 1, "attributes": {"message.type": "NORMAL"}},
    "Remoting": {"queues": 2, "attributes": {"message.type": "NORMAL"}},
    "Push": {"queues": 2, "attributes": {"message.type": "NORMAL"}},
    "Ordered": {"queues": 2, "attributes": {"message.type": "FIFO"}},
    "Delayed": {"queues": 2, "attributes": {"message.type": "DELAY"}},
    "Half": {"queues": 2, "attributes": {"message.type": "TRANSACTION"}},
}
GROUPS: dict[str, Any] = {
    "push": {
        "retry_max_times": 1,
        "group_retry_policy": {
            "type": "CUSTOMIZED",
            "customizedRetryPolicy": {"next": [1000, 1000]},
        },
    },
    "ordered": {"consume_message_orderly": True},
}
SETTINGS = {"transaction_check_interval": 1000, "transaction_time_out": 1000}
USER = ("admin", "12345678")
SIGNED = {
    **SETTINGS,
    "authentication_enabled": True,
    "authorization_enabled": True,
    "inner_client_authentication_credentials": '{"accessKey":"inner","secretKey":"87654321"}',
    "init_authentication_user": json.dumps(dict(zip(("username", "password"), USER, strict=True))),
}

pytestmark = [pytest.mark.interop, pytest.mark.whole_interop, pytest.mark.timeout(600)]

no_restart = pytest.mark.skipif(
    "POCKETMQ_SDK5_ENDPOINT" in os.environ, reason="it cannot be restarted here"
)


class Played(NamedTuple):
    """What an SDK has seen, and the bodies of what was given up."""

    sdk: str
    seen: dict[str, Any]
    dead_letters: list[bytes]


def play(sdk: str, endpoint: str, home: Path, *user: str) -> dict[str, Any]:
    """Runs the probe of a language, perhaps as a user; returns its document."""
    if reason := SDKS[sdk].missing_tools():
        pytest.skip(reason)
    (home / "logs" / "rocketmq").mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [*SDKS[sdk].build(), endpoint, SDKS[sdk].transport, *user],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
        env={**os.environ, "HOME": str(home)},  # SDKs write their logs there
    )
    assert done.returncode == 0, done.stderr[-4000:]
    seen: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return seen


@pytest.fixture(scope="module", params=SDKS)
def played(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Played]:
    sdk = request.param
    home = tmp_path_factory.mktemp(sdk)
    if endpoint := os.environ.get("POCKETMQ_SDK5_ENDPOINT"):
        send_compressed(os.environ["POCKETMQ_SDK5_NAME_SERVER"])
        yield Played(sdk, play(sdk, endpoint, home), [b"m1"])
        return
    with LocalCluster(topics=TOPICS, groups=GROUPS, broker_settings=SETTINGS) as cluster:
        send_compressed(cluster.namesrv)
        seen = play(sdk, cluster.grpc_endpoint, home)
        yield Played(sdk, seen, dead_letters(cluster))


def send_compressed(name_server: str, credentials: Credentials | None = None) -> None:
    """Sends a body over remoting that goes compressed."""
    with Producer("remoting", name_server, credentials=credentials) as producer:
        producer.send(Message("Remoting", b"y" * 40_000))


def dead_letters(cluster: Cluster) -> list[bytes]:
    return [one.body for one in cluster.dead_letters("push")]


def test_simple_consumers_get_what_they_want_and_large_bodies(played: Played) -> None:
    seen = played.seen
    assert seen["simple"] == ["first", f"long {SDKS[played.sdk].large_size}"]
    assert (seen["properties"], seen["keys"]) == ({"p": "v"}, ["k1"])


def test_sql_filters(played: Played) -> None:
    assert played.seen["filtered"] == ["a4", "a5"]


def test_a_batch_of_32(played: Played) -> None:
    assert played.seen["batch"] == [f"m{number}" for number in range(32)]


def test_bodies_that_clients_of_remoting_compressed(played: Played) -> None:
    assert played.seen["remoting"] == ["long 40000"]


def test_push_consumers_get_what_failed_again_until_it_is_a_dead_letter(played: Played) -> None:
    if "push" in SDKS[played.sdk].lacks:
        pytest.skip("the SDK has no push consumer")
    assert played.seen["push"] == ["m0/1", "m0/2", "m1/1", "m1/2", "m2/1", "m3/1", "m4/1"]
    assert played.dead_letters == [b"m1"]


def test_messages_of_a_group_keep_their_order(played: Played) -> None:
    assert played.seen["ordered"] == [f"m{number}" for number in range(6)]


def test_delayed_messages_come_then_unless_recalled(played: Played) -> None:
    assert played.seen["delayed"] == ["later"]
    assert "recall" in SDKS[played.sdk].lacks or played.seen["recalled"] is True


def test_transactions_end_and_orphans_are_asked_about(played: Played) -> None:
    assert played.seen["transactions"] == ["committed", "orphan"]


def seen_with_a_restart(sdk: str, endpoint: str, home: Path, restart: Callable[[], None]) -> Any:
    """Bodies that the probe of a language has received before and after a restart."""
    if reason := SDKS[sdk].missing_tools():
        pytest.skip(reason)
    (home / "logs" / "rocketmq").mkdir(parents=True)
    command = [*SDKS[sdk].build(), endpoint, SDKS[sdk].transport, "", "", "restart"]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "HOME": str(home)},
    ) as probe:
        assert probe.stdin is not None
        assert probe.stdout is not None
        lines = iter(probe.stdout)
        assert any(line == "ready\n" for line in lines)
        restart()
        last = ""
        while not last.startswith("{"):
            # A probe that was refused asks again.
            probe.stdin.write("\n")
            probe.stdin.flush()
            last = next(lines)
    return json.loads(last)["restart"]


@no_restart
@pytest.mark.parametrize("sdk", SDKS)
def test_a_restart_of_the_broker(sdk: str, tmp_path: Path) -> None:
    with LocalCluster(topics=TOPICS) as cluster:

        def restart() -> None:
            with cluster.faults.kill("broker-a"):
                pass

        seen = seen_with_a_restart(sdk, cluster.grpc_endpoint, tmp_path, restart)
    assert seen == ["after", "before"]


@no_restart
@pytest.mark.parametrize("sdk", SDKS)
def test_a_restart_of_the_proxy(sdk: str, tmp_path: Path) -> None:
    file = tmp_path / "proxy.yaml"
    command = [sys.executable, "-m", "pocketmq.cli.main", "proxy", "-c", str(file)]
    proxy = partial(running, command, re.compile(r"(127\.0\.0\.1:\d+)"))
    with LocalCluster(topics=TOPICS) as cluster, ExitStack() as second:
        settings = f"namesrvAddr: {cluster.namesrv}\ngrpcServerPort: "
        file.write_text(f"{settings}0\n")
        with ExitStack() as first:
            endpoint = first.enter_context(proxy(stop_signal=signal.SIGKILL))[1]

            def restart() -> None:
                first.close()
                file.write_text(f"{settings}{endpoint.rpartition(':')[2]}\n")
                second.enter_context(proxy())

            seen = seen_with_a_restart(sdk, endpoint, tmp_path, restart)
    assert seen == ["after", "before"]


@pytest.mark.skipif("POCKETMQ_SDK5_ENDPOINT" in os.environ, reason="that one asks nobody")
@pytest.mark.parametrize("sdk", SDKS)
def test_signed(sdk: str, tmp_path: Path) -> None:
    with LocalCluster(topics=TOPICS, groups=GROUPS, broker_settings=SIGNED) as cluster:
        send_compressed(cluster.namesrv, Credentials(*USER))
        seen = play(sdk, cluster.grpc_endpoint, tmp_path, *USER)
    assert seen["filtered"] == ["a4", "a5"]
    assert seen["ordered"] == [f"m{number}" for number in range(6)]
    assert seen["transactions"] == ["committed", "orphan"]
    assert "recall" in SDKS[sdk].lacks or seen["recalled"] is True
