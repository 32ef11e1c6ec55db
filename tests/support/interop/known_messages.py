"""Messages that every client under test can write and check: what one wrote another must read.

``known_messages.json`` is a list of objects with ``queueId`` (the queue it goes to), ``tags`` and
``keys`` (null or text), ``flag`` (int32), ``properties`` (text to text) and the body: either
``text`` repeated ``times`` in UTF-8, or ``hex``. Writers keep the order of the file within a queue.
The Java side reads the same file (``KnownMessages.java``).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("known_messages.json")
# Topics for these messages need at least so many queues.
QUEUES = 4


@dataclass(frozen=True)
class KnownMessage:
    """One message of the file."""

    queue_id: int
    tags: str | None
    keys: str | None
    flag: int
    properties: dict[str, str]
    body: bytes


def known_messages() -> list[KnownMessage]:
    """All messages, in the order in which they are written."""
    return [_message(entry) for entry in json.loads(FILE.read_text(encoding="utf-8"))]


def _message(entry: dict[str, Any]) -> KnownMessage:
    if "hex" in entry:
        body = bytes.fromhex(entry["hex"])
    else:
        body = (entry["text"] * entry["times"]).encode()
    return KnownMessage(
        entry["queueId"], entry["tags"], entry["keys"], entry["flag"], entry["properties"], body
    )
