"""Apache's clients that sign, on this project's guarded servers; mqadmin's commands about users."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from interop.conftest import BROKER_SETTINGS
from support.interop.apache_servers import CLUSTER_NAME, apache_cluster
from support.interop.clusters import Cluster, configured_cluster
from support.interop.go_probe import GoProbe
from support.interop.java_probe import JavaProbe
from support.interop.probes import ProbeFailure
from support.interop.scenarios import NewName, Scenarios, keys, numbers, play

from pocketmq.client import Credentials
from pocketmq.client.credentials import credentials_text

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]

ADMIN, BARE = Credentials("rocketmq", "12345678"), Credentials("bare", "bare-secret")
INNER = {"accessKey": "inner", "secretKey": "inner-secret"}
SETTINGS = {
    "authenticationEnabled": True,
    "authorizationEnabled": True,
    "initAuthenticationUser": {"username": ADMIN.access_key, "password": ADMIN.secret_key},
    "innerClientAuthenticationCredentials": INNER,
}
GO_SIGNS_NOT = {"authenticationWhitelist": "105", "authorizationWhitelist": "105"}
"""Go's admin client asks name servers for routes without a signature."""

_PROVIDERS = "org.apache.rocketmq.auth"
APACHES_SETTINGS = {
    "authenticationEnabled": "true",
    "authorizationEnabled": "true",
    "authenticationProvider": f"{_PROVIDERS}.authentication.provider.DefaultAuthenticationProvider",
    "authenticationMetadataProvider": (
        f"{_PROVIDERS}.authentication.provider.LocalAuthenticationMetadataProvider"
    ),
    "authorizationProvider": f"{_PROVIDERS}.authorization.provider.DefaultAuthorizationProvider",
    "authorizationMetadataProvider": (
        f"{_PROVIDERS}.authorization.provider.LocalAuthorizationMetadataProvider"
    ),
    "initAuthenticationUser": json.dumps(SETTINGS["initAuthenticationUser"]),
    "innerClientAuthenticationCredentials": json.dumps(INNER),
}


@pytest.fixture(scope="module")
def signed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    settings = {**BROKER_SETTINGS, **SETTINGS, "authenticationPasswordVisible": True}
    with configured_cluster(
        tmp_path_factory.mktemp("signed"), settings, namesrv_settings=SETTINGS | GO_SIGNS_NOT
    ) as started:
        yield started


def key_file(folder: Path, credentials: Credentials) -> dict[str, str]:
    """The system property by which Apache's clients find credentials."""
    path = folder / f"{credentials.access_key}.key"
    path.write_text(credentials_text(credentials))
    return {"rocketmq.client.keyFile": str(path)}


@pytest.fixture(scope="module")
def java_seen(
    probe: JavaProbe,
    signed: Cluster,
    new_name: NewName,
    tmp_path_factory: pytest.TempPathFactory,
) -> Scenarios:
    jvm = key_file(tmp_path_factory.mktemp("keys"), ADMIN)

    def run(command: str, **options: Any) -> Any:
        return probe.run(command, jvm=jvm, namesrv=signed.namesrv, **options)

    return play(run, new_name, "clustering", "transactions", "trace", "request-reply", "retries")


class TestJava:
    @pytest.mark.parametrize("command", ["clustering", "trace", "request-reply", "retries"])
    def test_signed_clients_do_what_unsigned_ones_do(
        self, java_seen: Scenarios, command: str
    ) -> None:
        assert java_seen[command]

    def test_transactions_are_committed_checked_and_rolled_back(self, java_seen: Scenarios) -> None:
        transactions = java_seen["transactions"]
        assert {result["status"] for result in transactions["results"]} == {"SEND_OK"}
        assert transactions["checks"]["check-commit"] >= 2
        assert len(transactions["deliveries"]) == 2

    @pytest.mark.whole_interop
    def test_who_signs_nothing_or_wrongly_gets_nothing(
        self, probe: JavaProbe, signed: Cluster, new_name: NewName, tmp_path: Path
    ) -> None:
        wrong = Credentials(ADMIN.access_key, "wrong-secret")
        for jvm in (None, key_file(tmp_path, wrong), key_file(tmp_path, BARE)):
            with pytest.raises(ProbeFailure) as refused:
                probe.run("create-topic", jvm=jvm, namesrv=signed.namesrv, topic=new_name("no"))
            assert re.search(
                r"username cannot be null|check signature failed|is not found", str(refused.value)
            )


@pytest.fixture(scope="module")
def go_seen(go_probe: GoProbe, signed: Cluster, new_name: NewName) -> Scenarios:
    [broker] = signed.brokers.values()

    def run(command: str, **options: Any) -> Any:
        return go_probe.run(
            command,
            namesrv=signed.namesrv,
            broker=broker,
            access_key=ADMIN.access_key,
            secret_key=ADMIN.secret_key,
            **options,
        )

    return play(run, new_name, "sends", "clustering", "transactions")


