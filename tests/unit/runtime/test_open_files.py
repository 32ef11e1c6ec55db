from __future__ import annotations

import logging
import resource
from collections.abc import Iterator

import pytest

from pocketmq.runtime.open_files import FEW_CONNECTIONS, SPARE_FILES, room_for_connections

HARD = resource.getrlimit(resource.RLIMIT_NOFILE)[1]


@pytest.fixture(autouse=True)
def soft() -> Iterator[int]:
    """A low limit that may be raised."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, before[1]))
    yield 512
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def soft_now() -> int:
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def test_what_is_enough_is_left_alone() -> None:
    assert room_for_connections(100, 100) == 100
    assert soft_now() == 512


def test_the_limit_is_raised_as_far_as_need_be() -> None:
    assert room_for_connections(500, 100) == 500
    assert soft_now() == 600 + SPARE_FILES


@pytest.mark.skipif(HARD == resource.RLIM_INFINITY, reason="the system has no limit")
def test_the_store_has_its_files_before_the_connections(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        assert room_for_connections(HARD, 100) == HARD - 100 - SPARE_FILES
    assert soft_now() == HARD
    assert {record.levelno for record in caplog.records} == {logging.INFO}
    assert f"at most {HARD - 100 - SPARE_FILES} connections instead of {HARD}" in caplog.text


@pytest.mark.skipif(HARD == resource.RLIM_INFINITY, reason="the system has no limit")
def test_that_few_are_left_is_told_by_default(caplog: pytest.LogCaptureFixture) -> None:
    files = HARD - SPARE_FILES - FEW_CONNECTIONS + 1
    assert room_for_connections(HARD, files) == FEW_CONNECTIONS - 1
    assert "ulimit -n" in caplog.text
