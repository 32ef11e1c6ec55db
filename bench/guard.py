"""Fails when a change makes a hot path of the broker take more instructions: `make bench-guard`.

    python bench/guard.py [--base COMMIT]

Compares the working tree with a base commit: that of `--base` or of the variable BASE, else where
the branch left main, else the parent of HEAD. valgrind counts the instructions of both trees at the
same time, running `guarded_paths.py`. A path may take 2 % more, or as much as a commit
since the base allows in a line of its message, with the reason:

    Bench-guard: pull +3.5 %, each answer now carries the group's offset
"""

from __future__ import annotations

import argparse
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BASES = ROOT / "build" / "bench-guard"
COMPONENTS = (
    "runtime", "protocol", "transport", "auth", "proxy", "namesrv", "broker", "client", "schemas",
    "console", "airflow", "kombu", "taskiq", "spark", "cli", "testing",
)  # fmt: skip
SCRIPT = "guarded_paths.py"
GROWTH_PERCENT_MAX = 2.0

_TRAILER = re.compile(r"^Bench-guard: *(.*)$", re.MULTILINE)
_ALLOWANCE = re.compile(r"(\S+) \+(\d+(?:\.\d+)?) ?%, *(\S.*)")
_COUNT = re.compile(r"I +refs: +([\d,]+)")


def allowances(messages: str) -> dict[str, float]:
    """Reads what commit messages allow: by path, the percentage by which it may grow.

    Raises:
        SystemExit: a line cannot be read, or gives no reason.
    """
    allowed: dict[str, float] = {}
    for line in _TRAILER.findall(messages):
        found = _ALLOWANCE.fullmatch(line.strip())
        if found is None:
            sys.exit(f"cannot read 'Bench-guard: {line}': write 'Bench-guard: PATH +x %, reason'")
        path, percent, _ = found.groups()
        allowed[path] = max(allowed.get(path, 0.0), float(percent))
    return allowed


def judge(
    before: Mapping[str, float], after: Mapping[str, float], allowed: Mapping[str, float]
) -> tuple[list[str], bool]:
    """Compares the instructions that each path takes for a message.

    Args:
        before, after: of the base and of the working tree, by path.
        allowed: by how many percent paths may grow for a reason that was given.

    Returns:
        a line for each path, and whether all of them hold.
    """
    lines, holds = [], True
    for path in {**before, **after}:
        if path not in after:
            lines.append(f"{path:16} is not measured any more: FAILS")
            holds = False
            continue
        if path not in before:
            lines.append(f"{path:16} {after[path]:10,.0f} instructions a message: new")
            continue
        percent = round((after[path] / before[path] - 1) * 100, 2)
        limit = max(GROWTH_PERCENT_MAX, allowed.get(path, 0.0))
        verdict = f"holds (<= +{limit:g} %)" if percent <= limit else f"FAILS (> +{limit:g} %)"
        lines.append(
            f"{path:16} {before[path]:10,.0f} -> {after[path]:10,.0f} instructions a message: "
            f"{percent:+.2f} % {verdict}"
        )
        holds &= percent <= limit
    for path in allowed.keys() - after.keys():
        lines.append(f"a commit allows growth of {path!r}, and there is no such path: FAILS")
        holds = False
    return lines, holds


def a_message(counted: str, logs: Mapping[int, str]) -> dict[str, float]:
    """Computes the instructions that each path takes for a message.

    Args:
        counted: what `guarded_paths.py` has printed.
        logs: what valgrind has written, by process id.
    """
    points: dict[str, list[tuple[int, int]]] = {}
    for line in counted.splitlines():
        path, messages, process_id = json.loads(line)
        found = _COUNT.search(logs[process_id])
        assert found is not None, logs[process_id]
        points.setdefault(path, []).append((messages, int(found[1].replace(",", ""))))
    return {
        path: (many[1] - few[1]) / (many[0] - few[0])
        for path, (few, many) in ((path, sorted(two)) for path, two in points.items())
    }


