"""Finding the package where it came as a zip."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

from pocketmq.spark import shipping
from pocketmq.spark.shipping import add_to_path, archive_of


def test_only_a_package_in_a_zip_has_to_be_shown(tmp_path: Path) -> None:
    archive = tmp_path / "pocketmq-spark.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        packed.writestr("pocketmq/spark/shipping.py", "")
    assert archive_of(str(archive / "pocketmq" / "spark" / "shipping.py")) == archive
    assert archive_of(shipping.__file__) is None


def test_a_zip_comes_first_and_once() -> None:
    environment = {"PYTHONPATH": "/a"}
    for _ in range(2):
        add_to_path(environment, Path("/b.zip"))
    assert environment["PYTHONPATH"] == f"/b.zip{os.pathsep}/a"
    empty: dict[str, str] = {}
    add_to_path(empty, Path("/b.zip"))
    assert empty == {"PYTHONPATH": "/b.zip"}
