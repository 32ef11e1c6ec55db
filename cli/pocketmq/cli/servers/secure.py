"""Makes a cluster secure in one step: credentials, keys, and the settings of its servers.

All of it lies in one directory that only its owner may read, and is made once: a further start
finds what is there. Whoever has the directory has the cluster.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pocketmq.protocol.errors import ConfigError
from pocketmq.protocol.signing import MASK, Credentials
from pocketmq.runtime.private_files import write_private

ADMIN = "admin"
INNER = "pocketmq-inner"
"""The user as whom the servers of the cluster talk to each other."""

PROFILE = "secure"
"""The profile that commands use for the cluster."""

SECRET_SIZE = 24
"""Random bytes of a secret, which is a third longer as text."""


class SecureFiles(NamedTuple):
    """The files of a secure cluster, all in one directory.

    Attributes:
        directory: where they are.
    """

    directory: Path

    @property
    def admin(self) -> Path:
        """The credentials of the user `ADMIN`, as RocketMQ's key files are."""
        return self.directory / "admin.key"

    @property
    def inner(self) -> Path:
        """The credentials of the servers."""
        return self.directory / "inner.key"

    @property
    def secrets_key(self) -> Path:
        """The key with which brokers encrypt the passwords of users; they make it."""
        return self.directory / "secrets.key"

    @property
    def tools(self) -> Path:
        """The settings of mqadmin (``$ROCKETMQ_HOME/conf/tools.yml``)."""
        return self.directory / "tools.yml"


class Security(NamedTuple):
    """What a secure cluster needs to start, and its users to reach it.

    Attributes:
        files: where everything lies.
        admin, inner: the first user, and the servers themselves.
    """

    files: SecureFiles
    admin: Credentials
    inner: Credentials

    def server_settings(self) -> dict[str, Any]:
        """The settings of every server, under the keys of its YAML file."""
        return {
            "authenticationEnabled": True,
            "authorizationEnabled": True,
            "initAuthenticationUser": {
                "username": self.admin.access_key,
                "password": self.admin.secret_key,
            },
            "innerClientAuthenticationCredentials": {
                "accessKey": self.inner.access_key,
                "secretKey": self.inner.secret_key,
            },
        }

    def broker_settings(self) -> dict[str, Any]:
        """The settings of every broker, under the keys of its YAML file."""
        return {**self.server_settings(), "secretsKeyPath": str(self.files.secrets_key)}

    def settings_file(self, name: str, settings: Mapping[str, object]) -> Path:
        """Writes the settings of one broker's process: its command line is seen by others.

        Args:
            name: of the broker.
            settings: all of them; JSON is YAML, too.
        """
        path = self.files.directory / f"{name}.yaml"
        write_private(path, json.dumps(settings).encode())
        return path

    def __repr__(self) -> str:
        return f"Security({self.files.directory}, {MASK})"


def secure(directory: Path) -> Security:
    """Makes what a secure cluster needs, as far as it is not there.

    Args:
        directory: where it lies; made if it does not exist.

    Raises:
        ConfigError: a file cannot be read or written.
    """
    files = SecureFiles(directory.absolute())
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        directory.chmod(0o700)
        admin, inner = _credentials(files.admin, ADMIN), _credentials(files.inner, INNER)
        tools = {"accessKey": admin.access_key, "secretKey": admin.secret_key}
        write_private(files.tools, json.dumps(tools).encode())
    except OSError as e:
        raise ConfigError(f"--secure: {e.filename}: {e.strerror}; it must be writable") from e
    return Security(files, admin, inner)


def _credentials(path: Path, name: str) -> Credentials:
    """Reads credentials from a key file; makes a file with a random secret if there is none."""
    from pocketmq.client.credentials import credentials_text, read_credentials

    if not path.exists():
        made = Credentials(name, secrets.token_urlsafe(SECRET_SIZE))
        write_private(path, credentials_text(made).encode())
    return read_credentials(path)


def keep_profile(security: Security, namesrv: str) -> str:
    """Enters the cluster as a profile, which commands then use if they used none before.

    Args:
        security: of the cluster.
        namesrv: the address of its name server.

    Returns:
        What a command has to say to reach the cluster; empty if nothing.
    """
    from pocketmq.cli.profiles.profile_file import (
        Profile,
        ProfileFile,
        load_profiles,
        profile_path,
        save_profiles,
    )

    path = profile_path()
    old = load_profiles(path)
    admin = security.admin
    new = Profile(PROFILE, namesrv, admin.access_key, admin.secret_key)
    kept = [profile for profile in old.profiles if profile.name != PROFILE]
    use = old.use or PROFILE
    save_profiles(path, ProfileFile(use, [*kept, new]))
    return "" if use == PROFILE else f" --profile {PROFILE}"


def words_for_clients(security: Security, namesrv: str, option: str) -> list[str]:
    """What clients in several languages put into their settings, one line each.

    Args:
        security: of the cluster.
        namesrv: the address of its name server.
        option: what commands have to say, as `keep_profile` returns it.
    """
    key = security.files.admin
    return [
        f"secure: only signed requests are taken. The secret of the user {ADMIN}, who may do "
        f"everything, is in {key}",
        f"  CLI     pocketmq cluster list{option}",
        f"          pocketmq user create NAME --generate{option}",
        f"          pocketmq acl create NAME -r Topic:TOPIC -a Pub{option}",
        f"  Python  POCKETMQ_CREDENTIALS={key}, or "
        f'Producer("GROUP", namesrv="{namesrv}", credentials=Credentials(accessKey, secretKey))',
        f"  Java    -Drocketmq.client.keyFile={key} and new AclClientRPCHook(new "
        f"SessionCredentials()), or new SessionCredentials(accessKey, secretKey)",
        "  Go      producer.WithCredentials(primitive.Credentials{AccessKey: …, SecretKey: …})",
        f"  mqadmin cp {security.files.tools} $ROCKETMQ_HOME/conf/tools.yml",
    ]