def measure(tree: Path, *options: str) -> dict[str, float]:
    """Counts the instructions that each path of a tree takes for a message.

    Both trees are measured by this one's script, so that only the broker differs. Only a base in
    which that script does not run, since names have changed, is measured by its own.

    Args:
        tree: a checkout.
        options: of the script.
    """
    own = tree / "bench" / SCRIPT
    try:
        return _measure(tree, ROOT / "bench" / SCRIPT, *options)
    except SystemExit:
        if tree == ROOT or not own.exists():
            raise
        return _measure(tree, own)


def _measure(tree: Path, script: Path, *options: str) -> dict[str, float]:
    paths = [script.parent, *(tree / component for component in COMPONENTS)]
    with tempfile.TemporaryDirectory(prefix="pocketmq-bench-") as directory:
        path = os.pathsep.join(map(str, paths))
        run = subprocess.run(
            ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null",
             f"--log-file={directory}/%p", sys.executable, str(script), *options],
            env=os.environ | {"PYTHONHASHSEED": "0", "PYTHONPATH": path},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
        )  # fmt: skip
        if run.returncode:
            sys.exit(
                f"the paths of {tree} cannot be measured: {run.stdout}\nIf the base lacks what "
                f"{script} needs, name another commit: make bench-guard BASE=COMMIT"
            )
        logs = {int(log.name): log.read_text() for log in Path(directory).iterdir()}
    return a_message(run.stdout, logs)


def git(*arguments: str) -> str | None:
    """Asks git; None if it does not know."""
    run = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return None if run.returncode else run.stdout.strip()


def base_commit(given: str) -> str | None:
    """Finds the commit to compare with; None where only one commit's files are known.

    Raises:
        SystemExit: there is no such commit as was given.
    """
    if given:
        commit = git("rev-parse", "--verify", f"{given}^{{commit}}")
        return commit or sys.exit(f"there is no commit {given!r} here: fetch it, or name another")
    head = git("rev-parse", "HEAD")
    commit = git("merge-base", "HEAD", "main")
    if commit is None or commit == head:
        commit = git("rev-parse", "--verify", "HEAD~1^{commit}")
    return commit


def checked_out(commit: str) -> Path:
    """Unpacks the files of a commit that are measured; returns their directory."""
    tree = BASES / commit
    if not tree.exists():
        there = (git("ls-tree", "--name-only", commit) or "").split()
        components = [name for name in COMPONENTS if name in there]  # some are younger
        archive = subprocess.run(
            ["git", "archive", commit, "bench", *components],
            cwd=ROOT, stdout=subprocess.PIPE, check=True,
        ).stdout  # fmt: skip
        shutil.rmtree(BASES, ignore_errors=True)
        BASES.mkdir(parents=True)
        unfinished = BASES / "unfinished"
        with tarfile.open(fileobj=io.BytesIO(archive)) as files:
            files.extractall(unfinished, filter="data")
        unfinished.rename(tree)
    return tree


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base", default=os.environ.get("BASE", ""), help="commit to compare with")
    given = parser.parse_args()
    if shutil.which("valgrind") is None:
        sys.exit("bench-guard counts instructions by valgrind: install it (apt install valgrind)")
    commit = base_commit(given.base)
    if commit is None:
        print(
            "bench-guard: NOTHING WAS COMPARED, since there is no parent of HEAD here: fetch it "
            "(git fetch --deepen=1), or name a commit: make bench-guard BASE=COMMIT"
        )
        return
    messages = git("log", "--format=%B", f"{commit}..HEAD") or ""
    allowed = allowances(messages)
    with ThreadPoolExecutor() as both:
        before, after = both.map(measure, [checked_out(commit), ROOT])
    print(f"compared with {git('log', '-1', '--format=%h %s', commit)}")
    lines, holds = judge(before, after, allowed)
    print("\n".join(lines))
    if not holds:
        sys.exit(
            "A path takes more instructions than before: mend it, or say why in the commit's "
            "message: 'Bench-guard: PATH +x %, reason'"
        )


if __name__ == "__main__":
    main()
