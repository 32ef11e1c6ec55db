"""Which topics changed since a version: what name servers that know that version lack."""

from __future__ import annotations


class TopicChanges:
    """The last change of each topic, the newest at the end.

    Args:
        version: the counter of the table's version now; what changed before it is not known.
    """

    def __init__(self, version: int) -> None:
        self._versions: dict[str, int] = {}
        self._known_since = version

    def note(self, topic: str, version: int) -> None:
        """A topic changed, which made this version."""
        self._versions.pop(topic, None)
        self._versions[topic] = version

    def forget_all(self, version: int) -> None:
        """What changed by this version cannot be told topic by topic."""
        self._versions.clear()
        self._known_since = version

    def since(self, version: int) -> list[str] | None:
        """The topics that changed after a version, the newest first; None if that is not known."""
        if version < self._known_since:
            return None
        found: list[str] = []
        for topic in reversed(self._versions):
            if self._versions[topic] <= version:
                break
            found.append(topic)
        return found
