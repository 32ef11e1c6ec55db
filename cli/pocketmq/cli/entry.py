"""The entry point of the command `pocketmq`."""

from __future__ import annotations

import signal


def run() -> None:
    """Loads and runs the command line.

    While the command line loads, nothing needs tidying up: Ctrl-C ends the process at once.
    """
    is_usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # not by nohup
    if is_usual:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from pocketmq.cli.main import run as run_command

    if is_usual:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    run_command()
