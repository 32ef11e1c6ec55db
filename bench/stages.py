"""Times the stages of a send, a pull and a client's work in one process, without sockets.

    python bench/stages.py [--profile]

The figures are microseconds of CPU time of one call or message, the best of several rounds; compare
them only with another run on the same machine at the same time.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import pstats
import random
import tempfile
import time
import timeit
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import uvloop

from pocketmq.broker import Broker, BrokerConfig
from pocketmq.broker.appending.batches import stored_batch
from pocketmq.broker.counters.put_times import PutTimes
from pocketmq.broker.counters.traffic import MINUTE, TrafficTable
from pocketmq.broker.reading.long_polling import LongPolling
from pocketmq.broker.store.disk.files import Files
from pocketmq.broker.store.keys.message_keys import index_items
from pocketmq.broker.store.log.queue_log import WRITTEN, QueueLog, Waiter
from pocketmq.broker.store.log.segment import ENTRY_SIZE
from pocketmq.client.instance.identity import UniqueKeys
from pocketmq.client.sending.outgoing import Packer
from pocketmq.client.settings import InstanceSettings, ProducerSettings
from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.messages.batch import decode_batch, encode_batch
from pocketmq.protocol.messages.message import Message
from pocketmq.protocol.messages.records import decode_records, encode_record
from pocketmq.protocol.requests.pulling import PULL_SUBSCRIPTION, PullMessageRequest
from pocketmq.protocol.requests.sending import SendMessageResponse, SendMessageV2Request
from pocketmq.protocol.wire import frames
from pocketmq.protocol.wire.command import Codec, Command
from pocketmq.protocol.wire.header import NoFields
from pocketmq.protocol.wire.send_answer_frames import send_answer_frames
from pocketmq.runtime.clock import SystemClock
from pocketmq.transport.connection import Connection, ConnectionOptions
from pocketmq.transport.frame_share import FrameShare

PROPERTIES = "UNIQ_KEY\x017F0000012A9F18B4AAC200000000000A\x02WAIT\x01true\x02TAGS\x01x\x02"
BODY = b"x" * 128
HOST = b"\x7f\0\0\1\0\0\x2a\x9f"
TOGETHER = 16
FIRST_TOGETHER = 2000


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

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def close(self) -> None:
        pass


def send_request(queue_id: int) -> SendMessageV2Request:
    return SendMessageV2Request(
        producer_group="benchmark_producer",
        topic="Stages",
        default_topic="TBW102",
        default_topic_queue_nums=8,
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
    times = timeit.repeat(call, timer=time.thread_time, number=number, repeat=5)
    best = min(times) / number / share
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
    answers = send_answer_frames("DefaultRegion", True)
    for codec in Codec:
        row(f"{codec.name}: answer put together at once", partial(
            answers[codec], 5, "A" * 32, 3, 12345, "B" * 32
        ))  # fmt: skip
    row("properties: one value", lambda: props.value_of(PROPERTIES, props.TAGS))


def record_at(queue_log: QueueLog) -> bytes:
    return encode_record(
        topic=b"Stages", queue_id=1, flag=0, queue_offset=queue_log.next_offset,
        physical_offset=queue_log.next_physical_offset, sys_flag=0, born_timestamp=1,
        born_host=HOST, store_timestamp=1, store_host=HOST, reconsume_times=0,
        prepared_transaction_offset=0, body=BODY, properties=PROPERTIES.encode(),
    )  # fmt: skip


def store_stages(directory: Path) -> None:
    files = Files()
    queue_log = QueueLog(files, directory / "1", "Stages", 1, 5, 64 * 1024 * 1024)
    record = record_at(queue_log)
    waiter = Waiter(lambda _: None, WRITTEN)
    row("stored record: encode", partial(record_at, queue_log))

    def append(count: int) -> None:
        for _ in range(count):
            queue_log.append(record, 0, waiter)
        queue_log.commit(1)

    row("queue log: append and commit", partial(append, 1), 5000)
    row(f"queue log: the same of {TOGETHER} together", partial(append, TOGETHER), 2000, TOGETHER)
    entries = [(0, BODY, PROPERTIES.encode())] * TOGETHER
    batch = encode_batch(entries)
    row(f"batch of {TOGETHER}: decode", partial(decode_batch, batch), 5000, TOGETHER)
    row(f"batch of {TOGETHER}: encode records", partial(
        stored_batch, entries, queue_log, topic=b"Stages", sys_flag=0, born_timestamp=1,
        born_host=HOST, store_timestamp=1, store_host=HOST, reconsume_times=0,
    ), 5000, TOGETHER)  # fmt: skip
    row("queue log: read 32 messages", partial(queue_log.read, 0, 32, 1 << 20), 5000)
    code = props.tags_code("x")
    row("queue log: read with a tag that none has", partial(
        queue_log.read, 0, 32, 1 << 20, {code}
    ), 50)  # fmt: skip
    data, index = queue_log.read_with_entries(0, 1000, 1 << 20)
    count = len(index) // ENTRY_SIZE
    row("key index: feed, a message", partial(index_items, data, index, 0), 20, count)
    files.close()


def waiting_stages() -> None:
    clock = SystemClock()
    traffic = TrafficTable[str](clock)
    traffic["Stages"].messages = 1
    row("statistics: sample a topic's minute", partial(traffic["Stages"].sample, 1.0, MINUTE))
    times = PutTimes()
    row("statistics: time of a turn", partial(times.add, 0.0001, 1))
    polling = LongPolling(clock, 10)
    queue_log = QueueLog(Files(), Path("unused"), "Stages", 1, 5, 1 << 20, [], 0, 1)
    row("long polling: nobody waits", partial(polling.arrived, queue_log))

    class Waits:
        connection, topic_name, queue_id, offset, end_tick = None, "Stages", 1, 0, 0

        def wake(self) -> bool:
            return True

        def expire(self) -> None:
            pass

    waits: Any = Waits()

    def wake() -> None:
        polling.hold(waits, 60_000)
        polling.arrived(queue_log)

    row("long polling: hold and wake", wake, 2000)


def client_stages() -> None:
    clock = SystemClock()
    keys = UniqueKeys(clock.now_ms, random.Random(1))
    packer = Packer("p", clock, keys, ProducerSettings(), InstanceSettings())
    message = Message("Stages", BODY, tags="x")
    row("client: message to request", partial(packer.pack, message))
    request = Command(310, header=packer.pack(message).header, body=BODY, codec=Codec.MSGPACK)
    row("client: request to frame (MSGPACK)", partial(frames.encode, request))
    queue_log = QueueLog(Files(), Path("unused"), "Stages", 1, 5, 1 << 20)
    pulled = record_at(queue_log) * 32
    row("client: decode, in a pull of 32", lambda: list(decode_records(pulled)), 500, 32)


async def broker_stages(profile: bool) -> None:
    with tempfile.TemporaryDirectory() as directory:
        config = BrokerConfig(
            listen_port=0, bind_address="127.0.0.1", store_path_root_dir=directory
        )
        async with Broker(config) as broker:
            for codec in Codec:
                connection = Connection(
                    broker.clock,
                    broker.handlers,
                    ConnectionOptions(read_events=broker.store.committer),
                )
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


async def first_send_stages() -> None:
    """What the first messages of many queues cost: all of it, and the longest turn of the loop."""
    with tempfile.TemporaryDirectory() as directory:
        config = BrokerConfig(
            listen_port=0, bind_address="127.0.0.1", store_path_root_dir=directory
        )
        async with Broker(config) as broker:
            connection = Connection(
                broker.clock,
                broker.handlers,
                ConnectionOptions(read_events=broker.store.committer, share=FrameShare()),
            )
            connection.connection_made(Sink())  # type: ignore[arg-type]
            frames_of = [frames.encode(first_request(n)) for n in range(FIRST_TOGETHER)]
            puts, turns_s = broker.store.counters, list[float]()
            before, started = puts.total.messages, time.thread_time()
            connection.data_received(b"".join(frames_of))
            while puts.total.messages < before + FIRST_TOGETHER:
                turns_s.append(time.thread_time() - started - sum(turns_s))
                await asyncio.sleep(0)
            turns_s.append(time.thread_time() - started - sum(turns_s))
            each_s = sum(turns_s) / FIRST_TOGETHER
            print(f"{f'{FIRST_TOGETHER} first messages: each':44} {each_s * 1e6:8.2f} us")
            print(f"{'the longest turn of the loop with them':44} {max(turns_s) * 1e6:8.2f} us")


def first_request(queue: int) -> Command:
    header = msgspec.structs.replace(send_request(queue % 8), topic=f"First{queue // 8}")
    return Command(310, opaque=queue, header=header, body=BODY)


def measure(connection: Connection, name: str, chunks: list[bytes], messages: int) -> None:
    best = float("inf")
    for _ in range(5):
        rounds = 200
        started = time.thread_time()
        for _ in range(rounds):
            for chunk in chunks:
                connection.data_received(chunk)
        best = min(best, (time.thread_time() - started) / rounds / messages)
    print(f"{name:44} {best * 1e6:8.2f} us")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--profile", action="store_true", help="print where the time of sends goes")
    arguments = parser.parse_args()
    row("empty header: encode", lambda: frames.encode(Command(0, header=NoFields())))
    codec_stages()
    client_stages()
    with tempfile.TemporaryDirectory() as directory:
        store_stages(Path(directory))

    async def stages() -> None:
        waiting_stages()
        await broker_stages(arguments.profile)
        await first_send_stages()
        await asyncio.sleep(0)

    uvloop.run(stages())


if __name__ == "__main__":
    main()
