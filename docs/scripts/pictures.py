"""Makes the pictures of the documentation: `make pictures`.

``python docs/scripts/pictures.py`` makes them all; those of terminals need the ports of
`pocketmq up`. With ``--check`` it says by its exit code whether the drawn ones are what it would
draw, whether those of terminals show the commands that it would run, and whether those of the
console are there.
"""

from __future__ import annotations

import sys
from pathlib import Path

import cluster_picture
import console_pictures
import speed_picture
import terminal_pictures
import trace_picture

IMAGES = Path(__file__).parents[1] / "images"


def drawn() -> dict[str, str]:
    """Names of the files that are drawn, and their contents."""
    return {
        "cluster.svg": cluster_picture.picture(),
        "speed.svg": speed_picture.picture(),
        "trace.svg": trace_picture.picture(),
    }


def stale() -> list[str]:
    """Names of the files that are not what the scripts would make."""

    def content(name: str) -> str:
        path = IMAGES / name
        return path.read_text(encoding="utf-8") if path.exists() else ""

    return [
        *(name for name, picture in drawn().items() if content(name) != picture),
        *(
            f"{session.name}.svg"
            for session in terminal_pictures.SESSIONS
            if not terminal_pictures.shows(session, content(f"{session.name}.svg"))
        ),
        *(name for name in console_pictures.names() if not (IMAGES / name).exists()),
    ]


def main(*words: str) -> int:
    """Makes or checks the pictures; the exit code."""
    if "--check" in words:
        old = stale()
        if old:
            sys.stderr.write(f"stale: {', '.join(old)}; run `make pictures`\n")
        return 1 if old else 0
    IMAGES.mkdir(exist_ok=True)
    for name, picture in {**drawn(), **terminal_pictures.pictures()}.items():
        (IMAGES / name).write_text(picture, encoding="utf-8")
    for name, content in console_pictures.pictures().items():
        (IMAGES / name).write_bytes(content)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
