"""All cases of h2spec, on the gRPC server."""

from __future__ import annotations

import asyncio
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from support.interop import go_probe
from support.interop.h2spec import build_h2spec

from pocketmq.runtime.clock import SystemClock
from pocketmq.transport.grpc.server import GrpcServer
from pocketmq.transport.grpc.service import Service

# The first run downloads the program.
pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]

CASES = 145


async def test_the_server_keeps_all_rules(tmp_path: Path) -> None:
    if reason := go_probe.missing_tools():
        pytest.skip(reason)
    program = await asyncio.to_thread(build_h2spec)
    server = GrpcServer(SystemClock(), Service())
    await server.listen("127.0.0.1", 0)
    report = tmp_path / "report.xml"
    running = await asyncio.create_subprocess_exec(
        *(str(program), "-h", "127.0.0.1", "-p", str(server.port), "-j", str(report)),
        stdout=asyncio.subprocess.DEVNULL,
    )
    await running.wait()
    await server.close(0.0)
    cases = list(ET.parse(report).iter("testcase"))
    bad = [one.get("classname") for one in cases if one.findall("*")]
    assert (len(cases), bad) == (CASES, [])
