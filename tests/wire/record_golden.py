"""Records ``golden/frames.json``: frames of Apache's Java client and servers, both header codecs.

Run by hand, from the repository, on Linux, with Java and Maven:

    PYTHONPATH=tests unshare -rn sh -c 'ip link set lo up && python tests/wire/record_golden.py'

``unshare`` leaves the recorded processes no address but 127.0.0.1, so that none of this machine's
gets into the frames (message ids, client ids); build the interop tests once before, because without
a network Maven cannot download. Logging proxies stand between the client, the name server and the
broker. Nothing is rewritten: the broker names 127.0.0.1:PORT, where the proxy listens, while it
binds PORT on 127.0.0.2.

``frames.json`` is a list; each entry has
  name          "codec/case/direction", unique, for example "json/route_found/response"
  link          client-namesrv, client-broker or broker-namesrv (connecting side first)
  direction     request or response
  request_code  code of the request, also for responses
  code          code in this frame's header: request code, or response code
  codec         JSON or ROCKETMQ: the codec of this frame's header
  hex           the whole frame, its length prefix included
  body_size     how many of its last bytes are the body
  header        code, language, version, opaque, flag, remark, extFields as an independent decoder
                read them; null for what is absent (ROCKETMQ cannot tell empty from absent)
The request and the response of a case belong to each other. One-way cases have no response.
"""

from __future__ import annotations

import asyncio
import json
import re
import signal
import sys
import tempfile
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.interop.apache_servers import Listening, apache_cluster, free_broker_port, free_port
from support.interop.java_admin_calls import ADMIN
from support.interop.java_calls import Call
from support.interop.java_probe import build_probe
from support.protocol.frame_log import Exchange, Frame, FrameLog

OUTPUT = Path(__file__).parent / "golden" / "frames.json"
SIZE_MAX = 300_000
BROKER_HOST = "127.0.0.2"
TOPIC = "GoldenTopic"
TRANSACTION_TOPIC = "GoldenTransactions"
FOREIGN_ADDRESS = re.compile(rb"(?<![\d.])(?!127\.0\.0\.1(?!\d))\d{1,3}(?:\.\d{1,3}){3}(?![\d.])")


def _any(_: Exchange) -> bool:
    return True


def _property(name: str) -> Callable[[Exchange], bool]:
    """Whether a SEND_MESSAGE_V2 carries a message property (its field i)."""
    return lambda exchange: name in exchange.request.header["extFields"]["i"]


def _compressed(exchange: Exchange) -> bool:
    """Whether bit 0 of a SEND_MESSAGE_V2's sysFlag (its field f) is set."""
    return bool(int(exchange.request.header["extFields"]["f"]) & 1)


def _with_body(exchange: Exchange) -> bool:
    return exchange.response is not None and exchange.response.body_size > 0


def _subscribes(exchange: Exchange) -> bool:
    """Whether a heartbeat names a consumer group and what it subscribes to."""
    return b'"subscriptionDataSet":[{' in exchange.request.raw


def _of_consumer(exchange: Exchange) -> bool:
    return "consumerGroup" in exchange.request.header["extFields"]


def _by_unique_key(exchange: Exchange) -> bool:
    """Whether a QUERY_MESSAGE looks for the id that the client gave a message."""
    return bool(exchange.request.header["extFields"].get("_UNIQUE_KEY_QUERY") == "true")


def _after_check(exchange: Exchange) -> bool:
    """Whether an END_TRANSACTION answers a broker's question."""
    return bool(exchange.request.header["extFields"]["fromTransactionCheck"] == "true")


def _by_broker(exchange: Exchange) -> bool:
    """Whether a broker asks a client: what it passes on has the code that it was asked with."""
    return exchange.is_from_server


def _by_client(exchange: Exchange) -> bool:
    return not exchange.is_from_server


@dataclass(frozen=True)
class Case:
    """Which exchange to keep: the first with this code and answer that fits."""

    name: str
    request_code: int
    # None: a one-way request.
    response_code: int | None = 0
    fits: Callable[[Exchange], bool] = _any

    def matches(self, exchange: Exchange) -> bool:
        """Whether the exchange is one of this case."""
        if exchange.request.header["code"] != self.request_code:
            return False
        if self.response_code is None:
            return exchange.request.is_one_way and self.fits(exchange)
        answer = exchange.response
        if answer is None or answer.header["code"] != self.response_code:
            return False
        return self.fits(exchange)


