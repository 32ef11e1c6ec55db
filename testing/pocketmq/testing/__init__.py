"""The parts that tests of PocketMQ, and of applications on it, are built with.

``from pocketmq.testing import LocalCluster`` is a cluster within a test; with pytest there are
fixtures (`pocketmq.testing.plugin`). Nothing is imported before it is used: pytest loads this
package in every run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pocketmq.testing.cluster import AsyncCluster, Cluster, LocalCluster
    from pocketmq.testing.faults import Fault, FaultWarning
    from pocketmq.testing.messages import Messages

__all__ = ["AsyncCluster", "Cluster", "Fault", "FaultWarning", "LocalCluster", "Messages"]

_MODULES = {
    "AsyncCluster": "cluster",
    "Cluster": "cluster",
    "Fault": "faults",
    "FaultWarning": "faults",
    "LocalCluster": "cluster",
    "Messages": "messages",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
