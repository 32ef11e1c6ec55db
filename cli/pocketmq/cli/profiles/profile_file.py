"""The file of profiles: name servers and credentials of clusters, by name."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

import msgspec

from pocketmq.protocol.errors import ConfigError, OperatingError, UsageError
from pocketmq.runtime.private_files import is_readable_by_others, write_private

PROFILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class Profile(
    msgspec.Struct, rename="camel", frozen=True, omit_defaults=True, forbid_unknown_fields=True
):
    """A cluster with a name.

    Attributes:
        name: letters, digits, dots, underscores and hyphens.
        namesrv: the cluster's name servers, separated by semicolons.
        access_key, secret_key: the user's credentials; both or neither.
        tls: whether its servers are spoken to over TLS.
        trust_cert_path: the file of the authorities of their certificates; by default the system's.
        client_cert_path, client_key_path: the user's own certificate, for servers that ask for one.
    """

    name: str
    namesrv: str
    access_key: str | None = None
    secret_key: str | None = None
    tls: bool = False
    trust_cert_path: str | None = None
    client_cert_path: str | None = None
    client_key_path: str | None = None

    def __post_init__(self) -> None:
        """Checks rules that types cannot express.

        Raises:
            ConfigError: a value does not fit; the text names the remedy.
        """
        if PROFILE_NAME.fullmatch(self.name) is None:
            raise ConfigError(
                f"{self.name!r} is no name of a profile: use up to 64 letters, digits, '.', '_' "
                f"and '-', and begin with a letter or digit"
            )
        # the client is large, and most commands that start servers have no profile to read
        from pocketmq.client.instance.addresses import namesrv_addresses

        namesrv_addresses(self.namesrv)
        if (self.access_key is None) != (self.secret_key is None):
            raise ConfigError(
                f"profile {self.name} has only one of accessKey and secretKey: give both or none"
            )
        if not self.tls and (self.trust_cert_path or self.client_cert_path):
            raise ConfigError(f"profile {self.name} names certificates, but tls is not true")


class ProfileFile(
    msgspec.Struct, rename="camel", frozen=True, omit_defaults=True, forbid_unknown_fields=True
):
    """The contents of the file.

    Attributes:
        use: the profile to use when a command names none.
        profiles: all profiles, with distinct names.
    """

    use: str | None = None
    profiles: Sequence[Profile] = ()

    def named(self, name: str, asked_by: str, path: Path) -> Profile:
        """Returns the profile with a name.

        Args:
            name: the profile's name.
            asked_by: the option or setting that named the profile, for the error.
            path: the path of the file, for the error.

        Raises:
            UsageError: no profile has this name.
        """
        for profile in self.profiles:
            if profile.name == name:
                return profile
        known = _listed([profile.name for profile in self.profiles])
        raise UsageError(
            f"there is no profile {name!r}, which {asked_by} names; {path} has {known}. "
            f"Make it with: pocketmq profile add {name} --namesrv HOST:9876"
        )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(sorted(names)) or "none"


def profile_path() -> Path:
    """Returns ``$XDG_CONFIG_HOME/pocketmq/profiles.yaml``, by default in ~/.config."""
    home = os.environ.get("XDG_CONFIG_HOME", "")
    # The XDG rule: what is not absolute is to be ignored.
    folder = Path(home) if os.path.isabs(home) else Path.home() / ".config"
    return folder / "pocketmq" / "profiles.yaml"


def load_profiles(path: Path) -> ProfileFile:
    """Reads the file; a missing file counts as one without profiles.

    Raises:
        ConfigError: the file is wrong (the text names file, line and remedy), or holds secret keys
            that others could read.
    """
    if not path.exists():
        return ProfileFile()
    from pocketmq.runtime.settings import load_settings

    found = load_settings(path, ProfileFile)
    _check_names(path, found)
    if is_readable_by_others(path) and any(profile.secret_key for profile in found.profiles):
        raise ConfigError(
            f"{path} holds secret keys and others may read it (mode "
            f"{path.stat().st_mode & 0o777:04o}): chmod 600 {path}"
        )
    return found


def _check_names(path: Path, found: ProfileFile) -> None:
    """Checks that names are unique, and that `use` names a profile."""
    names = [profile.name for profile in found.profiles]
    for index, name in enumerate(names):
        if name in names[:index]:
            line = _line(path, "profiles", index)
            raise ConfigError(f"{path}, line {line}: profile {name!r} stands twice: keep one")
    if found.use is not None and found.use not in names:
        raise ConfigError(
            f"{path}, line {_line(path, 'use')}: 'use' names the profile {found.use!r}, which is "
            f"not there: name one of {_listed(names)}, or remove the line"
        )


def _line(path: Path, key: str, index: int | None = None) -> int:
    """Returns the line of a key's value, or of an item of its list."""
    import yaml

    root = yaml.compose(path.read_text(encoding="utf-8"), yaml.SafeLoader)
    assert isinstance(root, yaml.MappingNode), "it was read as one"
    value = next(value for name, value in root.value if name.value == key)
    node = value if index is None else value.value[index]
    return int(node.start_mark.line) + 1


def save_profiles(path: Path, profiles: ProfileFile) -> None:
    """Replaces the file as a whole; only its owner may read it.

    Raises:
        OperatingError: the file cannot be written.
    """
    text = b"# Written by `pocketmq profile`, which keeps no comments.\n"
    text += msgspec.yaml.encode(profiles)
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_private(path, text)
    except OSError as e:
        raise OperatingError(
            f"the profiles cannot be kept in {path}: {e.strerror or e}; make its directory "
            f"writable, or name another with XDG_CONFIG_HOME"
        ) from e