CASES = (
    Case("register_broker", 103),
    Case("unregister_broker", 104),
    Case("route_found", 105),
    Case("route_missing", 105, 17),
    Case("cluster_info", 106, fits=_with_body),
    Case("create_topic", 17),
    Case("send", 310),
    Case("send_properties", 310, fits=_property("colour")),
    Case("send_non_ascii", 310, fits=_property("città")),
    Case("send_compressed", 310, fits=_compressed),
    Case("send_one_way", 310, None),
    Case("send_batch", 320),
    Case("pull_found", 11),
    Case("pull_not_found", 11, 19),
    Case("pull_no_match", 11, 20),
    Case("pull_offset_illegal", 11, 21),
    Case("query_consumer_offset", 14),
    Case("update_consumer_offset", 15, None),
    Case("search_offset", 29),
    Case("max_offset", 30),
    Case("min_offset", 31),
    Case("earliest_store_time", 32),
    Case("view_message", 33),
    Case("heartbeat_producer", 34),
    Case("heartbeat_consumer", 34, fits=_subscribes),
    Case("unregister_producer", 35),
    Case("unregister_consumer", 35, fits=_of_consumer),
    Case("send_transactional", 310, fits=_property("TRAN_MSG")),
    Case("end_transaction", 37, None),
    Case("end_transaction_after_check", 37, None, fits=_after_check),
    Case("check_transaction", 39, None),
    Case("consumer_list", 38),
    Case("consumer_ids_changed", 40, None),
    Case("topic_stats", 202),
    Case("topic_config", 351),
    Case("lite_pull_found", 361),
    Case("query_by_key", 12),
    Case("query_by_unique_key", 12, fits=_by_unique_key),
    Case("query_nothing", 12, 22),
    Case("send_back", 36),
    Case("lock", 41),
    Case("unlock", 42),
    Case("consumer_connections", 203),
    Case("reset_told_to_client", 220, None),
    Case("reset", 222),
    Case("consumer_status", 223),
    Case("consumer_status_from_client", 221),
    Case("running_info", 307, fits=_by_client),
    Case("running_info_from_client", 307, fits=_by_broker),
    Case("consume_directly", 309, fits=_by_client),
    Case("consume_directly_by_client", 309, fits=_by_broker),
    Case("queue_entries", 321),
    Case("send_long_names", 10),
    Case("reply_long_names", 324),
    Case("reply", 325),
    Case("reply_told_to_client", 326),
    Case("recall", 370),
    Case("recall_refused", 370, 604),
)

ASKED_OF_THE_CONSUMER = (
    "examineConsumerConnectionInfo(String)",
    "getConsumerRunningInfo(String, String, boolean)",
    "getConsumeStatus(String, String, String)",
    "consumeMessageDirectly(String, String, String, String)",
    "resetOffsetByTimestamp(String, String, long, boolean)",
)
"""Calls of the admin tool that the broker passes on, or that end in one to a client."""

COMMIT = "updateConsumeOffset(String, String, MessageQueue, long)"
COMMITS = [Call("admin", COMMIT, ["{broker}", "{group}", queue, 1]) for queue in (0, 1)]
"""A group's offsets are reset only where it has some."""

LONG_NAMES = {"org.apache.rocketmq.client.sendSmartMsg": "false"}
"""Has Apache's client send with the codes whose fields have long names."""

SCENARIOS = ("orderly", "queries", "timers", "request-reply", "pull-block")


async def record(codec: str, folder: Path) -> list[Exchange]:
    """Run Apache's servers and client with one header codec; returns all they said."""
    log = FrameLog()
    namesrv_port, broker_port = free_port(), free_broker_port()
    async with AsyncExitStack() as stack:

        async def listen(link: str, port: int, target: tuple[str, int]) -> int:
            server = await stack.enter_async_context(await log.listen(link, port, target))
            listening: int = server.sockets[0].getsockname()[1]
            return listening

        client_side = await listen("client-namesrv", 0, ("127.0.0.1", namesrv_port))
        broker_side = await listen("broker-namesrv", 0, ("127.0.0.1", namesrv_port))
        await listen("client-broker", broker_port, (BROKER_HOST, broker_port))
        ports = Listening(namesrv_port, broker_port, broker_side, BROKER_HOST)
        await asyncio.to_thread(_drive, codec, folder, ports, f"127.0.0.1:{client_side}")
    return log.exchanges


