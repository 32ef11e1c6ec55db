"""What every test can ask for: a clock that stands still, and chance that can be repeated."""

from __future__ import annotations

import asyncio
import os
import random
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import settings
from support.leftovers import end_with_this_run
from support.threads import WatchedLoop

from pocketmq.testing.clock import VirtualClock

SEED_MAX = 0xFFFF_FFFF

# No deadline: a test must not depend on the machine's speed.
settings.register_profile("pocketmq", deadline=None, max_examples=60, print_blob=True)
settings.load_profile("pocketmq")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--seed", type=int, help="repeat the random choices of an earlier run")
    parser.addoption(
        "--crash-rounds", type=int, default=2, help="how often each crash test kills a broker"
    )
    parser.addoption(
        "--crash-points", default="16", help="crashes of a simulated disk, or all of them"
    )
    parser.addoption(
        "--simulations", type=int, default=30, help="how many broker sets are simulated"
    )
    parser.addoption(
        "--failover-runs", type=int, default=1, help="how many broker sets of processes fail"
    )
    parser.addoption(
        "--churn-rounds", type=int, default=1, help="rounds of members that come, go and crash"
    )
    parser.addoption(
        "--whole-interop",
        action="store_true",
        help="run everything on Apache's broker that also runs on this project's, and long builds",
    )
    parser.addoption(
        "--whole-console",
        action="store_true",
        help="all ways through the console in a real browser, and its pages in the dark, too",
    )
    parser.addoption(
        "--whole-spark",
        action="store_true",
        help="run every test on a real Spark, not only the slice that is quick enough",
    )
    parser.addoption(
        "--whole-upgrade",
        action="store_true",
        help="run everything that clients of the release before do, not only a slice",
    )
    parser.addoption(
        "--whole-abuse",
        action="store_true",
        help="attack with all there is, and measure time, instead of counting calls",
    )
    parser.addoption(
        "--broker",
        choices=["pocketmq", "apache"],
        default="pocketmq",
        help="whose broker the client's tests run on",
    )


def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput"):  # a worker of pytest-xdist
        config.option.seed = config.workerinput["seed"]
        return
    if config.option.seed is None:
        config.option.seed = int.from_bytes(os.urandom(4), "big")
    if not config.option.collectonly:
        end_with_this_run()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Hands the seed to a worker of pytest-xdist."""
    node.workerinput["seed"] = node.config.option.seed


@pytest.hookimpl(optionalhook=True)
def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"uvloop": WatchedLoop}


SPARK_FILES = re.compile(r"tests/integration/test_spark|tests/crash/test_kill_(jobs|streams)")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With --dist loadfile one worker gets all tests on Spark, and one all beside Apache's clients.

    Else each worker would start a Spark, and compile the clients and start a broker in Java.
    """
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]

    class Scheduling(LoadFileScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            if SPARK_FILES.match(nodeid):
                return "spark"
            if nodeid.startswith("tests/interop/"):
                return "interop"
            return str(super()._split_scope(nodeid))

    return Scheduling(config, log)


BROWSED_SHARE = 1 / 3
"""The share of the ways through the console in a real browser that every run takes."""

ALWAYS_BROWSED = ("accessib", "keyboard", "hostile")
"""What the names of tests in a browser hold that every run takes."""


def _mark_browsed(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Chooses by the seed which tests in a browser are left to the whole suite."""
    for item in items:
        is_browsed = "page" in getattr(item, "fixturenames", ())
        if not is_browsed or any(word in item.name for word in ALWAYS_BROWSED):
            continue
        chance = random.Random(f"{config.option.seed}:{item.nodeid}").random()
        if chance >= BROWSED_SHARE:
            item.add_marker(pytest.mark.whole_console)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    _mark_browsed(config, items)
    for option, reason in (
        ("whole_interop", "on Apache's broker too, or builds for long: make interop"),
        ("whole_console", "all ways, and in the dark, too: make console"),
        ("whole_upgrade", "beyond the slice of each run: make upgrade"),
        ("whole_spark", "takes long on a real Spark: --whole-spark, make spark"),
    ):
        if config.getoption(option):
            continue
        skip = pytest.mark.skip(reason=reason)
        for item in items:
            if item.get_closest_marker(option):
                item.add_marker(skip)


def pytest_report_header(config: pytest.Config) -> str:
    return f"random choices: repeat them with --seed={config.option.seed}"


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """The seed of this run."""
    value: int = request.config.option.seed
    return value


@pytest.fixture
def churn_rounds(request: pytest.FixtureRequest) -> int:
    """How many rounds of churn there are."""
    count: int = request.config.option.churn_rounds
    return count


@pytest.fixture
def chance(seed: int) -> random.Random:
    """Random choices that the run's seed decides, the same for a test whatever runs before it."""
    return random.Random(seed)


@pytest.fixture
def clock() -> VirtualClock:
    """A clock that only moves when it is told to."""
    return VirtualClock()
