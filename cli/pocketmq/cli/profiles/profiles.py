"""The commands `pocketmq profile …`, which keep named clusters."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from pocketmq.cli.output import Format, FormatOption, note, print_json, print_rows
from pocketmq.cli.profiles.profile_file import (
    Profile,
    ProfileFile,
    load_profiles,
    profile_path,
    save_profiles,
)
from pocketmq.cli.profiles.target import NAMESRV_VARIABLE, choose
from pocketmq.cli.secret_input import read_secret
from pocketmq.protocol.errors import UsageError

app = typer.Typer(
    help="Give clusters names: --profile NAME stands for their name servers.", no_args_is_help=True
)

ProfileArgument = Annotated[str, typer.Argument(help="The profile's name.")]
MASK = "********"

_SECRET = "Secret key"  # noqa: S105 (what is asked for)
_NO_SECRET = "--access-key needs the secret key too: type it, or pipe it in"  # noqa: S105


@app.command()
def add(
    name: ProfileArgument,
    namesrv: Annotated[
        str,
        typer.Option(
            "-n", "--namesrv", help="Name servers, separated by semicolons.", show_default=False
        ),
    ],
    access_key: Annotated[
        str | None,
        typer.Option(
            help="Who one is there. The secret key is asked for, or read from standard input."
        ),
    ] = None,
    tls: Annotated[bool, typer.Option("--tls", help="Its servers speak TLS.")] = False,
    tls_ca: Annotated[
        Path | None,
        typer.Option(help="The file of the authorities of their certificates; implies --tls."),
    ] = None,
    tls_cert: Annotated[
        Path | None, typer.Option(help="One's own certificate, if they ask for one.")
    ] = None,
    tls_key: Annotated[Path | None, typer.Option(help="Its private key.")] = None,
    use: Annotated[bool, typer.Option("--use", help="And use it from now on.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace one of that name.")] = False,
) -> None:
    """Add a profile."""
    path = profile_path()
    old = load_profiles(path)
    if not force and any(profile.name == name for profile in old.profiles):
        raise UsageError(f"there is a profile {name} already: replace it with --force")
    secret_key = read_secret(_SECRET, _NO_SECRET) if access_key else None
    new = Profile(
        name,
        namesrv,
        access_key,
        secret_key,
        tls=tls or tls_ca is not None,
        trust_cert_path=_absolute(tls_ca),
        client_cert_path=_absolute(tls_cert),
        client_key_path=_absolute(tls_key),
    )
    kept = [profile for profile in old.profiles if profile.name != name]
    save_profiles(path, ProfileFile(name if use else old.use, [*kept, new]))
    note(f"profile {name} is in {path}{' and in use' if use else ''}")


def _absolute(path: Path | None) -> str | None:
    return None if path is None else str(path.expanduser().absolute())


@app.command("list")
def list_profiles(output: FormatOption = Format.TABLE) -> None:
    """List the profiles."""
    found = load_profiles(profile_path())
    rows = [_row(profile, found) for profile in sorted(found.profiles, key=lambda p: p.name)]
    print_rows(rows, ("profile", "namesrv", "accessKey", "used"), output)


def _row(profile: Profile, found: ProfileFile) -> dict[str, Any]:
    return {
        "profile": profile.name,
        "namesrv": profile.namesrv,
        "accessKey": profile.access_key,
        "used": "yes" if profile.name == found.use else "",
    }


@app.command()
def show(
    name: Annotated[
        str | None, typer.Argument(help="The profile's name; else what holds now, and why.")
    ] = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """Show a profile, or which cluster commands mean now and what says so."""
    environment = os.environ.get(NAMESRV_VARIABLE) if name is None else None
    target = choose(profile=name, environment_namesrv=environment)
    profile = target.profile
    shown = {
        "profile": profile and profile.name,
        "namesrv": target.namesrv,
        "accessKey": profile and profile.access_key,
        "secretKey": MASK if profile and profile.secret_key else None,
        "tls": "yes" if profile and profile.tls else None,
        "trustCertPath": profile and profile.trust_cert_path,
        "clientCertPath": profile and profile.client_cert_path,
        "clientKeyPath": profile and profile.client_key_path,
        "chosenBy": target.origin if name is None else None,
        "file": str(profile_path()),
    }
    if output is Format.JSON:
        print_json(shown)
        return
    rows = [{"key": key, "value": value} for key, value in shown.items() if value is not None]
    print_rows(rows, ("key", "value"), output)


@app.command()
def use(
    name: Annotated[str | None, typer.Argument(help="The profile's name.")] = None,
    none: Annotated[bool, typer.Option("--none", help="Use none any more.")] = False,
) -> None:
    """Use a profile wherever neither options nor the environment name a cluster."""
    if (name is None) is not none:
        raise UsageError("name a profile to use, or --none")
    path = profile_path()
    found = load_profiles(path)
    if name is not None:
        found.named(name, "profile use", path)
    save_profiles(path, ProfileFile(name, found.profiles))
    note("no profile is in use" if name is None else f"profile {name} is in use")


@app.command()
def remove(name: ProfileArgument) -> None:
    """Remove a profile."""
    path = profile_path()
    found = load_profiles(path)
    gone = found.named(name, "profile remove", path)
    kept = [profile for profile in found.profiles if profile is not gone]
    save_profiles(path, ProfileFile(None if found.use == name else found.use, kept))
    note(f"profile {name} is removed")
