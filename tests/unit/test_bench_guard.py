"""What the guard of the hot paths lets pass (bench/guard.py)."""

from __future__ import annotations

import pytest
from guard import a_message, allowances, judge

BEFORE = {"send": 100_000.0, "pull": 50_000.0}


def test_growth_of_two_percent_holds_and_more_fails() -> None:
    _, holds = judge(BEFORE, {"send": 102_000.0, "pull": 40_000.0}, {})
    assert holds
    lines, holds = judge(BEFORE, {"send": 102_100.0, "pull": 50_000.0}, {})
    assert not holds
    assert "+2.10 % FAILS (> +2 %)" in lines[0]
    assert "+0.00 % holds" in lines[1]


def test_a_commit_may_allow_more_of_one_path_with_a_reason() -> None:
    message = "Check each send\n\nWhy.\n\nBench-guard: send +3.5 %, each send is checked\n"
    allowed = allowances(message + "\nBench-guard: send +1%, less\n")
    assert allowed == {"send": 3.5}
    assert judge(BEFORE, {"send": 103_400.0, "pull": 50_000.0}, allowed)[1]
    assert not judge(BEFORE, {"send": 103_600.0, "pull": 50_000.0}, allowed)[1]
    assert not judge(BEFORE, {"send": 100_000.0, "pull": 51_500.0}, allowed)[1]


@pytest.mark.parametrize("line", ["send +3 %", "send +3 %,", "send 3 %, why", "more", ""])
def test_an_allowance_without_a_percentage_or_a_reason_is_refused(line: str) -> None:
    with pytest.raises(SystemExit, match="PATH \\+x %, reason"):
        allowances(f"Subject\n\nBench-guard: {line}\n")


def test_a_path_that_is_gone_fails_and_a_new_one_holds() -> None:
    assert not judge(BEFORE, {"send": 100_000.0}, {})[1]
    lines, holds = judge(BEFORE, {**BEFORE, "batch": 1.0}, {})
    assert holds
    assert lines[-1].endswith("new")
    assert not judge(BEFORE, BEFORE, {"sned": 3.0})[1]


def test_what_a_message_takes_is_the_difference_of_two_counts() -> None:
    counted = '["send", 100, 11]\n["send", 300, 12]\n'
    logs = {11: "==11== I   refs:      1,000,500", 12: "==12== I   refs:      1,020,500"}
    assert a_message(counted, logs) == {"send": 100.0}
