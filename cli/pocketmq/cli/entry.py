"""What the command `pocketmq` begins with."""

from __future__ import annotations

import signal


def run() -> None:
    """Runs the command line, whose parts take a while to load.

    Until they are there nothing is to be tidied up: Ctrl-C ends the process as it ends any other.
    """
    is_usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # not by nohup
    if is_usual:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from pocketmq.cli.main import run as run_command

    if is_usual:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    run_command()
