"""Options that may be given without a value."""

from __future__ import annotations

import pytest

from pocketmq.cli.lazy_group import with_values

VALUES = {"--console": "8280"}


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ([], []),
        (["--console"], ["--console=8280"]),
        (["--console", "--memory"], ["--console=8280", "--memory"]),
        (["--console", "0"], ["--console", "0"]),
        (["--console=0", "--memory"], ["--console=0", "--memory"]),
        (["--control", "--console", "1"], ["--control", "--console", "1"]),
    ],
)
def test_an_option_without_a_value_gets_its_own(given: list[str], read: list[str]) -> None:
    assert with_values(given, VALUES) == read
