"""Polls messages when it likes, goes back and reads them again."""

import asyncio
import sys

from pocketmq.client import LitePullConsumer, Message, Producer


async def main(namesrv: str = "127.0.0.1:9876") -> None:
    """Reads five messages, says so, and reads the queues from their beginning once more."""
    async with Producer("sensors", namesrv) as producer:
        for number in range(5):
            await producer.send(Message("Temperatures", b"%d" % number))

    consumer = LitePullConsumer(
        "reports", namesrv, auto_commit=False, consume_from_where="CONSUME_FROM_FIRST_OFFSET"
    )
    consumer.subscribe("Temperatures")
    async with consumer:
        count = 0
        while count < 5:
            count += len(await consumer.poll())
        await consumer.commit()
        print("read:", count)

        for queue in consumer.assignment:
            await consumer.seek_to_begin(queue)
        again = await consumer.poll()
        print("and again:", again[0].body.decode().isdigit())


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