def _drive(codec: str, folder: Path, ports: Listening, namesrv: str) -> None:
    """The session that is recorded: every probe command once, on one small topic."""
    probe = build_probe(folder)
    options: dict[str, Any] = {
        "namesrv": namesrv,
        "topic": TOPIC,
        "jvm": {"rocketmq.serialize.type": codec},
    }
    # TERM, because the broker unregisters only when it is asked to stop.
    stopping = signal.SIGTERM
    settings = {"useServerSideResetOffset": "false"}  # else it tells no client of a reset (220)
    with apache_cluster(
        folder / codec, ports, serialize_type=codec, stop_signal=stopping, settings=settings
    ):
        probe.run("create-topic", **options, read_queues=4, write_queues=4)
        expected = len(probe.run("send", **options)["sent"])
        probe.run("pull", **options, expect=expected)
        probe.run("lite-pull", **options, mode="subscribe", expect=expected)
        probe.run("inspect", **options)
        probe.run("transactions", **options | {"topic": TRANSACTION_TOPIC}, group="golden")
        for name in SCENARIOS:
            probe.run(name, **options | {"topic": f"Golden-{name}"}, group=f"golden-{name}")
        jvm = {**options["jvm"], **LONG_NAMES}
        spelt_out = options | {"topic": "Golden-long", "jvm": jvm}
        probe.run("request-reply", **spelt_out, group="golden-long")
        passed_on = [call for call in ADMIN if call.signature in ASKED_OF_THE_CONSUMER]
        asked = json.dumps([call.asked() for call in (*COMMITS, *passed_on)])
        probe.run("calls", **options | {"topic": "Golden-calls"}, group="golden-calls", calls=asked)


def entries(codec: str, exchanges: list[Exchange]) -> list[dict[str, Any]]:
    """The golden entries of every case. Raises LookupError for a case that never happened."""
    chosen = []
    for case in CASES:
        exchange = next(filter(case.matches, exchanges), None)
        if exchange is None:
            raise LookupError(f"no exchange for {case.name} with codec {codec}")
        frames = {"request": exchange.request, "response": exchange.response}
        for direction, frame in frames.items():
            if frame is not None:
                chosen.append(_entry(case, exchange.link, direction, frame))
    return chosen


def _entry(case: Case, link: str, direction: str, frame: Frame) -> dict[str, Any]:
    if foreign := FOREIGN_ADDRESS.search(frame.raw):
        raise ValueError(f"{case.name} names {foreign.group().decode()}: record under unshare -rn")
    return {
        "name": f"{frame.codec.lower()}/{case.name}/{direction}",
        "link": link,
        "direction": direction,
        "request_code": case.request_code,
        "code": frame.header["code"],
        "codec": frame.codec,
        "body_size": frame.body_size,
        "header": frame.header,
        "hex": frame.raw.hex(),
    }


def summary(exchanges: list[Exchange]) -> str:
    """Which requests were seen with which answers, to find what else is worth keeping."""
    pairs = {
        (exchange.request.header["code"], exchange.response and exchange.response.header["code"])
        for exchange in exchanges
    }
    return ", ".join(
        f"{request}->{'-' if answer is None else answer}"
        for request, answer in sorted(pairs, key=str)
    )


async def main() -> None:
    """Record both codecs and replace the golden file."""
    golden: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for codec in ("JSON", "ROCKETMQ"):
            exchanges = await record(codec, Path(folder))
            sys.stdout.write(f"{codec}: {len(exchanges)} exchanges: {summary(exchanges)}\n")
            golden += entries(codec, exchanges)
    lines = ",\n".join(json.dumps(entry, ensure_ascii=False) for entry in golden)
    text = f"[\n{lines}\n]\n"
    if len(text.encode()) > SIZE_MAX:
        raise ValueError(f"{len(text.encode())} bytes, the limit is {SIZE_MAX}: drop a case")
    OUTPUT.write_text(text, encoding="utf-8")
    sys.stdout.write(f"{len(golden)} frames, {len(text.encode())} bytes\n")


if __name__ == "__main__":
    asyncio.run(main())
