"""Runs a release's own scenarios of clients against any cluster; a line of JSON tells of each.

    python exchange.py TESTS NAMESRV [SCENARIO...|without-pops]

TESTS is the folder `tests` of the release whose packages are imported.
"""

from __future__ import annotations

import asyncio
import json
import sys
import traceback
from collections.abc import Awaitable, Callable, Iterator
from importlib import import_module
from types import ModuleType

TABLES = {
    "client": ("SCENARIOS", "RETRY_SCENARIOS"),
    "polling": ("POLLING_SCENARIOS",),
    "group": ("GROUP_SCENARIOS",),
    "extra": ("EXTRA_SCENARIOS",),
    "query": ("QUERY_SCENARIOS",),
    "popping": ("POPPING_SCENARIOS",),
}
"""The modules with scenarios, and their lists."""

WITHOUT_POPS = "without-pops"
"""In the place of names: all but the scenarios of consumers that pop, which 0.1.0 lacks."""


def module_of(name: str) -> ModuleType | None:
    """The module of scenarios, where this release has it; None if it has none."""
    for place in (f"support.scenarios.{name}", f"integration.{name}_scenarios"):
        try:
            return import_module(place)
        except ModuleNotFoundError:
            continue
    return None


def scenarios(*names: str) -> Iterator[Callable[[str], Awaitable[None]]]:
    """All that the release has, or those of some names."""
    for name, tables in TABLES.items():
        module = None if name == "popping" and WITHOUT_POPS in names else module_of(name)
        for table in tables if module else ():
            for scenario in getattr(module, table):
                if names in ((), (WITHOUT_POPS,)) or scenario.__name__ in names:
                    yield scenario


async def main(namesrv: str, *names: str) -> None:
    """Runs the scenarios one after the other."""
    for scenario in scenarios(*names):
        error = None
        try:
            await asyncio.wait_for(scenario(namesrv), 60)
        except Exception:  # noqa: BLE001 (the test that started this tells of it)
            error = traceback.format_exc()
        told = json.dumps({"scenario": scenario.__name__, "error": error})
        print(told, flush=True)  # noqa: T201


if __name__ == "__main__":
    sys.path.insert(0, sys.argv[1])
    asyncio.run(main(*sys.argv[2:]))
