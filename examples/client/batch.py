"""Sends many messages of one topic in few requests."""

import asyncio
import sys

from pocketmq.client import Message, Producer


async def main(namesrv: str = "127.0.0.1:9876") -> None:
    """Sends a thousand messages together."""
    messages = [Message("Readings", b"%d" % number) for number in range(1_000)]
    async with Producer("sensors", namesrv) as producer:
        results = await producer.send_batch(messages)
    print("sent:", sum(result.count for result in results), "in requests:", len(results))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
