"""The commands `pocketmq snapshot` and `seed`, and the seeding of `pocketmq up --seed`."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Sized
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pocketmq.cli.options import NAMESRV_DEFAULT, NamesrvOption
from pocketmq.cli.output import Format, FormatOption, note, print_json, print_rows
from pocketmq.runtime.process import run
from pocketmq.runtime.text import counted

if TYPE_CHECKING:
    from pocketmq.cli.servers.cluster import ClusterAddresses
    from pocketmq.client.copying.seeds import Seed


app = typer.Typer(help="Check seed files, and apply them to a cluster.", no_args_is_help=True)

SeedArgument = Annotated[Path, typer.Argument(help="A seed file, see docs/seed.md.")]


@app.command()
def check(path: SeedArgument) -> None:
    """Say what is wrong in a seed file and the files of messages that it names."""
    from pocketmq.client.copying.seeds import read_seed

    seed = read_seed(path)
    note(f"{path}: {_contents(seed.topics, seed.groups)}, all sound")


@app.command()
def apply(
    path: SeedArgument,
    namesrv: NamesrvOption = NAMESRV_DEFAULT,
    output: FormatOption = Format.TABLE,
) -> None:
    """Make a running cluster what a seed file says, as `pocketmq up --seed` does."""
    from pocketmq.client.copying.seeds import apply_seed, read_seed

    report = run(apply_seed(read_seed(path), namesrv))
    for text in report.notes:
        note(f"warning: {text}")
    row = {"topics": report.topics, "groups": report.groups, "messages": report.messages}
    print_rows([row], tuple(row), output)


@app.command()
def schema() -> None:
    """Write the JSON schema of seed files, for editors that complete and check YAML."""
    from pocketmq.client.copying.seeds import seed_schema

    print_json(seed_schema())


def snapshot(
    messages: Annotated[
        int, typer.Option(min=0, help="Take the newest so many messages of each queue along.")
    ] = 0,
    output: Annotated[
        str, typer.Option("-o", "--output", help="yaml or json, which is YAML as well.")
    ] = "yaml",
    namesrv: NamesrvOption = NAMESRV_DEFAULT,
) -> None:
    """Write a cluster's topics, groups and offsets as a seed file for `pocketmq up --seed`."""
    from pocketmq.client.copying.seeds import snapshot_text, take_snapshot
    from pocketmq.protocol.errors import UsageError

    if output not in ("yaml", "json"):
        raise UsageError(f"--output is {output!r}: it must be yaml or json")
    taken = run(take_snapshot(namesrv, messages))
    text = snapshot_text(taken)
    if output == "json":
        print_json(taken)
    else:
        sys.stdout.write(text)
    note(_contents(taken["topics"], taken["groups"]))


def _contents(topics: Sized, groups: Sized) -> str:
    return f"{counted(len(topics), 'topic')}, {counted(len(groups), 'group')}"


def read_seed_file(path: Path | None) -> Seed | None:
    """Reads the seed that `--seed` names.

    Raises:
        ConfigError: the seed is wrong.
    """
    if path is None:
        return None
    from pocketmq.client.copying.seeds import read_seed  # servers without a seed start faster

    return read_seed(path)


@asynccontextmanager
async def sown(
    started: AbstractAsyncContextManager[ClusterAddresses], seed: Seed
) -> AsyncIterator[ClusterAddresses]:
    """Starts a cluster and applies a seed to it before the context is entered.

    Raises:
        ConfigError: the seed does not fit the cluster.
        OperatingError: a part of the seed could not be applied.
    """
    from pocketmq.client.copying.seeds import apply_seed

    async with started as addresses:
        for text in (await apply_seed(seed, addresses.namesrv)).notes:
            note(f"warning: {text}")
        yield addresses
