"""The topics that changed after a version, which name servers that know that version lack."""

from __future__ import annotations

NOTED_MAX = 100_000
"""Topics whose last change is noted, also of removed ones; the oldest notes go first."""


class TopicChanges:
    """Records in which version each topic changed or was removed last, in that order.

    Args:
        version: the counter of the table's version now; what changed before it is not known.
    """

    def __init__(self, version: int) -> None:
        self._versions: dict[str, int] = {}
        self._known_since = version

    def note(self, topic: str, version: int) -> None:
        """Records that a topic has changed, or was removed, in a version."""
        self._versions.pop(topic, None)
        self._versions[topic] = version
        if len(self._versions) > NOTED_MAX:
            oldest = next(iter(self._versions))
            self._known_since = self._versions.pop(oldest)

    def forget_all(self, version: int) -> None:
        """Forgets the changes up to a version, which then have to be sent as a whole table."""
        self._versions.clear()
        self._known_since = version

    def since(self, version: int) -> list[str] | None:
        """Returns the topics changed after a version, the newest first; None if not known."""
        if version < self._known_since:
            return None
        found: list[str] = []
        for topic in reversed(self._versions):
            if self._versions[topic] <= version:
                break
            found.append(topic)
        return found
