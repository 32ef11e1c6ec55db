from __future__ import annotations

from pocketmq.runtime.listeners import Listeners


def test_without_a_listener_nothing_happens() -> None:
    Listeners[[int]]().notify(1)


def test_a_single_listener_is_called_itself() -> None:
    listeners, seen = Listeners[[int]](), list[int]()
    listeners.add(append := seen.append)
    assert listeners.notify is append
    listeners.notify(1)
    assert seen == [1]


def test_all_listeners_are_called_the_oldest_first() -> None:
    listeners, seen = Listeners[[int]](), list[tuple[str, int]]()
    listeners.add(lambda value: seen.append(("first", value)))
    listeners.add(lambda value: seen.append(("second", value)))
    listeners.notify(7)
    assert seen == [("first", 7), ("second", 7)]
