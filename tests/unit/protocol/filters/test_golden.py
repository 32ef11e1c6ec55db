"""RocketMQ's own answers to random expressions (`record_golden.py`)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from support.protocol.filter_answers import REFUSED, answer

from pocketmq.protocol.filters import parse

GOLDEN: dict[str, Any] = json.loads(
    (Path(__file__).parent / "golden.json").read_text(encoding="utf-8")
)
MAPS: list[dict[str, str]] = GOLDEN["maps"]
ANSWERS: list[tuple[str, str]] = [(text, theirs) for text, theirs in GOLDEN["answers"]]


def test_the_recording_has_every_answer() -> None:
    letters = "".join(theirs for _, theirs in ANSWERS)
    assert set(letters) == set("TFNE!")
    assert all(theirs == REFUSED or len(theirs) == len(MAPS) for _, theirs in ANSWERS)
    refused = sum(theirs == REFUSED for _, theirs in ANSWERS)
    assert len(ANSWERS) > 2_000
    assert refused < len(ANSWERS) / 2


def test_the_answers_are_apaches() -> None:
    ours = [(text, answer(text, MAPS)) for text, _ in ANSWERS]
    assert [pair for pair, theirs in zip(ours, ANSWERS, strict=True) if pair != theirs] == []


def test_only_true_matches() -> None:
    for text, theirs in ANSWERS:
        if theirs != REFUSED:
            matches = [parse(text).matches(properties) for properties in MAPS]
            assert matches == [letter == "T" for letter in theirs]


def test_canonical_text_parses_back_to_the_same() -> None:
    for text, theirs in ANSWERS:
        if theirs == REFUSED:
            continue
        expression = parse(text)
        canonical = str(expression)
        again = parse(canonical, strict=True)
        assert (again, hash(again), str(again)) == (expression, hash(expression), canonical)
        assert answer(canonical, MAPS) == theirs
