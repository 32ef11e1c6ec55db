"""Files that only their owner may read."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

OTHERS_MODE = 0o077
"""The bits of a file's mode that give group and others access."""


def write_private(path: Path, data: bytes) -> None:
    """Writes a file that only its owner may read; replaces an old one as a whole.

    Raises:
        OSError: it cannot be written.
    """
    new = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            new.unlink()
        raise


def make_private(paths: Iterable[Path]) -> None:
    """Lets only their owner read and change files; what does not exist is left out.

    Raises:
        OSError: their modes cannot be changed.
    """
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            path.chmod(0o600)


def is_readable_by_others(path: Path) -> bool:
    """Whether anybody but the owner may read or change a file.

    Raises:
        OSError: there is no such file.
    """
    return bool(path.stat().st_mode & OTHERS_MODE)
