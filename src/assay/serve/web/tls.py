"""TLS for both ports (FEP 6.4): the certificate and key of the operator, and the CA that signs client certificates."""

import ssl
from pathlib import Path
from typing import NamedTuple

from assay.errors import UsageError


class Tls(NamedTuple):
    """Files that were read once and match each other. They are read at start: a renewed certificate needs a restart."""

    cert: Path
    key: Path
    client_ca: Path | None = None

    def context(self) -> ssl.SSLContext:
        """TLS 1.2 or later. With `client_ca`, a client needs a certificate signed by that CA."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        context.load_cert_chain(self.cert, self.key, _no_password)
        if self.client_ca is not None:
            context.load_verify_locations(self.client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
        return context


def read(cert: str, key: str, client_ca: str = "") -> Tls | None:
    """The files that the settings name, or None. Raises UsageError, in one line, if they cannot be used."""
    if not cert and not key:
        if client_ca:
            raise UsageError("--tls-client-ca: expected --tls-cert and --tls-key with it")
        return None
    if not cert or not key:
        there, missing = ("--tls-cert", "--tls-key") if cert else ("--tls-key", "--tls-cert")
        raise UsageError(f"{there}: expected {missing} with it")
    tls = Tls(Path(cert), Path(key), Path(client_ca) if client_ca else None)
    _check(tls.cert, "--tls-cert", b"-BEGIN CERTIFICATE-", "a certificate")
    _check(tls.key, "--tls-key", b"PRIVATE KEY-", "a private key")
    if tls.client_ca is not None:
        _check(tls.client_ca, "--tls-client-ca", b"-BEGIN CERTIFICATE-", "a certificate")
    try:
        tls.context()
    except _PasswordRequired:
        raise UsageError(
            f"--tls-key: {key} is encrypted with a password; expected a key without one"
        ) from None
    except ssl.SSLError as wrong:
        if wrong.reason == "KEY_VALUES_MISMATCH":
            raise UsageError(
                f"--tls-key: {key}: expected the key of the certificate in {cert}, got another"
            ) from None
        broken = ", ".join(str(path) for path in tls if path is not None)
        raise UsageError(
            f"TLS: one of {broken}: expected a file that can be read, got {wrong.reason or 'broken'}"
        ) from None
    return tls


class _PasswordRequired(Exception):
    """The key needs a password, and a server cannot ask for it."""


def _no_password() -> str:
    raise _PasswordRequired


def _check(path: Path, option: str, mark: bytes, content: str) -> None:
    try:
        data = path.read_bytes()
    except OSError as wrong:
        raise UsageError(
            f"{option}: {path}: expected a file that can be read, got {wrong.strerror}"
        ) from None
    if mark not in data:
        raise UsageError(f"{option}: {path}: expected {content} in PEM format")
