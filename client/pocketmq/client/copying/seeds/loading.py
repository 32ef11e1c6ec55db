"""Loading a seed's messages into a topic, each once, even if the loading is interrupted.

What is done is noted in the name servers' KV configuration, which lives as long as the data.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from pocketmq.client.admin import Admin
from pocketmq.client.copying.ordered_sender import OrderedSender
from pocketmq.client.copying.queue_plan import QueuePlan
from pocketmq.client.copying.seeds.seed_file import Seed
from pocketmq.client.producers.producer import Producer
from pocketmq.protocol.errors import ConfigError, OperatingError, PocketMQError, UsageError
from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.messages.message import Message, MessageQueue
from pocketmq.protocol.names.namespaces import Namespace

KV_NAMESPACE = "POCKETMQ_SEED"

_WAITING = (props.DELAY, *props.TIMER_PROPERTIES)


class LoadNote(msgspec.Struct, frozen=True):
    """How far the messages of a topic are loaded.

    Attributes:
        digest: which messages.
        is_done: all are stored.
        first_offsets: where each queue ended before, by broker and queue.
    """

    digest: str
    is_done: bool
    first_offsets: dict[str, int]


class MessageLoading:
    """Loads the messages of a seed.

    Args:
        seed: what is loaded.
        admin: looks at topics, and keeps notes.
        producer: sends; in the namespace of the topics.
        namespace: the same.
    """

    def __init__(self, seed: Seed, admin: Admin, producer: Producer, namespace: Namespace) -> None:
        self._seed, self._admin, self._producer = seed, admin, producer
        self._namespace = namespace

    async def note_of(self, topic: str) -> LoadNote | None:
        """Reads the note that an earlier run left in the name servers."""
        text = await self._admin.kv_get(KV_NAMESPACE, self._namespace.wrap(topic))
        return None if text is None else msgspec.json.decode(text, type=LoadNote)

    async def load(self, topic: str, note: LoadNote | None, write_queues: Mapping[str, int]) -> int:
        """Sends the messages that are not stored yet.

        Args:
            topic: its name; all of its queues can be written to for the moment.
            write_queues: how many of them are for writing, by broker.
            note: of a run that was interrupted.

        Returns:
            How many messages.

        Raises:
            ConfigError: a message names a queue that the topic does not have; names its place.
            OperatingError: a message could not be sent; names its place.
        """
        queues = await self._producer.queues(topic)
        usual = [q for q in queues if q.queue_id < write_queues.get(q.broker_name, 0)]
        for _ in self._chosen(topic, QueuePlan(usual, is_strict=True, named=queues)):
            pass  # a mistake is raised before anything is sent
        stats = await self._admin.topic_stats(self._namespace.wrap(topic))
        ends = {f"{row.queue.broker_name}:{row.queue.queue_id}": row.max_offset for row in stats}
        if note is None:
            note = LoadNote(self._seed.digest(topic), False, ends)
            await self._keep(topic, note)
        done = {key: end - note.first_offsets.get(key, 0) for key, end in ends.items()}
        if any(name in d.properties for _, d in self._seed.messages(topic) for name in _WAITING):
            done = {}  # what is delayed is not in its queue yet: rather twice than never
        plan = QueuePlan(usual, is_strict=True, named=queues)
        loaded = await self._send(self._chosen(topic, plan), done)
        await self._keep(topic, msgspec.structs.replace(note, is_done=True))
        return loaded

    async def _keep(self, topic: str, note: LoadNote) -> None:
        text = msgspec.json.encode(note).decode()
        await self._admin.kv_put(KV_NAMESPACE, self._namespace.wrap(topic), text)

    def _chosen(self, topic: str, plan: QueuePlan) -> Iterator[tuple[str, Message, MessageQueue]]:
        """Returns the messages with their positions in the file and their queues."""
        for where, document in self._seed.messages(topic):
            message = document.message(topic, keep_id=True)
            try:
                queue = plan.queue_for(message, document.broker, document.queue)
            except UsageError as e:
                raise ConfigError(f"{where}: {e}") from e
            yield where, message, queue

    async def _send(
        self, chosen: Iterator[tuple[str, Message, MessageQueue]], done: dict[str, int]
    ) -> int:
        errors: list[tuple[str, PocketMQError]] = []
        loaded = 0

        def failed(where: str, error: PocketMQError) -> bool:
            errors.append((where, error))
            return False

        sender: OrderedSender[str] = OrderedSender(self._producer, len, failed)
        try:
            for where, message, queue in chosen:
                key = f"{queue.broker_name}:{queue.queue_id}"
                if done.get(key, 0) > 0:
                    done[key] -= 1
                    continue
                loaded += 1
                if not await sender.put(message, queue, where):
                    break
            await sender.flush()
        finally:
            await sender.close()
        if errors:
            where, error = errors[0]
            raise OperatingError(f"{where}: the message could not be loaded: {error}")
        return loaded
