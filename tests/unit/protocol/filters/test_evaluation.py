from __future__ import annotations

from types import MappingProxyType

import pytest
from support.protocol.filter_answers import REFUSED, answer
from support.protocol.filter_cases import CASES, Case
from support.protocol.filter_cases import REFUSED as REFUSED_TEXTS

from pocketmq.protocol.filters import parse


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.text} {case.properties}")
def test_answers_as_apache_does(case: Case) -> None:
    assert answer(case.text, [case.properties]) == case.answer
    assert parse(case.text).matches(case.properties) is (case.answer == "T")


@pytest.mark.parametrize("text", REFUSED_TEXTS)
def test_refuses_as_apache_does(text: str) -> None:
    assert answer(text, []) == REFUSED


def test_takes_any_mapping() -> None:
    assert parse("a > 5 AND TAGS = 'x'").matches(MappingProxyType({"a": "7", "TAGS": "x"}))


def test_nested_ranges_cost_no_more_than_their_length() -> None:
    # RocketMQ evaluates what is between twice: 30 levels would take 2 ** 30 evaluations.
    text = "a"
    for _ in range(30):
        text = f"-({text} BETWEEN 1 AND 2)"
    assert parse(f"{text} BETWEEN 1 AND 2").evaluate({"a": "1"}) is None
