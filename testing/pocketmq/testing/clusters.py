"""The clusters of a test run, and the corners of them that single tests get."""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
from typing_extensions import Self

from pocketmq.protocol.names.namespaces import Namespace
from pocketmq.testing.cluster import AsyncCluster, Cluster, LocalCluster, warn_of_unused
from pocketmq.testing.settings import ClusterSettings, cluster_settings

CLUSTERS_MAX = 4
"""Clusters with different options that are kept; the one unused for longest makes room."""

WHERE = "the marker pocketmq"

OF_CORNER = ("topics", "groups", "seed_file")
"""Options that are met in the namespace of a test, not by a cluster."""


class Kept(NamedTuple):
    """A cluster that several tests use, and the names that were in it from the start."""

    local: LocalCluster
    cluster: Cluster
    first_names: tuple[set[str], set[str]]


class Corner:
    """What one test gets: a namespace of its own, with the topics and groups it asked for.

    Args:
        kept: the cluster.
        namespace: nobody else's.
        wanted: the topics and groups.
        is_async: for a coroutine.

    Attributes:
        cluster: for the test.
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
        """Closes the clients that were left open, and removes what the test has made.

        Messages that wait for their time go nowhere when their topic is gone; those of a topic that
        the next test may have as well, because it is in no namespace, go with all other data.
        """
        self.cluster.close_clients()
        core, thread = self._kept.cluster.core, self._kept.cluster.thread
        unused = thread.call(core.take_unused_faults)
        thread.run(core.heal())
        topics, groups = thread.call(core.names)
        made = topics - self._before[0], groups - self._before[1]
        thread.run(core.remove(*made))
        is_plain = any(self._names.unwrap(name) == name for names in made for name in names)
        if is_plain and self._before == self._kept.first_names and thread.call(core.waiting):
            thread.run(core.begin_anew())
        warn_of_unused(unused)


class Clusters:
    """``with Clusters() as clusters:`` keeps clusters by their options."""

    def __init__(self) -> None:
        self._kept: OrderedDict[bytes, Kept] = OrderedDict()
        self._numbers = itertools.count(1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        while self._kept:
            self._kept.popitem()[1].local.close()

    def of(self, options: Mapping[str, Any]) -> Kept:
        """The running cluster with these options, started if there is none.

        Raises:
            ConfigError: they do not fit.
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
        """A corner for one test.

        Args:
            options: of `LocalCluster`; those in `OF_CORNER` are met in the corner.
            is_async: whether the test is a coroutine.

        Raises:
            ConfigError, IllegalNameError: they do not fit.
        """
        cluster_settings(options, WHERE)
        of_corner = {k: v for k, v in options.items() if k in OF_CORNER}
        of_cluster = {k: v for k, v in options.items() if k not in of_corner}
        wanted = cluster_settings(of_corner, WHERE)
        kept = self.of(of_cluster)
        return Corner(kept, f"t{next(self._numbers)}", wanted, is_async=is_async)
