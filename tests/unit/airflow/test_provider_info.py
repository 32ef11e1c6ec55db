"""What Airflow reads of the provider names what there is."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest
from msgspec import toml

from pocketmq.airflow import provider_info

ROOT = Path(__file__).parents[3]
INFO = provider_info.get_provider_info()
CLASSES = [*INFO["queues"], *(kind["hook-class-name"] for kind in INFO["connection-types"])]
MODULES = [
    module
    for part in ("hooks", "sensors", "triggers")
    for entry in INFO[part]
    for module in entry["python-modules"]
]


def tree_of(module: str) -> ast.Module:
    """The module's source: it cannot be imported without Airflow."""
    return ast.parse((ROOT / "airflow" / module.replace(".", "/")).with_suffix(".py").read_text())


def test_airflow_finds_the_provider_by_the_name_of_the_distribution() -> None:
    project: dict[str, Any] = toml.decode((ROOT / "pyproject.toml").read_text())["project"]
    assert INFO["package-name"] == project["name"]
    found = project["entry-points"]["apache_airflow_provider"]["provider_info"]
    module, _, function = found.partition(":")
    assert (module, function) == (provider_info.__name__, "get_provider_info")


@pytest.mark.parametrize("name", CLASSES)
def test_its_classes_are_there(name: str) -> None:
    module, _, cls = name.rpartition(".")
    assert cls in [node.name for node in tree_of(module).body if isinstance(node, ast.ClassDef)]


@pytest.mark.parametrize("module", MODULES)
def test_its_modules_are_there(module: str) -> None:
    assert tree_of(module).body
