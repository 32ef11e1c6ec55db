"""Reads a topic queue by queue, from the oldest message to the newest."""

import asyncio
import sys

from pocketmq.client import Message, Producer, PullConsumer, PullStatus


async def main(namesrv: str = "127.0.0.1:9876") -> None:
    """Counts what a topic holds."""
    async with Producer("shop", namesrv) as producer:
        for number in range(4):
            await producer.send(Message("Audit", b"%d" % number))

    count = 0
    async with PullConsumer("auditors", namesrv) as consumer:
        for queue in await consumer.queues("Audit"):
            offset = await consumer.min_offset(queue)
            while True:
                result = await consumer.pull(queue, offset)
                count += len(result.messages)
                offset = result.next_offset
                if result.status is PullStatus.NO_NEW_MESSAGE:
                    break
    print("at least four:", count >= 4)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
