"""Scenarios of the Java probe: several play at the same time in one JVM."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import pytest

RunProbe = Callable[..., Any]
NewName = Callable[[str], str]
Document = dict[str, Any]


@dataclass(frozen=True)
class Scenarios:
    """What became of each: its document, or why it failed."""

    outcomes: dict[str, Document]

    def __getitem__(self, command: str) -> Any:
        """The document of one scenario; the test fails if the scenario did."""
        outcome = self.outcomes[command]
        if outcome["failure"] is not None:
            pytest.fail(f"{command} after {outcome['tookMs']} ms: {outcome['failure']}")
        return outcome["document"]


def play(
    run: RunProbe, new_name: NewName, *commands: str, is_control: bool = False, **options: object
) -> Scenarios:
    """Play scenarios together, each on a topic and in groups of its own.

    Those that fail in a control, on Apache's own cluster, are played once more: it may put an older
    route over a newer one, for good, or give a member no queues for minutes. Of this project's
    cluster each try counts.
    """

    def outcomes(chosen: Iterable[str]) -> dict[str, Document]:
        name = new_name(commands[0])
        played: dict[str, Document] = run(
            "together", commands=",".join(chosen), name=name, **options
        )
        return played

    found = outcomes(commands)
    failed = [command for command, outcome in found.items() if outcome["failure"] is not None]
    if is_control and failed:
        found |= outcomes(failed)
    return Scenarios(found)


def keys(deliveries: Iterable[Document]) -> Counter[str]:
    """How often each message was delivered, by its key."""
    return Counter(one["message"]["keys"] for one in deliveries)


def numbers(count: int) -> Counter[str]:
    """Each of the keys 0 to ``count`` - 1, once."""
    return Counter(map(str, range(count)))


def by_member(deliveries: Iterable[Document]) -> dict[str, list[Document]]:
    """What each member got, in its order."""
    found: dict[str, list[Document]] = defaultdict(list)
    for one in deliveries:
        found[one["member"]].append(one)
    return found


def by_key(deliveries: Iterable[Document]) -> dict[str, list[Document]]:
    """The messages of each key, in the order in which they came."""
    found: dict[str, list[Document]] = defaultdict(list)
    for one in deliveries:
        found[one["message"]["keys"]].append(one["message"])
    return found
