"""Reading a seed file, which is checked as a whole before any of it is applied."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from pocketmq.client.copying.message_files import file_documents
from pocketmq.client.copying.seeds.model import GroupSeed, SeedDocument, TopicSeed
from pocketmq.protocol.errors import ConfigError, UsageError
from pocketmq.protocol.messages.message_json import MessageDocument
from pocketmq.protocol.names.names import (
    DLQ_PREFIX,
    RETRY_PREFIX,
    check_group,
    check_topic,
    is_system_topic,
)
from pocketmq.runtime.yaml_document import KeyPath, YamlDocument


class Located(NamedTuple):
    """A message of a seed, and where it stands in its file."""

    where: str
    document: MessageDocument


class Seed:
    """A seed file with its messages: what a cluster begins with.

    Args:
        document: the file.
        content: what it says.

    Attributes:
        topics, groups: by name.
    """

    def __init__(self, document: YamlDocument, content: SeedDocument) -> None:
        self._document = document
        self.topics = {name: _topic(given) for name, given in content.topics.items()}
        groups = content.groups
        if isinstance(groups, list):
            groups = dict.fromkeys(groups)
        self.groups = {name: given or GroupSeed() for name, given in groups.items()}
        self._digests: dict[str, str] = {}

    def at(self, *place: str | int) -> str:
        """Returns where a key stands, for errors: ``file:line:column``."""
        return self._document.at(place)

    def digest(self, topic: str) -> str:
        """Returns a hash of a topic's messages; empty if there are none."""
        return self._digests.get(topic, "")

    def messages(self, topic: str) -> Iterator[Located]:
        """Returns the messages to load into a topic, in order.

        Raises:
            ConfigError: one is wrong; names its place.
        """
        seed = self.topics[topic]
        for index, given in enumerate(seed.messages):
            document = MessageDocument(body=given) if isinstance(given, str) else given
            yield Located(self.at("topics", topic, "messages", index), document)
        if seed.file is not None:
            path = self._document.path.parent / seed.file
            for number, document in file_documents(path):
                yield Located(f"{path}:{number}", document)

    def check(self) -> None:
        """Checks names, files and each message, which no type checks.

        Raises:
            ConfigError: something is wrong; names its place.
        """
        for name, seed in self.topics.items():
            self._check_name("topics", name)
            if seed.queues is not None and (seed.read_queues or seed.write_queues):
                raise self._error(("topics", name, "queues"), "give queues, or readQueues and "
                                  "writeQueues, not both")  # fmt: skip
            self._check_messages(name)
        for name, group in self.groups.items():
            self._check_name("groups", name)
            for topic in group.offsets:
                if topic not in self.topics:
                    raise self._error(
                        ("groups", name, "offsets", topic),
                        f"topic {topic} is not in this file: add it under 'topics'",
                    )

    def _check_name(self, kind: str, name: str) -> None:
        try:
            if kind == "groups":
                check_group(name)
                return
            check_topic(name)
        except UsageError as e:
            raise self._error((kind, name), str(e)) from e
        if is_system_topic(name) or name.startswith((RETRY_PREFIX, DLQ_PREFIX)):
            raise self._error((kind, name), f"topic {name} belongs to the brokers: leave it out")

    def _check_messages(self, topic: str) -> None:
        digest = hashlib.sha256()
        count = 0
        for where, document in self.messages(topic):
            try:
                message = document.message(topic, keep_id=True)
            except UsageError as e:
                raise ConfigError(f"{where}: {e}") from e
            place = (document.broker, document.queue, message.flag)
            parts = (message.body, sorted(message.properties.items()), place)
            digest.update(repr(parts).encode("utf-8", "backslashreplace"))
            count += 1
        if count:
            self._digests[topic] = digest.hexdigest()

    def _error(self, place: KeyPath, text: str) -> ConfigError:
        return ConfigError(f"{self._document.at(place)}: {text}")


def _topic(given: int | TopicSeed | None) -> TopicSeed:
    return TopicSeed(queues=given) if isinstance(given, int) else given or TopicSeed()


def read_seed(path: str | os.PathLike[str]) -> Seed:
    """Reads a seed file and the files of messages that it names.

    Raises:
        ConfigError: something in it is wrong; names the place as ``file:line:column``, what is
            wrong, and what would be right.
    """
    if not Path(path).exists():
        raise ConfigError(f"the seed file {path} does not exist")
    document = YamlDocument(path, has_columns=True)
    seed = Seed(document, document.convert(SeedDocument, strict=True))
    seed.check()
    return seed
