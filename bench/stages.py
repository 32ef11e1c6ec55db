"""Times the stages of a send and a pull in one process, without sockets.

    python bench/stages.py [--profile]

The figures are microseconds of one call, the best of several rounds; compare them only with another
run on the same machine at the same time.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import pstats
import tempfile
import time
import timeit
from collections.abc import Callable
from functools import partial
from typing import Any

import uvloop

from pocketmq.broker import Broker, BrokerConfig
from pocketmq.protocol import frames
from pocketmq.protocol import properties as props
from pocketmq.protocol.command import Codec, Command
from pocketmq.protocol.header import NoFields
from pocketmq.protocol.records import decode_records, encode_record
from pocketmq.protocol.requests.pulling import PULL_SUBSCRIPTION, PullMessageRequest
from pocketmq.protocol.requests.sending import SendMessageResponse, SendMessageV2Request
from pocketmq.transport.connection import Connection

PROPERTIES = "UNIQ_KEY\x017F0000012A9F18B4AAC200000000000A\x02WAIT\x01true\x02TAGS\x01x\x02"
BODY = b"x" * 128
HOST = b"\x7f\0\0\1\0\0\x2a\x9f"
TOGETHER = 16


class Sink:
    """Takes the place of a socket: what is written is counted and dropped."""

    def __init__(self) -> None:
        self.written = 0

    def get_extra_info(self, _: str) -> tuple[str, int]:
        return "127.0.0.1", 50000

    def write(self, data: bytes) -> None:
        self.written += len(data)

    def writelines(self, parts: list[bytes]) -> None:
        self.written += sum(map(len, parts))

    def is_closing(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int) -> None:
        pass

    def close(self) -> None:
        pass


def send_request(queue_id: int) -> SendMessageV2Request:
    return SendMessageV2Request(
        producer_group="benchmark_producer",
        topic="Stages",
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=queue_id,
        born_timestamp=1_700_000_000_000,
        properties=PROPERTIES,
        sys_flag=0,
        flag=0,
        reconsume_times=0,
        unit_mode=False,
        batch=False,
        broker_name="broker-a",
    )


def row(name: str, call: Callable[[], Any], number: int = 20_000, share: int = 1) -> None:
    best = min(timeit.repeat(call, number=number, repeat=5)) / number / share
    print(f"{name:44} {best * 1e6:8.2f} us")


def codec_stages() -> None:
    response = SendMessageResponse(
        msg_id="A" * 32, queue_id=3, queue_offset=12345, transaction_id="B" * 32,
        region="DefaultRegion", trace_on=True,
    )  # fmt: skip
    for codec in Codec:
        frame = frames.encode(
            Command(310, opaque=5, header=send_request(1), body=BODY, codec=codec)
        )
        parser = frames.FrameParser()

        def parse(frame: bytes = frame, parser: frames.FrameParser = parser) -> Command:
            parser.feed(frame)
            command = parser.next_command()
            assert command is not None
            return command

        command = parse()
        row(f"{codec.name}: frame to command", parse)
        row(f"{codec.name}: command to typed send", partial(command.read, SendMessageV2Request))
        answer = Command(0, opaque=5, flag=1, header=response, codec=codec)
        row(f"{codec.name}: typed answer to frame", partial(frames.encode, answer))
    properties = PROPERTIES.encode()
    record = encode_record(
        topic=b"Stages", queue_id=1, flag=0, queue_offset=1, physical_offset=5, sys_flag=0,
        born_timestamp=1, born_host=HOST, store_timestamp=1, store_host=HOST, reconsume_times=0,
        prepared_transaction_offset=0, body=BODY, properties=properties,
    )  # fmt: skip
    row("stored record: encode", lambda: encode_record(
        topic=b"Stages", queue_id=1, flag=0, queue_offset=1, physical_offset=5, sys_flag=0,
        born_timestamp=1, born_host=HOST, store_timestamp=1, store_host=HOST, reconsume_times=0,
        prepared_transaction_offset=0, body=BODY, properties=properties,
    ))  # fmt: skip
    pulled = record * 32
    row("stored record: decode, in a pull of 32", lambda: list(decode_records(pulled)), 500, 32)
    row("properties: one value", lambda: props.value_of(PROPERTIES, props.TAGS))


async def broker_stages(profile: bool) -> None:
    with tempfile.TemporaryDirectory() as directory:
        config = BrokerConfig(
            listen_port=0, bind_address="127.0.0.1", store_path_root_dir=directory
        )
        async with Broker(config) as broker:
            for codec in Codec:
                connection = Connection(broker.clock, broker.handlers, chunks=broker.store)
                connection.connection_made(Sink())  # type: ignore[arg-type]
                sends = [
                    frames.encode(
                        Command(310, opaque=i, header=send_request(i % 4), body=BODY, codec=codec)
                    )
                    for i in range(TOGETHER)
                ]
                for name, chunks in (("alone", sends), ("of 16 together", [b"".join(sends)])):
                    measure(connection, f"{codec.name}: whole send, {name}", chunks, TOGETHER)
                pull = PullMessageRequest(
                    consumer_group="g", topic="Stages", queue_id=0, queue_offset=0,
                    sys_flag=PULL_SUBSCRIPTION, subscription="*",
                )  # fmt: skip
                frame = frames.encode(Command(11, header=pull, codec=codec))
                measure(connection, f"{codec.name}: whole pull of 32 messages", [frame], 1)
                if profile:
                    profiler = cProfile.Profile()
                    profiler.enable()
                    for _ in range(500):
                        for chunk in sends:
                            connection.data_received(chunk)
                    profiler.disable()
                    pstats.Stats(profiler).sort_stats("tottime").print_stats(25)


def measure(connection: Connection, name: str, chunks: list[bytes], messages: int) -> None:
    best = float("inf")
    for _ in range(5):
        rounds = 200
        started = time.perf_counter()
        for _ in range(rounds):
            for chunk in chunks:
                connection.data_received(chunk)
        best = min(best, (time.perf_counter() - started) / rounds / messages)
    print(f"{name:44} {best * 1e6:8.2f} us")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--profile", action="store_true", help="print where the time of sends goes")
    arguments = parser.parse_args()
    row("empty header: encode", lambda: frames.encode(Command(0, header=NoFields())))
    codec_stages()

    async def stages() -> None:
        await broker_stages(arguments.profile)
        await asyncio.sleep(0)

    uvloop.run(stages())


if __name__ == "__main__":
    main()
