"""A world of its own for a broker set: namespaces in which machines and links can fail.

A run of the set is a process in new namespaces of users, networks, mounts and processes. Making
them needs no rights: in there the process is root. Nothing of that is seen outside, and all of it
ends with the process. Each machine is a network namespace on one bridge. A cut link loses packets
without a word, as a firewall or a broken switch does: the sender has the other's address wrong.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from pathlib import Path

ENTER = (
    "unshare", "--user", "--map-root-user", "--net", "--mount", "--pid", "--fork", "--kill-child",
    "--mount-proc",
)  # fmt: skip

HOST = "10.0.0.254"
"""The address of the clients, which are on the bridge itself."""

NOBODY = "02:00:00:00:ff:ff"


@functools.cache
def missing() -> str | None:
    """The reason why there can be no world on this machine, or None when there can."""
    absent = [tool for tool in ("unshare", "nsenter", "ip", "mount") if shutil.which(tool) is None]
    if absent:
        return f"{' and '.join(absent)} not on PATH (Linux: util-linux and iproute2)"
    # Some systems forbid what others allow every user.
    tried = subprocess.run(
        [*ENTER, "sh", "-c", "mount -t tmpfs tmpfs /run && ip link add bridge type bridge"],
        capture_output=True,
        text=True,
        check=False,
    )
    if tried.returncode:
        return (
            f"no namespaces ({tried.stderr.strip()}): run it as root, or allow users to make them: "
            f"sysctl -w kernel.apparmor_restrict_unprivileged_userns=0 (Ubuntu), "
            f"user.max_user_namespaces=10000 (others)"
        )
    return None


def entering(module: str, *arguments: str) -> list[str]:
    """The command that runs a Python module in a new world."""
    return [*ENTER, sys.executable, "-m", module, *arguments]


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"


class World:
    """The network and the disks of the world that this process is in."""

    def __init__(self) -> None:
        # `ip netns` keeps its names there.
        _run("mount", "-t", "tmpfs", "tmpfs", "/run")
        _run("ip", "link", "set", "lo", "up")
        _run("ip", "link", "add", "bridge", "type", "bridge")
        _run("ip", "address", "add", f"{HOST}/24", "dev", "bridge")
        _run("ip", "link", "set", "bridge", "up")
        self._numbers: dict[str, int] = {}
        self.cuts: set[tuple[str, str]] = set()

    def add_machine(self, name: str) -> str:
        """Adds a machine; returns its address."""
        number = self._numbers[name] = len(self._numbers) + 1
        link = f"to-{name}"
        _run("ip", "netns", "add", name)
        _run("ip", "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", name)
        _run("ip", "link", "set", link, "master", "bridge", "up")
        for command in (
            ("link", "set", "lo", "up"),
            ("link", "set", "eth0", "address", self._hardware(name)),
            ("address", "add", f"{self.address(name)}/24", "dev", "eth0"),
            ("link", "set", "eth0", "up"),
        ):
            _run("ip", "-n", name, *command)
        for other in self._numbers:
            if other != name:
                self._point(name, other, self._hardware(other))
                self._point(other, name, self._hardware(name))
        assert number < 100
        return self.address(name)

    def address(self, name: str) -> str:
        """The address of a machine."""
        return f"10.0.0.{self._numbers[name]}"

    def _hardware(self, name: str) -> str:
        return f"02:00:00:00:00:{self._numbers[name]:02d}"

    def _point(self, source: str, target: str, hardware: str) -> None:
        _run(
            "ip", "-n", source, "neighbour", "replace", self.address(target),
            "lladdr", hardware, "nud", "permanent", "dev", "eth0",
        )  # fmt: skip

    def on(self, name: str, *command: str) -> list[str]:
        """The command that runs another one on a machine; it has the same process id."""
        return ["nsenter", f"--net=/run/netns/{name}", *command]

    # -- faults -------------------------------------------------------------------------------

    def cut(self, source: str, target: str) -> None:
        """Loses from now on all that one machine sends to another."""
        self.cuts.add((source, target))
        self._point(source, target, NOBODY)

    def mend(self) -> None:
        """Ends all cuts, and plugs all machines in."""
        for source, target in self.cuts:
            self._point(source, target, self._hardware(target))
        self.cuts.clear()
        for name in self._numbers:
            self.plug(name)

    def unplug(self, name: str) -> None:
        """Takes a machine off the network: clients do not reach it either."""
        _run("ip", "link", "set", f"to-{name}", "down")

    def plug(self, name: str) -> None:
        """Ends an `unplug`."""
        _run("ip", "link", "set", f"to-{name}", "up")


FILLED_STEP, FILLED_STEP_MIN = 64 * 1024 * 1024, 4096


class SmallDisk:
    """A file system of its own with little room, mounted on a folder."""

    def __init__(self, folder: Path, size: int) -> None:
        folder.mkdir()
        _run("mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder))
        self._folder, self._filler = folder, folder / "filler"

    def fill(self, left: int = 0) -> None:
        """Takes all room but so many bytes, or a little more, as others write meanwhile."""
        with self._filler.open("ab") as file:
            step = FILLED_STEP
            while step >= FILLED_STEP_MIN:
                room = os.statvfs(self._folder)
                size = min(step, room.f_bavail * room.f_frsize - left)
                if size <= 0:
                    return
                try:
                    os.posix_fallocate(file.fileno(), os.fstat(file.fileno()).st_size, size)
                except OSError:
                    step //= 2

    def free(self) -> None:
        """Gives the room back."""
        self._filler.unlink(missing_ok=True)

    def close(self) -> None:
        """Takes the disk away with all that is on it."""
        _run("umount", str(self._folder))
