"""A group of commands whose modules are loaded when one of its commands is asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from pocketmq.cli.profiles.target import add_profile_option


class Entry(NamedTuple):
    """A command that is not loaded.

    Attributes:
        place: ``module:name`` of its function or `typer.Typer`, the module within `pocketmq.cli`.
        help: its line in the list of commands.
        values: of options that may be given without one, by the option.
    """

    place: str
    help: str
    values: Mapping[str, str] = MappingProxyType({})


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


class _Command(TyperCommand):
    """A command some of whose options have a value of their own where none is given.

    Attributes:
        values: by the option.
    """

    values: Mapping[str, str] = MappingProxyType({})

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Reads the arguments of a call."""
        return super().parse_args(ctx, with_values(args, self.values))


def with_values(args: Sequence[str], values: Mapping[str, str]) -> list[str]:
    """Gives options without a value theirs: those at the end, and before another option."""
    following = [*args, "-"][1:]
    return [
        f"{arg}={values[arg]}" if arg in values and after.startswith("-") else arg
        for arg, after in zip(args, following, strict=True)
    ]


def _load(name: str, entry: Entry) -> Any:
    module, _, attribute = entry.place.partition(":")
    found = getattr(import_module(f"pocketmq.cli.{module}"), attribute)
    if isinstance(found, typer.Typer):
        command: Any = typer.main.get_group(found)
        command.name = name
    else:
        single = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        single.command(name, cls=_Command)(found)
        command = typer.main.get_command(single)
        command.values = entry.values
    add_profile_option(command)
    return command
