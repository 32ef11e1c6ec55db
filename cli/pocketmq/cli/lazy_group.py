"""A group of commands whose modules are loaded when one of its commands is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, ClassVar, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from pocketmq.cli.profiles.target import add_profile_option


class Entry(NamedTuple):
    """A command that is not loaded.

    Attributes:
        place: ``module:name`` of its function or `typer.Typer`, the module within `pocketmq.cli`.
        help: its line in the list of commands.
    """

    place: str
    help: str


class LazyGroup(TyperGroup):
    """Lists its commands without loading them: each of them would load most of PocketMQ.

    Attributes:
        entries: the commands by name, in the order of the list.
    """

    entries: ClassVar[Mapping[str, Entry]] = {}

    _is_listing = False

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of all commands."""
        return list(self.entries)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Writes the help, for which no command is loaded."""
        self._is_listing = True
        try:
            super().format_help(ctx, formatter)
        finally:
            self._is_listing = False

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Returns a command, loaded unless only the list of commands asks for it."""
        entry = self.entries.get(cmd_name)
        if entry is None:
            return None
        if self._is_listing:
            return TyperCommand(cmd_name, help=entry.help)
        if cmd_name not in self.commands:
            self.commands[cmd_name] = _load(cmd_name, entry)
        return self.commands[cmd_name]

    def load_all(self) -> None:
        """Loads all commands into `commands`."""
        for name in self.entries:
            self.get_command(None, name)


def _load(name: str, entry: Entry) -> Any:
    module, _, attribute = entry.place.partition(":")
    found = getattr(import_module(f"pocketmq.cli.{module}"), attribute)
    if isinstance(found, typer.Typer):
        command: Any = typer.main.get_group(found)
        command.name = name
    else:
        single = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        single.command(name)(found)
        command = typer.main.get_command(single)
    add_profile_option(command)
    return command
