from __future__ import annotations

import pytest

from pocketmq.broker.registration.registration import name_server_list


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" ; ,", []),
        ("a:1", ["a:1"]),
        ("a:1;b:2", ["a:1", "b:2"]),
        (" a:1 , b:2;", ["a:1", "b:2"]),
        ("[::1]:9876;b:2", ["[::1]:9876", "b:2"]),
    ],
)
def test_lists_of_name_servers(text: str, expected: list[str]) -> None:
    assert name_server_list(text) == expected
