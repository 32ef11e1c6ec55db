from __future__ import annotations

import asyncio

from pocketmq.testing.clock import settle
from pocketmq.transport.frame_share import FrameShare


class Eager:
    """Takes so many frames whenever it may, until it has had all."""

    def __init__(self, share: FrameShare, count: int, taken: list[tuple[str, int]], name: str):
        self._share, self._count, self._taken, self._name = share, count, taken, name

    def take_more(self) -> None:
        count = min(self._count, self._share.frames_left)
        self._count -= count
        if self._count:
            self._share.put_off(self)
        self._share.took(count)
        self._taken.append((self._name, count))


async def test_a_quiet_loop_has_all_of_its_share_again() -> None:
    share = FrameShare(10)
    share.took(7)
    assert share.frames_left == 3
    await settle()
    assert share.frames_left == 10


async def test_a_few_frames_ask_nothing_of_the_loop() -> None:
    """Nobody looks whether their turn is over: they count together with those of the next."""
    share = FrameShare(10)
    share.took(4)
    await settle()
    assert share.frames_left == 6
    share.took(1)
    await settle()
    assert share.frames_left == 10


async def test_those_who_wait_are_called_in_turn() -> None:
    share, taken = FrameShare(10), list[tuple[str, int]]()
    for name, count in (("a", 25), ("b", 3), ("c", 4)):
        Eager(share, count, taken, name).take_more()
    assert taken == [("a", 10), ("b", 0), ("c", 0)]
    await settle()
    assert taken[3:] == [("a", 10), ("b", 3), ("c", 4), ("a", 3), ("a", 2)]
    assert share.frames_left == 10


async def test_what_was_taken_is_written_before_more_is() -> None:
    """A commit that a request asks for comes behind the turn's last one."""
    share, taken, seen = FrameShare(10), list[tuple[str, int]](), list[int]()
    Eager(share, 25, taken, "a").take_more()
    asyncio.get_running_loop().call_soon(lambda: seen.append(len(taken)))
    await settle()
    assert seen == [1]
    assert len(taken) == 3


async def test_a_mistake_with_one_leaves_the_others_their_turns() -> None:
    class Broken:
        def take_more(self) -> None:
            raise AssertionError("a mistake")

    share, taken = FrameShare(10), list[tuple[str, int]]()
    mistakes: list[str] = []
    asyncio.get_running_loop().set_exception_handler(
        lambda _, context: mistakes.append(str(context["exception"]))
    )
    share.took(10)
    share.put_off(Broken())
    share.put_off(Eager(share, 15, taken, "a"))
    await settle()
    assert mistakes == ["a mistake"]
    assert taken == [("a", 10), ("a", 5)]
    assert share.frames_left == 10


async def test_who_was_kept_by_something_else_is_called_in_a_quiet_loop_too() -> None:
    """As a connection whose peer did not read, when all others had their frames meanwhile."""
    share, taken = FrameShare(10), list[tuple[str, int]]()
    share.put_off(Eager(share, 3, taken, "a"))
    await settle()
    assert taken == [("a", 3)]
    share.put_off(Eager(share, 12, taken, "b"))
    await settle()
    assert taken[1:] == [("b", 10), ("b", 2)]
    assert share.frames_left == 10
