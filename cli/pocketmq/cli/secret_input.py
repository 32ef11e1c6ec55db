"""Secrets that a command asks for: other users of the machine see the options of processes."""

from __future__ import annotations

import sys

import typer

from pocketmq.protocol.errors import UsageError


def read_secret(label: str, missing: str) -> str:
    """Asks for a secret without an echo, or reads it from a pipe.

    Args:
        label: what is asked for.
        missing: the error if nothing is given.

    Raises:
        UsageError: nothing was given.
    """
    if sys.stdin.isatty():
        text: str = typer.prompt(label, hide_input=True, err=True)
    else:
        text = sys.stdin.readline().rstrip("\n")
    if not text:
        raise UsageError(missing)
    return text
