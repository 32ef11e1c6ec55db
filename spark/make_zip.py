"""Packs what a Spark job needs of this project: `make spark-zip`, for spark-submit's --py-files.

A PEP 420 package is found in a zip only where the zip has an entry for each directory, which most
tools leave out. Equal sources make equal bytes.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

ROOT = Path(__file__).parents[1]
COMPONENTS = ("runtime", "protocol", "transport", "client", "schemas", "spark")
"""What `pocketmq.spark` imports: servers and command stay at home."""

NODE_REQUIREMENTS = (
    "pyarrow", "numpy", "pandas", "msgspec", "msgpack", "uvloop", "lz4", "zstandard", "isal",
    "PyYAML",
)  # fmt: skip
"""What a zip cannot carry, as most of it is compiled: each node's Python has to have it."""

_TIMESTAMP = (1980, 1, 1, 0, 0, 0)
_FILE_MODE, _DIRECTORY_MODE = 0o100644 << 16, (0o40755 << 16) | 0x10


def make_zip(target: Path) -> int:
    """Writes the zip; returns how many modules it has.

    Args:
        target: a path that ends with .zip, the only ending that Spark puts on Python's path.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    directories: set[str] = set()
    modules = 0
    with ZipFile(target, "w", ZIP_DEFLATED) as archive:
        for name, path in sorted(_files()):
            parts = name.split("/")[:-1]
            for depth in range(1, len(parts) + 1):
                directory = "/".join(parts[:depth]) + "/"
                if directory not in directories:
                    directories.add(directory)
                    entry = ZipInfo(directory, _TIMESTAMP)
                    entry.external_attr = _DIRECTORY_MODE
                    archive.writestr(entry, b"")
            entry = ZipInfo(name, _TIMESTAMP)
            entry.external_attr, entry.compress_type = _FILE_MODE, ZIP_DEFLATED
            archive.writestr(entry, path.read_bytes())
            modules += path.suffix == ".py"
    return modules


def _files() -> Iterator[tuple[str, Path]]:
    """The files of the components by their names in the zip."""
    for component in COMPONENTS:
        base = ROOT / component
        for path in (base / "pocketmq").rglob("*"):
            if path.suffix == ".py" or path.name == "py.typed":
                yield path.relative_to(base).as_posix(), path


def main(arguments: Sequence[str] | None = None) -> int:
    """Writes the zip and says where it is and what the nodes need besides."""
    parser = argparse.ArgumentParser(description="Pack PocketMQ for spark-submit's --py-files.")
    parser.add_argument("target", type=Path, help="for example dist/pocketmq-spark.zip")
    target: Path = parser.parse_args(arguments).target
    if target.suffix != ".zip":
        parser.error(f"{target}: Spark puts only files that end with .zip on Python's path")
    modules = make_zip(target)
    sys.stdout.write(
        f"{target}: {modules} modules. Each node's Python needs: {' '.join(NODE_REQUIREMENTS)}\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
