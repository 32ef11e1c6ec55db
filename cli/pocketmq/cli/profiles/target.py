"""Chooses the cluster of a command: `--namesrv`, `--profile`, environment, or profile in use.

The command line goes before the environment, and the environment before the profile in use; in
either an address goes before a profile. The first of these that is given decides:

1. ``--namesrv ADDRESSES``, or else ``--profile NAME`` (both together are refused)
2. the environment's NAMESRV_ADDR, as all of RocketMQ's tools have it
3. the environment's POCKETMQ_PROFILE
4. the profile in use (``pocketmq profile use NAME``)
5. 127.0.0.1:9876
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec
import typer

from pocketmq.cli.profiles.profile_file import Profile, load_profiles, profile_path
from pocketmq.protocol.errors import UsageError
from pocketmq.protocol.signing import Credentials

PROFILE_VARIABLE = "POCKETMQ_PROFILE"
NAMESRV_VARIABLE = "NAMESRV_ADDR"
NAMESRV_DEFAULT = "127.0.0.1:9876"

_PROFILE = "pocketmq.profile"
_TARGET = "pocketmq.target"
_TLS = "pocketmq.tls"
_TLS_CA = "pocketmq.tls_ca"
_COMMAND_LINE = "COMMANDLINE"
_ENVIRONMENT = "ENVIRONMENT"


class Target(NamedTuple):
    """A cluster that was chosen.

    Attributes:
        namesrv: the cluster's name servers, separated by semicolons.
        origin: the option or setting that chose the cluster, for people.
        profile: the chosen profile, if a profile named the cluster.
    """

    namesrv: str
    origin: str
    profile: Profile | None = None


def choose(
    namesrv: str | None = None, profile: str | None = None, environment_namesrv: str | None = None
) -> Target:
    """Chooses the cluster.

    Args:
        namesrv, profile: the options of the command line, if given.
        environment_namesrv: the value of NAMESRV_ADDR, if set.

    Raises:
        UsageError: both options are given, or the named profile does not exist.
        ConfigError: the file of profiles is needed and wrong.
    """
    if namesrv is not None and profile is not None:
        raise UsageError(
            f"--namesrv {namesrv} and --profile {profile} both name a cluster: leave one out"
        )
    if namesrv is not None:
        return Target(namesrv, "--namesrv")
    if profile is not None:
        return _of_profile(profile, "--profile")
    if environment_namesrv:
        return Target(environment_namesrv, NAMESRV_VARIABLE)
    if name := os.environ.get(PROFILE_VARIABLE):
        return _of_profile(name, PROFILE_VARIABLE)
    if used := load_profiles(profile_path()).use:
        return _of_profile(used, "profile use")._replace(origin=f"profile {used}, which is in use")
    return Target(NAMESRV_DEFAULT, "the default")


def _of_profile(name: str, asked_by: str) -> Target:
    path = profile_path()
    profile = load_profiles(path).named(name, asked_by, path)
    return Target(profile.namesrv, f"profile {name}, by {asked_by}", profile)


def chosen_target(context: typer.Context) -> Target:
    """Returns the cluster that was chosen for the running command."""
    target: Target = context.meta[_TARGET]
    return target


def resolve_namesrv(context: typer.Context, value: str) -> str:
    """Returns the name servers of the chosen cluster; the callback of `--namesrv`."""
    if context.resilient_parsing:
        return value
    source = context.get_parameter_source("namesrv")
    origin = "" if source is None else source.name
    target = choose(
        value if origin == _COMMAND_LINE else None,
        context.meta.get(_PROFILE),
        value if origin == _ENVIRONMENT else None,
    )
    context.meta[_TARGET] = target
    use_credentials_of(target.profile)
    _use_tls(context, target.profile)
    return target.namesrv


def use_credentials_of(profile: Profile | None) -> None:
    """Lets the clients of this command sign as the profile's user, or as the environment says."""
    from pocketmq.client.credentials import use_credentials

    credentials = None
    if profile is not None and profile.access_key and profile.secret_key:
        credentials = Credentials(profile.access_key, profile.secret_key)
    use_credentials(credentials)


def _use_tls(context: typer.Context, profile: Profile | None) -> None:
    """Lets the clients of this command speak TLS as its options say, or its profile."""
    from pocketmq.client.tls import default_tls, use_tls
    from pocketmq.transport.tls.settings import ClientTls

    tls = None if profile is None or not profile.tls else ClientTls(
        trust_cert_path=profile.trust_cert_path or "",
        cert_path=profile.client_cert_path or "",
        key_path=profile.client_key_path or "",
    )  # fmt: skip
    ca: Path | None = context.meta.get(_TLS_CA)
    if ca is not None or context.meta.get(_TLS):
        tls = tls or default_tls() or ClientTls()
        if ca is not None:
            tls = msgspec.structs.replace(tls, trust_cert_path=str(ca))
    use_tls(tls)


def _keep_tls(context: typer.Context, value: bool) -> bool:
    context.meta[_TLS] = value
    return value


def _keep_tls_ca(context: typer.Context, value: Path | None) -> Path | None:
    context.meta[_TLS_CA] = value
    return value


def _keep_profile(context: typer.Context, value: str | None) -> str | None:
    if value is not None:
        context.meta[_PROFILE] = value
    return value


def profile_options() -> list[Any]:
    """Returns the options `--profile`, `--tls` and `--tls-ca`."""
    template = typer.Typer(add_completion=False)
    template.command()(_with_options)
    options = list(typer.main.get_command(template).params)
    for option in options:
        option.expose_value = False
    return options


def _with_options(
    profile: Annotated[
        str | None,
        typer.Option(
            "--profile",
            help="The cluster, by the name of a profile instead of --namesrv.",
            callback=_keep_profile,
            is_eager=True,
            show_default=False,
        ),
    ] = None,
    tls: Annotated[
        bool,
        typer.Option("--tls", help="Speak TLS to its servers.", callback=_keep_tls, is_eager=True),
    ] = False,
    tls_ca: Annotated[
        Path | None,
        typer.Option(
            "--tls-ca",
            help="Speak TLS; the file of the authorities of its certificates.",
            callback=_keep_tls_ca,
            is_eager=True,
            show_default=False,
        ),
    ] = None,
) -> None:
    """Declares the options for Typer; never runs."""


def add_profile_option(command: Any) -> None:
    """Adds `--profile`, `--tls` and `--tls-ca` to commands that take `--namesrv`, also of a group.

    Args:
        command: of `typer.main.get_command`; it is changed in place.
    """
    for inner in getattr(command, "commands", {}).values():
        add_profile_option(inner)
    at = next((i for i, p in enumerate(command.params) if _asks_a_cluster(p)), None)
    if at is not None:
        command.params[at + 1 : at + 1] = profile_options()


def _asks_a_cluster(parameter: Any) -> bool:
    """Tells whether a parameter is `options.NamesrvOption`, not only one of the same name."""
    return (parameter.name, parameter.envvar) == ("namesrv", NAMESRV_VARIABLE)
