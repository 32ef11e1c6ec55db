from __future__ import annotations

from pocketmq.runtime.live import Live


def test_users_see_the_value_in_force_and_followers_are_called_in_order() -> None:
    live, seen = Live(1), list[tuple[str, int]]()
    live.follow(lambda value: seen.append(("first", value)))
    live.follow(lambda value: seen.append(("second", value)))
    assert (live.now, seen) == (1, [])
    live.replace(2)
    assert live.now == 2
    assert seen == [("first", 2), ("second", 2)]


def test_followers_find_the_new_value_in_force() -> None:
    live, seen = Live(1), list[int]()
    view = live.view(lambda value: value * 10)
    live.follow(lambda _: seen.append(view.now))
    live.replace(2)
    assert seen == [20]


def test_followers_of_a_view_hear_only_of_what_they_derive() -> None:
    live, seen = Live(11), list[int]()
    tens = live.view(lambda value: value // 10)
    tens.follow(seen.append)
    live.replace(12)
    assert (tens.now, seen) == (1, [])
    live.replace(23)
    assert (tens.now, seen) == (2, [2])


def test_views_of_views() -> None:
    live = Live("a")
    assert (size := live.view(str.upper).view(len)).now == 1
    live.replace("abc")
    assert size.now == 3
