"""Pages of commands, made of the command line itself: words, options, defaults."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any


def pages(command: Any, *words: str) -> Iterator[str]:
    """The sections of a group's commands, each with its table, in alphabetical order."""
    inner = getattr(command, "commands", {})
    if words and command.callback is not None:
        yield section(command, words, is_group=bool(inner))
    elif words:
        yield f"{heading(words)}\n\n{help_of(command)}"
    for name in sorted(inner):
        yield from pages(inner[name], *words, name)


def section(command: Any, words: tuple[str, ...], *, is_group: bool) -> str:
    """One command: how it is called, what it does, and its options."""
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option" and not p.hidden]
    usage = " ".join(
        [
            "pocketmq",
            *words,
            *(_argument(argument) for argument in arguments),
            *(["[OPTIONS]"] if options else []),
            *(["[COMMAND]"] if is_group else []),
        ]
    )
    parts = [heading(words), f"    {usage}", help_of(command)]
    rows = [_row(_argument(a), a) for a in arguments] + [_row(_names(o), o) for o in options]
    if rows:
        parts.append("\n".join(["| | | default |", "|---|---|---|", *rows]))
    return "\n\n".join(parts)


def heading(words: tuple[str, ...]) -> str:
    """A command's heading, below that of its group."""
    return "#" * (len(words) + 1) + " " + " ".join(words)


def help_of(command: Any) -> str:
    """What a command says of itself."""
    return inspect.cleandoc(command.help or "").replace("\f", "")


def _argument(parameter: Any) -> str:
    name = parameter.name.upper() + (" …" if parameter.nargs == -1 else "")
    return name if parameter.required else f"[{name}]"


def _names(option: Any) -> str:
    names = ", ".join(sorted(option.opts, key=lambda name: (not name.startswith("--"), name)))
    negative = f" / {option.secondary_opts[0]}" if option.secondary_opts else ""
    return names + negative


def _row(name: str, parameter: Any) -> str:
    default = parameter.default
    text = parameter.help or ""
    if parameter.envvar:
        text += f" Also by the environment: `{parameter.envvar}`."
    if parameter.required:
        shown = "required"
    elif callable(default) or (not default and default != 0) or default is False:
        shown = ""
    else:
        shown = f"`{getattr(default, 'value', default)}`"
    return f"| `{name}` | {text.replace('|', chr(92) + '|')} | {shown} |"
