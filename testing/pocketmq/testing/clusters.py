"""Keeps the clusters of a test run, and gives each test a corner of one: its own namespace."""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import msgspec

from pocketmq.protocol.names.namespaces import Namespace
from pocketmq.testing.cluster import AsyncCluster, Cluster, LocalCluster, warn_of_unused
from pocketmq.testing.settings import ClusterSettings, cluster_settings

CLUSTERS_MAX = 4
"""Clusters with different options that are kept; the least recently used one makes room."""

WHERE = "the marker pocketmq"

OF_CORNER = ("topics", "groups", "seed_file")
"""Options that a test's namespace fulfils, not the cluster."""


class Kept(NamedTuple):
    """A cluster that several tests use, and the names that it had from the start."""

    local: LocalCluster
    cluster: Cluster
    first_names: tuple[set[str], set[str]]


class Corner:
    """A namespace of one test in a shared cluster, with the topics and groups of its marker.

    Args:
        kept: the cluster.
        namespace: the namespace, which no other test has.
        wanted: the topics and groups to make.
        is_async: whether the test is a coroutine.

    Attributes:
        cluster: the cluster as the test sees it.
    """

    def __init__(
        self, kept: Kept, namespace: str, wanted: ClusterSettings, *, is_async: bool
    ) -> None:
        self._kept = kept
        core, thread = kept.cluster.core, kept.cluster.thread
        self._before = thread.call(core.names)
        self.cluster: AsyncCluster | Cluster = (AsyncCluster if is_async else Cluster)(
            core, thread, namespace
        )
        self._names = Namespace(namespace)
        topics, groups = wanted.topic_configs(), wanted.group_configs()
        for topic in topics:
            topic.topic_name = self._names.wrap(topic.topic_name)
        for group in groups:
            group.group_name = self._names.wrap(group.group_name)
        if topics or groups:
            thread.run(core.put(topics, groups))
        if wanted.seed_file is not None:
            thread.run(core.sow(wanted.seed_file, namespace))

    def clean(self) -> None:
        """Ends faults, closes clients that are still open, removes topics and groups of the test.

        Messages that wait for their time are dropped once their topic is gone. If such a topic is
        in no namespace, the next test may have it too: then all data of the cluster is removed.
        """
        core, thread = self._kept.cluster.core, self._kept.cluster.thread
        unused = thread.run(core.faults.end_all())  # first, or a paused broker holds clients up
        self.cluster.close_clients()
        topics, groups = thread.call(core.names)
        made = topics - self._before[0], groups - self._before[1]
        thread.run(core.remove(*made))
        core.remove_local_offsets(self.cluster.namespace)
        is_plain = any(self._names.unwrap(name) == name for names in made for name in names)
        if is_plain and self._before == self._kept.first_names and thread.call(core.waiting):
            thread.run(core.begin_anew())
        warn_of_unused(unused)


class Clusters:
    """Keeps running clusters by their options, within ``with Clusters() as clusters:``."""

    def __init__(self) -> None:
        self._kept: OrderedDict[bytes, Kept] = OrderedDict()
        self._numbers = itertools.count(1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        while self._kept:
            self._kept.popitem()[1].local.close()

    def of(self, options: Mapping[str, Any]) -> Kept:
        """Returns the running cluster with these options, and starts it if there is none.

        Raises:
            ConfigError: the options do not fit.
        """
        key = msgspec.json.encode(cluster_settings(options, WHERE), order="deterministic")
        kept = self._kept.get(key)
        if kept is None:
            while len(self._kept) >= CLUSTERS_MAX:
                self._kept.popitem(last=False)[1].local.close()
            local = LocalCluster(**options)
            cluster = local.start()
            names = cluster.thread.call(cluster.core.names)
            kept = self._kept[key] = Kept(local, cluster, names)
        self._kept.move_to_end(key)
        return kept

    def corner(self, options: Mapping[str, Any], *, is_async: bool) -> Corner:
        """Makes the corner of one test.

        Args:
            options: options of `LocalCluster`; the corner fulfils those in `OF_CORNER`.
            is_async: whether the test is a coroutine.

        Raises:
            ConfigError, IllegalNameError: the options do not fit.
        """
        cluster_settings(options, WHERE)
        of_corner = {k: v for k, v in options.items() if k in OF_CORNER}
        of_cluster = {k: v for k, v in options.items() if k not in of_corner}
        wanted = cluster_settings(of_corner, WHERE)
        kept = self.of(of_cluster)
        return Corner(kept, f"t{next(self._numbers)}", wanted, is_async=is_async)
