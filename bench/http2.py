"""The gRPC server beside grpcio's own: an echo, and a stream of 16 messages.

    python bench/http2.py [--seconds 3] [--rounds 3]

Each server has a process of its own, and both have the same clients: grpcio's, in C, in this
process. The rounds alternate. Told are calls a second, and the CPU time of the server for a call.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import threading
import time
from typing import Any

import grpc
import psutil
import uvloop

from pocketmq.runtime.clock import SystemClock
from pocketmq.transport.grpc.call import Call
from pocketmq.transport.grpc.server import GrpcServer
from pocketmq.transport.grpc.service import Service

CONCURRENT = 64
BODY = b"x" * 128
STREAMED = 16
ECHO, STREAM = "/bench.Echo/Call", "/bench.Echo/Stream"
SERVERS = ("pocketmq", "grpcio")


async def serve_pocketmq() -> None:
    async def stream(call: Call, message: bytes) -> None:
        for _ in range(STREAMED):
            await call.write(message)

    service = Service(unary={ECHO: lambda call, message: message}, streaming={STREAM: stream})
    server = GrpcServer(SystemClock(), service)
    await server.listen("127.0.0.1", 0)
    print(server.port, flush=True)
    await asyncio.Event().wait()


async def serve_grpcio() -> None:
    async def echo(request: bytes, context: Any) -> bytes:
        return request

    async def stream(request: bytes, context: Any) -> None:
        for _ in range(STREAMED):
            await context.write(request)

    server: Any = grpc.aio.server()
    handlers: Any = {
        "Call": grpc.unary_unary_rpc_method_handler(echo),
        "Stream": grpc.unary_stream_rpc_method_handler(stream),
    }
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("bench.Echo", handlers)])
    print(server.add_insecure_port("127.0.0.1:0"), flush=True)
    await server.start()
    await server.wait_for_termination()


def load(port: int, path: str, seconds: float) -> int:
    """Calls in `CONCURRENT` places until the time is over; returns how many calls."""
    channel: Any = grpc.insecure_channel(f"127.0.0.1:{port}")
    end_s = time.monotonic() + seconds
    count, open_calls, over = 0, CONCURRENT, threading.Event()
    lock = threading.Lock()
    unary, stream = channel.unary_unary(ECHO), channel.unary_stream(STREAM)

    def next_unary(done: Any = None) -> None:
        nonlocal count, open_calls
        with lock:
            if done is not None:
                done.result()
                count += 1
            if time.monotonic() > end_s:
                open_calls -= 1
                if not open_calls:
                    over.set()
                return
        unary.future(BODY).add_done_callback(next_unary)

    def streams() -> None:
        nonlocal count
        while time.monotonic() < end_s:
            assert sum(1 for _ in stream(BODY)) == STREAMED
            with lock:
                count += 1

    if path == ECHO:
        for _ in range(CONCURRENT):
            next_unary()
        over.wait()
    else:
        threads = [threading.Thread(target=streams) for _ in range(CONCURRENT)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    channel.close()
    return count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--serve", choices=SERVERS)
    options = parser.parse_args()
    if options.serve == "pocketmq":
        uvloop.run(serve_pocketmq())
        return
    if options.serve == "grpcio":
        asyncio.run(serve_grpcio())
        return
    processes = {
        name: subprocess.Popen(
            [sys.executable, __file__, "--serve", name], stdout=subprocess.PIPE, text=True
        )
        for name in SERVERS
    }
    try:
        ports = {name: int(one.stdout.readline()) for name, one in processes.items() if one.stdout}
        print(f"{'round':>5} {'server':>9} {'rpc':>7} {'calls/s':>9} {'CPU µs/call':>12}")
        for number in range(options.rounds):
            for path in (ECHO, STREAM):
                for name in SERVERS:
                    measure(number, name, processes[name].pid, ports[name], path, options.seconds)
    finally:
        for one in processes.values():
            one.terminate()
            one.wait()


def measure(number: int, name: str, pid: int, port: int, path: str, seconds: float) -> None:
    process = psutil.Process(pid)
    before, start_s = process.cpu_times(), time.monotonic()
    count = load(port, path, seconds)
    after, taken_s = process.cpu_times(), time.monotonic() - start_s
    cpu_s = after.user + after.system - before.user - before.system
    rpc = "unary" if path == ECHO else "stream"
    rate, cpu_us = count / taken_s, cpu_s / count * 1e6
    print(f"{number:>5} {name:>9} {rpc:>7} {rate:>9.0f} {cpu_us:>12.1f}")


if __name__ == "__main__":
    main()
