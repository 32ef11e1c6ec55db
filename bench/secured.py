"""Measures PocketMQ beside RocketMQ with signed requests, and over TLS too.

``python bench/secured.py --reference DIR --lib DIR/lib`` drives both clusters in alternation with
RocketMQ's own load generator, which signs. The folder and the bars are as in ``bench/run.py``.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from pocketmq.client.credentials import credentials_text
from pocketmq.protocol.signing import Credentials
from pocketmq.runtime.private_files import write_private

USER = Credentials("rocketmq", "12345678")
"""Of the reference's cluster."""

BENCHMARKS = "org.apache.rocketmq.example.benchmark"
"""The package of RocketMQ's load generator."""

NAMESRV_PORT, BROKER_PORT = 19876, 20911


def main() -> None:
    """Prints both clusters' figures and their ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reference", type=Path, required=True)
    parser.add_argument("--lib", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--warm", type=int, default=15)
    parser.add_argument("--tls", action="store_true", help="over TLS, too")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)
        _shadow_java(folder, is_tls=given.tls)
        subprocess.run(
            [
                sys.executable, str(given.reference / "load.py"), "--lib", str(given.lib),
                "--rows", "sync64", "--rounds", str(given.rounds),
                "--seconds", str(given.seconds), "--warm", str(given.warm),
                "--namesrv", f"127.0.0.1:{NAMESRV_PORT}",
                f"pocketmq={_ours(folder, is_tls=given.tls)}",
                f"rocketmq={_theirs(given, folder)}",
            ],
            env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"},
            check=True,
        )  # fmt: skip


def _shadow_java(folder: Path, *, is_tls: bool) -> None:
    """Puts a `java` before the real one that lets the load generator sign, and nobody else."""
    java = shutil.which("java")
    assert java is not None, "RocketMQ needs Java"
    tls = "-Dtls.enable=true" if is_tls else ""
    script = folder / "java"
    script.write_text(
        "#!/bin/bash\n"
        f'case "$*" in *{BENCHMARKS}*) exec {java} {tls} "$@" '
        f"-a true -ak {USER.access_key} -sk {USER.secret_key};; esac\n"
        f'exec {java} "$@"\n'
    )
    script.chmod(0o700)


def _ours(folder: Path, *, is_tls: bool) -> str:
    """A command that starts a secure cluster, whose first user is that of the reference."""
    secure = folder / "ours" / "secure"
    secure.mkdir(parents=True, mode=0o700)
    write_private(secure / "admin.key", credentials_text(USER).encode())
    command = [
        sys.executable, "-m", "pocketmq.cli.main", "up", "--secure",
        "--tls-mode", "enforcing" if is_tls else "permissive", "--data", str(folder / "ours"),
        "--namesrv-port", str(NAMESRV_PORT), "--broker-port", str(BROKER_PORT),
    ]  # fmt: skip
    return f"XDG_CONFIG_HOME={shlex.quote(str(folder))} exec {shlex.join(command)}"


def _theirs(given: argparse.Namespace, folder: Path) -> str:
    theirs = folder / "theirs"
    theirs.mkdir()
    (theirs / "lib").symlink_to(given.lib.absolute())
    command = shlex.join(
        [str(given.reference / "cluster.sh"), str(theirs), "1", "2g", str(NAMESRV_PORT),
         str(BROKER_PORT)]
    )  # fmt: skip
    return f"AUTH=1 {'TLS=1 ' if given.tls else ''}exec {command}"


if __name__ == "__main__":
    main()
