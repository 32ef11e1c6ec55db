"""Records data directories as a release leaves them: `PYTHONPATH=tests python
tests/upgrade/golden/record.py 0.1.0`, or `this` for the working tree before it is released.

Each `<release>-<end>.tar.xz` beside this file holds the directory `broker-a` of a broker that was
`stopped` in order, or `killed`, or killed with half a record at the end of a queue (`torn`), and
`expected.json`: what there should be, as the release's own client read it. `popped` has messages in
flight, since 0.2.0.
"""

from __future__ import annotations

import signal
import sqlite3
import sys
import tarfile
import tempfile
from contextlib import closing
from pathlib import Path

from support.upgrades import fill
from support.upgrades.releases import THIS, program
from support.upgrades.servers import broker, name_server

from pocketmq.runtime import VERSION

HERE = Path(__file__).parent
ENDS = ("stopped", "killed", "torn")
OFFSETS = 5
"""Of the groups of `fill`: four of auditors, one of billing."""

LEFT_OUT = ("lock", "meta.db-shm")


def record(release: str, end: str, folder: Path) -> None:
    """Has a release fill a data directory below a folder."""
    directory, expected = folder / "broker-a", str(folder / "expected.json")
    how = signal.SIGTERM if end in ("stopped", "popped") else signal.SIGKILL
    with (
        name_server(release, folder) as namesrv,
        broker(release, directory, namesrv, stop_signal=how),
    ):
        for way in ("everything", *(("popped",) if end == "popped" else ())):
            program(release, Path(fill.__file__), namesrv, expected, way)
        while not is_noted(directory / "meta.db"):
            pass
        program(release, Path(fill.__file__), namesrv, expected, "last")
    if end == "torn":
        tear(directory / "queues" / "Orders" / "0" / "00000000000000000000.log")


def is_noted(metadata: Path) -> bool:
    """Whether the broker has written down what was committed and delivered."""
    with closing(sqlite3.connect(f"file:{metadata}?mode=ro", uri=True)) as database:
        (offsets,) = database.execute("SELECT count(*) FROM consumer_offsets").fetchone()
        delays = database.execute("SELECT value FROM state WHERE key = 'delay_offsets'").fetchone()
    return offsets >= OFFSETS and delays is not None


def tear(log: Path) -> None:
    """Leaves half a record behind the last one, as a crash in the middle of a write may."""
    data = log.read_bytes()
    with log.open("ab") as file:
        file.write(data[64 : 64 + 80])


def pack(folder: Path, archive: Path) -> None:
    """Packs what a release left."""
    with tarfile.open(archive, "w:xz") as tar:
        for path in sorted(folder.rglob("*")):
            inside = path.relative_to(folder)
            if path.is_file() and path.name not in LEFT_OUT and inside.suffix != ".yaml":
                tar.add(path, str(inside), filter=_plain)


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def main(release: str) -> None:
    """Records all of a release."""
    name = VERSION if release == THIS else release
    ends = ENDS if release == "0.1.0" else (*ENDS, "popped")
    for end in ends:
        with tempfile.TemporaryDirectory() as folder:
            record(release, end, Path(folder))
            pack(Path(folder), HERE / f"{name}-{end}.tar.xz")


if __name__ == "__main__":
    main(*sys.argv[1:])
