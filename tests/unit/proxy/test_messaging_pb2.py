"""The messages of the gRPC service: made of messaging.proto as it stands, beside Apache's own."""

from __future__ import annotations

from pathlib import Path

import pytest
from google.protobuf import descriptor_pool

from pocketmq.proxy.rpc import messaging_pb2 as pb

RPC = Path(pb.__file__).parent


def test_what_protoc_makes_of_the_source_is_what_stands_here(tmp_path: Path) -> None:
    protoc = pytest.importorskip("grpc_tools.protoc")
    known = Path(protoc.__file__).parent / "_proto"
    made = tmp_path / "messaging.binpb"
    arguments = ["protoc", f"-I{RPC}", f"-I{known}", f"--descriptor_set_out={made}"]
    assert protoc.main([*arguments, f"--pyi_out={tmp_path}", "messaging.proto"]) == 0
    assert made.read_bytes() == (RPC / "messaging.binpb").read_bytes(), "run `make rpc`"
    stub = "messaging_pb2.pyi"
    assert (tmp_path / stub).read_text() == (RPC / stub).read_text(), "run `make rpc`"


def test_they_do_not_get_in_the_way_of_apaches_sdk() -> None:
    with pytest.raises(KeyError):
        descriptor_pool.Default().FindMessageTypeByName("apache.rocketmq.v2.Message")
    assert pb.Message.DESCRIPTOR.full_name == "apache.rocketmq.v2.Message"
