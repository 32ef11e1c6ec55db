from __future__ import annotations

from prometheus_client.samples import Sample
from support.scrapes import families_of, value

from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.wire.command import Command
from pocketmq.runtime.clock import SystemClock
from pocketmq.runtime.metrics.exposition import Exposition, Format
from pocketmq.transport.metering.rpc_latency import RpcLatency

COUNT = "rocketmq_rpc_latency_milliseconds_count"


def samples_of(latency: RpcLatency) -> list[Sample]:
    out = Exposition(Format.TEXT, SystemClock())
    for _ in latency.write(out):
        pass
    return [s for family in families_of(out.end().decode()) for s in family.samples]


def test_codes_have_rocketmqs_names() -> None:
    latency = RpcLatency({"node_id": "a"})
    for is_late in (False, True):
        for code in (RequestCode.PULL_MESSAGE, RequestCode.SEND_MESSAGE_V2):
            latency.answered(Command(code), ResponseCode.SUCCESS, is_late, "success", 2.0)
    samples = samples_of(latency)
    labels = {"node_id": "a", "protocol_type": "remoting", "response_code": "success"}
    send = {"request_code": "send_message_v2", "is_long_polling": "false"}
    assert value(samples, COUNT, **send, **labels) == 2
    for is_held in ("true", "false"):
        pull = {"request_code": "pull_message", "is_long_polling": is_held}
        assert value(samples, COUNT, **pull, **labels) == 1


def test_codes_that_are_not_known_share_a_series() -> None:
    latency = RpcLatency({})
    for code in range(50_000, 50_010):
        latency.answered(Command(code), code, False, "success", 2.0)
    labels = {"request_code": "unknown", "response_code": "unknown"}
    assert value(samples_of(latency), COUNT, **labels) == 10
