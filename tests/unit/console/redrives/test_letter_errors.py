"""Errors of dead letters that have one cause."""

from __future__ import annotations

import pytest

from pocketmq.console.api.redrives.letter_errors import TEXT_MAX, kind_of


@pytest.mark.parametrize(
    ("error", "kind", "contains"),
    [
        ("timeout", "timeout", "timeout"),
        ("order 4711 is unknown", "order # is unknown", "is unknown"),
        ("id 0f8fad5b-d9cb-469f-a165-70867728950e: no", "id #: no", ": no"),
        ("dead beef", "dead beef", "dead beef"),
        ("42", "#", ""),
        ("", "", ""),
    ],
)
def test_numbers_and_ids_do_not_tell_errors_apart(error: str, kind: str, contains: str) -> None:
    assert kind_of(error) == (kind, contains)
    assert contains in error


def test_a_hostile_error_is_cut() -> None:
    kind, contains = kind_of("a-" * 100_000)
    assert len(kind) == TEXT_MAX
    assert len(contains) <= TEXT_MAX
