"""Makes a cluster secure in one step: certificates, credentials, and settings of its servers.

All of it lies in one directory that only its owner may read, and is made once: a further start
finds what is there. Whoever has the directory has the cluster.
"""

from __future__ import annotations

import json
import secrets
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pocketmq.protocol.errors import ConfigError
from pocketmq.protocol.signing import MASK, Credentials
from pocketmq.runtime.clock import Clock, SystemClock
from pocketmq.runtime.private_files import write_private
from pocketmq.transport.tls.settings import ClientTls

if TYPE_CHECKING:
    from pocketmq.runtime.certificates import Issued

ADMIN = "admin"
INNER = "pocketmq-inner"
"""The user as whom the servers of the cluster talk to each other."""

PROFILE = "secure"
"""The profile that commands use for the cluster."""

JAVA_TLS = """tls.test.mode.enable=false
tls.client.authServer=true
tls.client.trustCertPath={ca}
"""
"""What Java's clients read of TLS."""

SECRET_SIZE = 24
"""Random bytes of a secret, which is a third longer as text."""


RENEWED_BEFORE_DAYS = 60
"""So long before its end a server's certificate is made anew at a start."""

LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")
ANY_HOST = ("0.0.0.0", "::")  # noqa: S104


class SecureFiles(NamedTuple):
    """The files of a secure cluster, all in one directory.

    Attributes:
        directory: where they are.
    """

    directory: Path

    @property
    def ca(self) -> Path:
        """The certificate of the authority: what clients trust."""
        return self.directory / "ca.pem"

    @property
    def ca_key(self) -> Path:
        """The authority's key: who has it can pretend to be a server."""
        return self.directory / "ca.key"

    @property
    def certificate(self) -> Path:
        """The servers' certificate."""
        return self.directory / "server.pem"

    @property
    def key(self) -> Path:
        """The servers' key."""
        return self.directory / "server.key"

    @property
    def java_tls(self) -> Path:
        """The TLS settings of Java's clients (``-Dtls.config.file``)."""
        return self.directory / "tls.properties"

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
        tls_mode: ``enforcing``, or ``permissive`` for clients that speak no TLS.
    """

    files: SecureFiles
    admin: Credentials
    inner: Credentials
    tls_mode: str = "enforcing"

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
            "tlsServerMode": self.tls_mode,
            "tlsServerCertPath": str(self.files.certificate),
            "tlsServerKeyPath": str(self.files.key),
        }

    def namesrv_settings(self) -> dict[str, Any]:
        """The settings of every name server, under the keys of its YAML file."""
        audit_path = self.files.directory.parent / "namesrv" / "audit.log"
        return {**self.server_settings(), "auditLogPath": str(audit_path)}

    def broker_settings(self) -> dict[str, Any]:
        """The settings of every broker, under the keys of its YAML file."""
        return {
            **self.server_settings(),
            "secretsKeyPath": str(self.files.secrets_key),
            "tlsEnable": True,
            "tlsClientTrustCertPath": str(self.files.ca),
        }

    def client_tls(self) -> ClientTls:
        """How clients of this machine speak TLS to the cluster."""
        return ClientTls(trust_cert_path=str(self.files.ca))

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


def reached_as(host: str, names: Sequence[str] = ()) -> list[str]:
    """The names and addresses that a certificate has to have.

    Args:
        host: that servers listen on.
        names: further ones.
    """
    own = [host] if host not in ANY_HOST else [socket.gethostname(), *_own_addresses()]
    return list(dict.fromkeys([*LOCAL_HOSTS, *own, *names]))


def _own_addresses() -> list[str]:
    try:
        return [socket.gethostbyname(socket.gethostname())]
    except OSError:
        return []


def secure(
    directory: Path, hosts: Sequence[str], clock: Clock | None = None, tls_mode: str = "enforcing"
) -> Security:
    """Makes what a secure cluster needs, as far as it is not there.

    Args:
        directory: where it lies; made if it does not exist.
        hosts: the names and addresses by which the servers are reached.
        clock: dates the certificates.
        tls_mode: see `Security`.

    Raises:
        ConfigError: a file cannot be read or written.
    """
    files = SecureFiles(directory.absolute())
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        directory.chmod(0o700)
        _certify(files, hosts, clock or SystemClock())
        admin, inner = _credentials(files.admin, ADMIN), _credentials(files.inner, INNER)
        tools = {"accessKey": admin.access_key, "secretKey": admin.secret_key}
        write_private(files.tools, json.dumps(tools).encode())
        write_private(files.java_tls, JAVA_TLS.format(ca=files.ca).encode())
    except OSError as e:
        raise ConfigError(f"--secure: {e.filename}: {e.strerror}; it must be writable") from e
    return Security(files, admin, inner, tls_mode)


def _certify(files: SecureFiles, hosts: Sequence[str], clock: Clock) -> None:
    """Makes the authority's and the servers' certificates, or the latter anew if it is due."""
    from pocketmq.runtime.certificates import make_ca, make_certificate

    ca = _issued(files.ca, files.ca_key)
    if ca is None:
        ca = make_ca("PocketMQ", clock)
        write_private(files.ca_key, ca.key)
        write_private(files.ca, ca.certificate)
        files.certificate.unlink(missing_ok=True)
    server = _issued(files.certificate, files.key)
    if server is None or _is_outdated(server, hosts, clock):
        server = make_certificate(hosts, ca, clock)
        write_private(files.key, server.key)
        write_private(files.certificate, server.certificate)


def _issued(certificate: Path, key: Path) -> Issued | None:
    from pocketmq.runtime.certificates import Issued

    if not certificate.exists() or not key.exists():
        return None
    return Issued(certificate.read_bytes(), key.read_bytes())


def _is_outdated(server: Issued, hosts: Sequence[str], clock: Clock) -> bool:
    from pocketmq.runtime.certificates import days_left, hosts_of

    missing = set(hosts) - set(hosts_of(server.certificate))
    return bool(missing) or days_left(server.certificate, clock) < RENEWED_BEFORE_DAYS


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
    new = Profile(
        PROFILE,
        namesrv,
        admin.access_key,
        admin.secret_key,
        tls=True,
        trust_cert_path=str(security.files.ca),
    )
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
    files = security.files
    return [
        f"secure: {'TLS only' if security.tls_mode == 'enforcing' else 'TLS or plain'}, and signed "
        f"requests only. The secret of the user {ADMIN}, who may do "
        f"everything, is in {files.admin}",
        f"  CLI      pocketmq cluster list{option}",
        f"           pocketmq user create NAME --generate{option}",
        f"           pocketmq acl create NAME -r Topic:TOPIC -a Pub{option}",
        f"  Python   POCKETMQ_CREDENTIALS={files.admin} POCKETMQ_TLS_TRUST_CERT={files.ca}",
        f'           or Producer("GROUP", "{namesrv}", credentials=read_credentials(Path(…)), '
        f"tls=ClientTls(trust_cert_path=…))",
        f"  Java     -Drocketmq.client.keyFile={files.admin} -Dtls.enable=true "
        f"-Dtls.config.file={files.java_tls}",
        '           and new DefaultMQProducer("GROUP", new AclClientRPCHook(new '
        "SessionCredentials()))",
        "  Go       producer.WithCredentials(primitive.Credentials{AccessKey: …, SecretKey: …}); "
        "Go's client 2.1.2 speaks no TLS and needs --tls-mode permissive here",
        f"  mqadmin  cp {files.tools} $ROCKETMQ_HOME/conf/tools.yml; export "
        f'JAVA_OPT="-Dtls.enable=true -Dtls.config.file={files.java_tls}"',
    ]
