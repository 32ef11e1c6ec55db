"""The pytest plugin: a cluster for the run, and a clean corner of it for each test.

pytest loads this module in every run in which the package is installed, so it imports nothing of
PocketMQ before a fixture is asked for.

Fixtures:
    pocketmq: for one test: its own namespace in a cluster that many tests share. An
        `AsyncCluster` where the test is a coroutine, a `Cluster` otherwise.
    pocketmq_cluster: the cluster of the whole run, for fixtures of wider scope.

Marker:
    ``@pytest.mark.pocketmq(brokers=2, topics={"Orders": 4}, …)``: topics and groups are made for
    the test; with other options, those of `LocalCluster`, it gets a cluster that has them.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pocketmq.testing.cluster import AsyncCluster, Cluster
    from pocketmq.testing.clusters import Clusters

MARKER = "pocketmq"


def pytest_configure(config: pytest.Config) -> None:
    """Registers the marker."""
    config.addinivalue_line(
        "markers",
        "pocketmq(**options): topics, groups and options of the cluster that the fixture "
        "`pocketmq` gives, see pocketmq.testing.settings.ClusterSettings",
    )


@pytest.fixture(scope="session")
def _pocketmq_clusters() -> Iterator[Clusters]:
    """Keeps the clusters of this run by options; each worker of pytest-xdist has its own."""
    from pocketmq.testing.clusters import Clusters

    with Clusters() as clusters:
        yield clusters


@pytest.fixture(scope="session")
def pocketmq_cluster(_pocketmq_clusters: Clusters) -> Cluster:
    """Gives the cluster of the run, without a namespace and without cleaning up after tests."""
    return _pocketmq_clusters.of({}).cluster


@pytest.fixture
def pocketmq(
    request: pytest.FixtureRequest, _pocketmq_clusters: Clusters
) -> Iterator[AsyncCluster | Cluster]:
    """Gives a cluster that no other test has touched, and removes all that the test makes."""
    from pocketmq.protocol.errors import UsageError

    function = getattr(request, "function", None)
    is_async = inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)
    mistake = ""
    try:
        corner = _pocketmq_clusters.corner(_options(request), is_async=is_async)
    except UsageError as e:
        mistake = str(e)
    if mistake:  # outside of the handler: the report shows nothing else then
        pytest.fail(f"{request.node.nodeid}: {mistake}", pytrace=False)
    try:
        yield corner.cluster
    finally:
        corner.clean()


def _options(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Returns the options of the markers of a test; a nearer marker wins."""
    options: dict[str, Any] = {}
    for mark in reversed(list(request.node.iter_markers(MARKER))):
        if mark.args:
            pytest.fail(
                f"{request.node.nodeid}: the marker pocketmq takes options by name, such as "
                f"brokers=2, and was given {', '.join(map(repr, mark.args))}",
                pytrace=False,
            )
        options.update(mark.kwargs)
    if isinstance(seed_file := options.get("seed_file"), (str, os.PathLike)):
        options["seed_file"] = str(request.path.parent / seed_file)  # beside the test
    return options
