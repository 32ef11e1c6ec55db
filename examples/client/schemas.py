"""Sends bodies in Avro by a schema registry, and reads old and new ones by one schema."""

import asyncio
import os
import sys

from pocketmq.client import Message, Producer, PullConsumer
from pocketmq.schemas import (
    Deserializer,
    RegistrySettings,
    Schema,
    SchemaRegistry,
    Serializer,
    value_subject,
)

INVOICE = Schema(
    """{"type": "record", "name": "shop.Invoice", "fields": [{"name": "id", "type": "long"}]}"""
)
NEWER = Schema(
    """{"type": "record", "name": "shop.Invoice", "fields": [
         {"name": "id", "type": "long"},
         {"name": "channel", "type": "string", "default": "web"}]}"""
)


async def main(namesrv: str = "127.0.0.1:9876") -> None:
    """Sends an invoice by each of two schemas, and reads both by the newer one."""
    address = os.environ.get("POCKETMQ_SCHEMA_REGISTRY", "http://127.0.0.1:8081")
    registry, subject = SchemaRegistry(RegistrySettings(url=address)), value_subject("Invoices")
    # The registry is asked over HTTP, which waits: in a thread, so that the loop goes on.
    old = await asyncio.to_thread(Serializer.registered, registry, subject, INVOICE)
    new = await asyncio.to_thread(Serializer.registered, registry, subject, NEWER)
    async with Producer("shop", namesrv) as producer:
        await producer.send(Message("Invoices", old.encode({"id": 1})))
        await producer.send(Message("Invoices", new.encode({"id": 2, "channel": "shop"})))

    deserializer = Deserializer(registry, reader=NEWER)
    async with PullConsumer("billing", namesrv) as consumer:
        for queue in await consumer.queues("Invoices"):
            for message in (await consumer.pull(queue, 0)).messages:
                invoice = await asyncio.to_thread(deserializer.decode, message.body)
                print(invoice["id"], invoice["channel"])


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
