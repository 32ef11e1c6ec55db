"""The process from which those of Spark are forked.

    python -u -m pocketmq.spark.fork_server.server SOCKET-FD

It ends when its standard input does, which is the driver's. What it has forked ends with the JVM.
"""

from __future__ import annotations

import gc
import importlib
import importlib.util
import json
import os
import runpy
import selectors
import signal
import socket
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, NoReturn

from pocketmq.spark.fork_server.launcher import NUMBER_SIZE

PRELOADED = (
    "pyspark.worker",
    "pyspark.sql.streaming.python_streaming_source_runner",
    "pyspark.sql.worker.commit_data_source_write",
    "pyspark.sql.worker.create_data_source",
    "pyspark.sql.worker.lookup_data_sources",
    "pyspark.sql.worker.plan_data_source_read",
    "pyspark.sql.worker.write_into_data_source",
    "pocketmq.runtime.process",
    "pocketmq.spark.reading.planning",
    "pocketmq.spark.reading.pulling",
    "pocketmq.spark.reading.reader",
    "pocketmq.spark.rows.decoding",
    "pocketmq.spark.rows.marks",
    "pocketmq.spark.source",
    "pocketmq.spark.writing.pace",
    "pocketmq.spark.writing.planning",
    "pocketmq.spark.writing.row_distribution",
    "pocketmq.spark.writing.sending_thread",
    "pocketmq.spark.writing.writer",
)
"""What the steps of a query load. PySpark's modules are not the same in each of its versions."""

REQUEST_SIZE_MAX = 16 * 1024 * 1024
REQUEST_TIME_MAX_S = 10
STREAMS = 3


def main(listener: socket.socket) -> None:
    """Loads the modules, then forks a process for each connection until standard input ends."""
    for name in PRELOADED:
        if _is_there(name):
            importlib.import_module(name)
    if threads := _other_threads():
        raise SystemExit(f"cannot fork beside {threads} threads of the loaded modules")
    os.register_at_fork(after_in_child=_seed_numpy)
    gc.collect()
    gc.freeze()  # the garbage collection of a fork would copy each page that it looks at
    ForkServer(listener).serve()


def _is_there(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # nor is the package around it
        return False


def _other_threads() -> int:
    tasks = Path("/proc/self/task")
    return len(list(tasks.iterdir())) - 1 if tasks.exists() else 0


def _seed_numpy() -> None:
    """Gives a forked process random numbers of its own, as if it had loaded numpy itself."""
    random = sys.modules.get("numpy.random")
    if random is not None:
        random.seed()


class ForkServer:
    """Forks processes, and tells their launchers when they end.

    Args:
        listener: a Unix socket that listens.
    """

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._launchers: dict[int, socket.socket] = {}
        self._woken, self._waker = os.pipe()
        os.set_blocking(self._waker, False)

    def serve(self) -> None:
        """Works until standard input ends."""
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._waker, warn_on_full_buffer=False)
        with selectors.DefaultSelector() as selector:
            for file in (sys.stdin.fileno(), self._listener, self._woken):
                selector.register(file, selectors.EVENT_READ)
            while True:
                ready = {key.fileobj for key, _ in selector.select()}
                if self._woken in ready:
                    os.read(self._woken, 4096)
                    self._reap()
                if self._listener in ready:
                    self._answer(self._listener.accept()[0])
                if sys.stdin.fileno() in ready and not os.read(sys.stdin.fileno(), 4096):
                    return

    def _answer(self, launcher: socket.socket) -> None:
        """Forks the process that a launcher wants; one without an answer starts Python itself."""
        launcher.settimeout(REQUEST_TIME_MAX_S)
        try:
            wanted = _received(launcher)
        except (OSError, ValueError, TypeError):
            launcher.close()
            return
        try:
            pid = os.fork()
            if pid == 0:
                self._become(wanted)
            self._launchers[pid] = launcher
            _tell(launcher, pid)
        except OSError:  # no process can be forked
            launcher.close()
        finally:
            for stream in wanted.streams:
                os.close(stream)

    def _reap(self) -> None:
        """Tells launchers the exit status of their process."""
        while self._launchers:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            launcher = self._launchers.pop(pid)
            code = os.waitstatus_to_exitcode(status)
            _tell(launcher, code if code >= 0 else 128 - code)
            launcher.close()

    def _become(self, wanted: Request) -> NoReturn:
        """Makes this forked process the one that is wanted, and ends with it.

        The connection of its launcher stays open here: if the server is killed, the launcher ends
        with the process and not before.
        """
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for other in (self._listener, *self._launchers.values()):
                other.close()
            os.close(self._woken)
            os.close(self._waker)
            wanted.take_over()
            code = _run(wanted.arguments)
        except BaseException:
            traceback.print_exc()
            raise
        finally:
            os._exit(code)  # the server goes on in the other process alone


class Request(NamedTuple):
    """What a launcher wants: a process that is as if Python had been started in its place."""

    streams: Sequence[int]
    arguments: Sequence[str]
    environment: Mapping[str, str]
    folder: str

    def take_over(self) -> None:
        """Gives this process the streams, environment, folder and modules' folders."""
        for number, stream in enumerate(self.streams):
            os.dup2(stream, number)
            os.close(stream)
        os.environ.clear()
        os.environ.update(self.environment)
        time.tzset()
        os.chdir(self.folder)
        folders = filter(None, self.environment.get("PYTHONPATH", "").split(os.pathsep))
        sys.path[:] = dict.fromkeys([*folders, *sys.path])


def _received(launcher: socket.socket) -> Request:
    """Receives what a launcher wants.

    Raises:
        OSError, ValueError, TypeError: it sends something else, or nothing in time.
    """
    head, streams, _, _ = socket.recv_fds(launcher, NUMBER_SIZE, STREAMS)
    try:
        size = int.from_bytes(head, "big")
        if len(streams) != STREAMS or not 0 < size <= REQUEST_SIZE_MAX:
            raise ValueError("this is no request of a launcher")
        return Request(streams, **json.loads(launcher.recv(size, socket.MSG_WAITALL)))
    except BaseException:
        for stream in streams:
            os.close(stream)
        raise


def _tell(launcher: socket.socket, number: int) -> None:
    try:
        launcher.sendall(number.to_bytes(NUMBER_SIZE, "big", signed=True))
    except OSError:
        launcher.close()  # it was killed; the process goes on until its input ends


def _run(arguments: Sequence[str]) -> int:
    """Runs a module as `python -m` does; returns the exit status."""
    module, *rest = arguments
    sys.argv[:] = [module, *rest]
    sys.modules.pop(module, None)  # runpy warns of a module that was loaded before it runs
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as e:
        return e.code if isinstance(e.code, int) else int(e.code is not None)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return 0


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])))
