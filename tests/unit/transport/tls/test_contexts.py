"""What is said of files that do not fit."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)
from support.peers.certificates import CertificateFiles

from pocketmq.protocol.errors import ConfigError
from pocketmq.transport.tls.contexts import client_context, handshake_failure, server_context
from pocketmq.transport.tls.settings import ClientAuth, ServerTls


@pytest.fixture
def files(tmp_path: Path) -> CertificateFiles:
    return CertificateFiles(tmp_path)


def encrypt_key(path: Path, password: bytes) -> None:
    key = load_pem_private_key(path.read_bytes(), None)
    encryption = BestAvailableEncryption(password)
    path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption))


def test_a_server_takes_no_old_versions(files: CertificateFiles) -> None:
    context = server_context(files.server())
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2
    assert context.verify_mode is ssl.CERT_NONE
    assert context.options & ssl.OP_NO_RENEGOTIATION


def test_a_client_checks_certificates_and_hosts(files: CertificateFiles) -> None:
    context = client_context(files.client())
    assert context.check_hostname
    assert context.verify_mode is ssl.CERT_REQUIRED
    careless = client_context(files.client(verify=False))
    assert (careless.check_hostname, careless.verify_mode) == (False, ssl.CERT_NONE)


def test_mutual_tls(files: CertificateFiles) -> None:
    settings = files.server(client_auth=ClientAuth.REQUIRE, trust_cert_path=files.ca_path)
    assert server_context(settings).verify_mode is ssl.CERT_REQUIRED


def test_a_key_with_a_password(files: CertificateFiles) -> None:
    encrypt_key(Path(files.key_path), b"geheim")
    server_context(files.server(key_password="geheim"))
    for wrong in ("", "falsch"):
        with pytest.raises(ConfigError, match=r"key\.pem.*password is wrong") as e:
            server_context(files.server(key_password=wrong))
        assert "falsch" not in str(e.value)


def test_files_that_do_not_fit_are_named(files: CertificateFiles, tmp_path: Path) -> None:
    other = CertificateFiles(tmp_path / "other")
    with pytest.raises(ConfigError, match=r"key\.pem is not the key of the certificate .*cert"):
        server_context(ServerTls(cert_path=files.cert_path, key_path=other.key_path))
    Path(files.ca_path).write_text("nothing")
    with pytest.raises(ConfigError, match=r"ca\.pem has no certificates as PEM"):
        client_context(files.client())
    Path(files.cert_path).write_text("nothing")
    with pytest.raises(ConfigError, match=r"cert\.pem and .*key\.pem are no certificate and key"):
        server_context(files.server())
    Path(files.key_path).unlink()
    with pytest.raises(ConfigError, match=r"key\.pem cannot be read: No such file"):
        server_context(files.server())


def test_unknown_ciphers_are_named(files: CertificateFiles) -> None:
    server_context(files.server(ciphers="ECDHE-ECDSA-AES128-GCM-SHA256,AES256-SHA"))
    with pytest.raises(ConfigError, match="tlsCiphers is 'rot13'"):
        server_context(files.server(ciphers="rot13"))


def test_other_errors_are_no_matter_of_tls() -> None:
    assert handshake_failure(ConnectionRefusedError()) is None
    assert handshake_failure(ssl.SSLError("odd")) == "TLS failed: ('odd',)"