class TestGo:
    def test_sends_are_answered(self, go_seen: Scenarios) -> None:
        assert {result["status"] for result in go_seen["sends"]["sent"]} == {"SEND_OK"}

    def test_members_of_a_group_share_what_comes(self, go_seen: Scenarios) -> None:
        clustering = go_seen["clustering"]
        got = {key for key in keys(clustering["deliveries"]) if int(key) >= 0}
        assert got == set(numbers(clustering["sent"]))

    def test_transactions_are_decided(self, go_seen: Scenarios) -> None:
        assert go_seen["transactions"]["deliveries"]


USER_COMMANDS = (
    "createUser -c CLUSTER -u u1 -p p1",
    "createUser -c CLUSTER -u u1 -p p1",
    "createUser -c CLUSTER -u u2 -p p2 -t Super",
    "createUser -b BROKER -u u3 -p p3",
    "updateUser -c CLUSTER -u u1 -p changed",
    "updateUser -c CLUSTER -u u2 -s disable",
    "updateUser -c CLUSTER -u u2 -t Normal",
    "updateUser -c CLUSTER -u zz -p p",
    "getUser -c CLUSTER -u u1",
    "getUser -b BROKER -u zz",
    "listUser -c CLUSTER",
    "listUser -b BROKER -f u",
    "listUser -b BROKER -f nobody",
    "copyUser -f BROKER -t BROKER -u u1",
    "createAcl -c CLUSTER -s User:u1 -r Topic:T1,Topic:P*,Group:* -a Pub,Sub -d Allow",
    "createAcl -c CLUSTER -s User:u1 -r Topic:T2 -a Get -d Deny -i 10.0.0.0/8,127.0.0.1",
    "createAcl -c CLUSTER -s User:zz -r Topic:T1 -a Pub -d Allow",
    "createAcl -c CLUSTER -s User:u1 -r Wrong:T1 -a Pub -d Allow",
    "createAcl -c CLUSTER -s User:u1 -r Topic:T1 -a Any -d Allow",
    "createAcl -c CLUSTER -s User:u1 -r Topic:T1 -a Pub -d Allow -i 10.0.0",
    "updateAcl -b BROKER -s User:u1 -r Topic:T1 -a Pub -d Deny",
    "getAcl -c CLUSTER -s User:u1",
    "getAcl -b BROKER -s User:u3",
    "getAcl -b BROKER -s User:zz",
    "listAcl -c CLUSTER",
    "listAcl -b BROKER -s u1 -r Topic:T1",
    "listAcl -b BROKER -r nothing",
    "copyAcl -f BROKER -t BROKER -s User:u1",
    "deleteAcl -c CLUSTER -s User:u1 -r Topic:T1",
    "deleteAcl -c CLUSTER -s User:zz",
    "deleteAcl -b BROKER -s User:u1",
    "deleteAcl -b BROKER -s User:u1",
    "deleteUser -c CLUSTER -u u1",
    "deleteUser -c CLUSTER -u u1",
    "listUser -c CLUSTER",
)
"""mqadmin's twelve sub-commands; those of `-c` ask the name server for the brokers first."""


class Seen:
    """What the sub-commands printed and were answered."""

    def __init__(self, probe: JavaProbe, cluster: Cluster, folder: Path) -> None:
        [self._broker] = cluster.brokers.values()
        values = {"CLUSTER": CLUSTER_NAME, "BROKER": self._broker}
        calls = [
            [values.get(word, word) for word in call.split()] + ["-n", cluster.namesrv]
            for call in USER_COMMANDS
        ]
        self.calls: list[dict[str, Any]] = probe.run(
            "mqadmin", jvm=key_file(folder, ADMIN), calls=json.dumps(calls), deadline_s=300
        )

    def printed(self, number: int) -> list[str]:
        """The lines, in any order: RocketMQ's users come in that of a hash table."""
        lines = self.calls[number]["printed"].replace(self._broker, "BROKER").splitlines()
        return sorted(line.rstrip() for line in lines)

    def answers(self, number: int) -> list[tuple[int, int, str | None, Any]]:
        """Request, code, remark and body of each exchange about users."""
        return [
            (e["request"], e["code"], e["remark"], _sorted(e["answerBody"]))
            for e in self.calls[number]["exchanges"]
            if 3001 <= e["request"] <= 3010
        ]


def _sorted(body: str | None) -> Any:
    found = json.loads(body) if body else None
    return sorted(found, key=str) if isinstance(found, list) else found


@pytest.fixture(scope="module")
def both(
    probe: JavaProbe, signed: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Seen, Seen]:
    if not probe.is_5:
        pytest.skip("the sub-commands are those of 5.5.0")
    folder = tmp_path_factory.mktemp("apache")
    ours = Seen(probe, signed, tmp_path_factory.mktemp("keys"))
    with apache_cluster(folder, settings=APACHES_SETTINGS) as cluster:
        theirs = Seen(probe, cluster, tmp_path_factory.mktemp("keys"))
    return ours, theirs


@pytest.mark.whole_interop
class TestMqadmin:
    @pytest.mark.parametrize("number", range(len(USER_COMMANDS)), ids=USER_COMMANDS)
    def test_users_and_policies_are_answered_as_apache_does(
        self, both: tuple[Seen, Seen], number: int
    ) -> None:
        ours, theirs = both
        assert ours.answers(number) == theirs.answers(number)
        assert ours.answers(number), "something was asked"
        assert ours.printed(number) == theirs.printed(number)
