"""`pocketmq tail` writes bodies in Avro and Protobuf as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from support.commands.here import Command, here
from support.peers.schema_registry import Registry, schema_registry

from pocketmq.client import Message
from pocketmq.schemas import Schema, SchemaRegistry, Serializer, registry_settings
from pocketmq.testing import Cluster, LocalCluster

__all__ = ["here"]

DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
FIELDS = [
    {"name": "id", "type": "long"},
    {"name": "total", "type": DECIMAL},
    {"name": "placed", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    {"name": "seal", "type": "bytes"},
]
ORDER = Schema(json.dumps({"type": "record", "name": "Order", "fields": FIELDS}))
VALUE = {
    "id": 7,
    "total": Decimal("12.50"),
    "placed": datetime(2026, 1, 31, tzinfo=UTC),
    "seal": b"\0",
}
SHOWN = {"id": 7, "total": "12.50", "placed": "2026-01-31T00:00:00Z", "seal": "AA=="}


@pytest.fixture(scope="module")
def registry() -> Iterator[Registry]:
    with schema_registry() as server:
        yield server


@pytest.fixture(scope="module")
def cluster(registry: Registry) -> Iterator[Cluster]:
    settings = registry_settings(registry.url)
    assert settings is not None
    framed = Serializer.registered(SchemaRegistry(settings), "Orders-value", ORDER)
    with (
        LocalCluster(topics={"Orders": 1, "Plain": 1, "Paid": 1, "Fits": 1}) as running,
        running.producer() as producer,
    ):
        producer.send(Message("Orders", framed.encode(VALUE), keys=["k"]))
        producer.send(Message("Orders", b"text"))
        producer.send(Message("Plain", Serializer(ORDER).encode(VALUE)))
        yield running


def words(cluster: Cluster, topic: str) -> tuple[str, ...]:
    return ("tail", topic, "--offset", "beginning", "--exit", "--namesrv", cluster.namesrv)


def test_bodies_become_json_by_the_registry(
    cluster: Cluster, registry: Registry, here: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, errors = here(*words(cluster, "Orders"), "--schema-registry", registry.url)
    first, second = out.splitlines()
    assert (code, json.loads(first), second) == (0, SHOWN, "text")
    assert "Orders broker-a:0 1: the body has no frame" in errors
    assert "written as it is" in errors
    monkeypatch.setenv("POCKETMQ_SCHEMA_REGISTRY", registry.url)
    _, out, _ = here(*words(cluster, "Orders"), "--decode", "-f", "%k %s\\n", "--count", "1")
    key, _, body = out.partition(" ")
    assert (key, json.loads(body)) == ("k", SHOWN)
    _, out, _ = here(*words(cluster, "Orders"), "-f", "%S\\n", "--count", "1")
    assert int(out) == 5 + len(Serializer(ORDER).encode(VALUE)), "nobody has asked to decode"


def test_bodies_become_json_by_a_file(cluster: Cluster, here: Command, tmp_path: Path) -> None:
    path = tmp_path / "order.avsc"
    path.write_text(ORDER.text)
    code, out, _ = here(*words(cluster, "Plain"), "--schema", str(path))
    assert (code, json.loads(out)) == (0, SHOWN)


def test_lines_of_json_become_bodies(
    cluster: Cluster, registry: Registry, here: Command, tmp_path: Path
) -> None:
    path = tmp_path / "shop.proto"
    path.write_text(
        'syntax = "proto3"; import "google/protobuf/timestamp.proto"; message Empty {}'
        "message Paid { int64 id = 1; bytes seal = 2; google.protobuf.Timestamp at = 3; }"
    )
    line = '{"id": 7, "seal": "AA==", "at": "2026-01-31T00:00:00Z"}'
    schema = ("--schema", f"{path}:Paid", "--schema-registry", registry.url)
    names = ("--namesrv", cluster.namesrv)
    assert here("produce", "Paid", *schema, *names, stdin=f"{line}\n")[0] == 0
    _, out, _ = here(*words(cluster, "Paid"), "--schema-registry", registry.url)
    assert json.loads(out) == json.loads(line)
    again = ("produce", "Paid", "--subject", "Paid-value", "--schema-registry", registry.url)
    code, _, errors = here(*again, *names, stdin='{"id": 8}\n{"id": "x"}\ntext\n')
    assert code == 2
    assert "does not fit the message type Empty" in errors, "the first of the file"


def test_lines_that_do_not_fit_are_named(
    cluster: Cluster, registry: Registry, here: Command, tmp_path: Path
) -> None:
    path = tmp_path / "a.avsc"
    path.write_text('{"type": "record", "name": "A", "fields": [{"name": "id", "type": "long"}]}')
    command = ("produce", "Fits", "--schema", str(path), "--namesrv", cluster.namesrv)
    code, _, errors = here(*command, "--keep-going", stdin='{"id": 8}\n{"id": "x"}\ntext\n')
    assert code == 1
    assert "standard input:2: the value does not fit the schema" in errors
    assert "standard input:3: the body is no JSON, which a schema needs" in errors
    _, out, _ = here(*words(cluster, "Fits"), "--schema", str(path))
    assert out == '{"id":8}\n'
    code, _, errors = here(*command, "--subject", "s")
    assert code == 2
    assert "--subject is of a schema registry" in errors


def test_what_cannot_work_is_told(cluster: Cluster, here: Command) -> None:
    code, _, errors = here(*words(cluster, "Plain"), "--decode")
    assert code == 2
    assert "--decode needs schemas: give --schema-registry URL" in errors
    code, _, errors = here(*words(cluster, "Orders"), "--schema-registry", "http://127.0.0.1:1")
    assert code == 1
    assert "does not answer" in errors
