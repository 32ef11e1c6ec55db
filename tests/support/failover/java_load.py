"""Apache's own client as load: a producer and a push consumer in a JVM, which keep a journal."""

from __future__ import annotations

import subprocess
from pathlib import Path

from support.failover.history import History, Read, Send
from support.interop.java_probe import JavaProbe

ENDED = "E"

JAVA_SEEDS = 2**31
"""The probe reads its numbers as Java's int."""


class JavaLoad:
    """A running `load` of the Java probe.

    Args:
        probe: the built probe.
        folder: takes the journal.
        namesrv: of the cluster.
        topic, group: what it sends to, and consumes as.
        poll_ms: between two looks at the routes.
        seed: decides its choices.
        senders: threads that send.
        pause_ms: the longest pause between two sends of one.
    """

    def __init__(
        self,
        probe: JavaProbe,
        folder: Path,
        namesrv: str,
        topic: str,
        group: str,
        *,
        poll_ms: int,
        seed: int,
        senders: int = 2,
        pause_ms: int = 20,
    ) -> None:
        self.group = group
        self.path = folder / f"{group}.journal"
        self._log = folder / f"{group}.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                probe.command(
                    "load", namesrv=namesrv, topic=topic, group=group, journal=self.path,
                    client="java", poll_ms=poll_ms, seed=seed % JAVA_SEEDS, senders=senders,
                    pause_ms=pause_ms, deadline_s=3600,
                ),
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd=folder,
            )  # fmt: skip

    def look(self) -> None:
        """Fails with what the JVM said if it has ended before it was told to."""
        code = self._process.poll()
        assert code is None, f"Java ended with {code}: {self._log.read_text()[-2000:]}"

    def stop_sending(self) -> None:
        """Has its senders end with the message at which they are."""
        self.look()
        assert self._process.stdin is not None
        self._process.stdin.write(b"stop\n")
        self._process.stdin.flush()

    def end(self) -> None:
        """Ends it."""
        self._process.kill()
        self._process.wait()

    def lines(self) -> list[list[str]]:
        """What it has written so far, without a line that is half written."""
        if not self.path.exists():
            return []
        whole, _, _ = self.path.read_text().rpartition("\n")
        return [line.split("\t") for line in whole.splitlines()]

    @property
    def has_stopped_sending(self) -> bool:
        """Whether all its sends have ended."""
        return any(line == [ENDED] for line in self.lines())

    def add_to(self, history: History) -> None:
        """Puts what it did and saw into a history."""
        consumed = history.consumed.setdefault(self.group, set())
        for line in self.lines():
            match line:
                case ["S", client, content, begun, ended, attempts, queue_id, offset, status]:
                    place = (int(queue_id), int(offset)) if queue_id != "-1" else None
                    history.sends.append(
                        Send(client, content, int(begun) / 1e9, int(ended) / 1e9, int(attempts),
                             place, status == "SEND_OK")
                    )  # fmt: skip
                case ["R", queue_id, offset, content]:
                    consumed.add(content)
                    if queue_id != "-1":
                        history.reads.append(
                            Read(self.group, (int(queue_id), int(offset)), content)
                        )
                case _:
                    assert line == [ENDED], line
