"""How groups consume topics, by pulls or by pops (`MessageRequestModeManager`)."""

from __future__ import annotations

import msgspec

from pocketmq.broker.store.metadata.metadata import Metadata
from pocketmq.protocol.bodies.popping import RequestMode

_STATE = "request_modes"


class RequestModes:
    """The modes that somebody has set (401), kept in the metadata.

    Args:
        metadata: where they are kept.
    """

    def __init__(self, metadata: Metadata) -> None:
        self._metadata = metadata
        state = metadata.state(_STATE)
        self.by_topic: dict[str, dict[str, RequestMode]] = (
            msgspec.json.decode(state, type=dict[str, dict[str, RequestMode]]) if state else {}
        )

    def get(self, topic: str, group: str) -> RequestMode | None:
        """Returns how a group consumes a topic; None if nobody has said it."""
        return self.by_topic.get(topic, {}).get(group)

    def put(self, mode: RequestMode) -> None:
        """Sets how a group consumes a topic.

        Raises:
            WriteFailedError: nothing was changed.
        """
        of_topic = {**self.by_topic.get(mode.topic, {}), mode.consumer_group: mode}
        self._save({**self.by_topic, mode.topic: of_topic})

    def remove_topic(self, topic: str) -> None:
        """Forgets a deleted topic."""
        if topic in self.by_topic:
            self._save({name: modes for name, modes in self.by_topic.items() if name != topic})

    def remove_group(self, group: str) -> None:
        """Forgets a deleted group."""
        if any(group in modes for modes in self.by_topic.values()):
            self._save(
                {
                    topic: {name: mode for name, mode in modes.items() if name != group}
                    for topic, modes in self.by_topic.items()
                }
            )

    def _save(self, by_topic: dict[str, dict[str, RequestMode]]) -> None:
        self._metadata.set_state(_STATE, msgspec.json.encode(by_topic).decode())
        self.by_topic = by_topic
