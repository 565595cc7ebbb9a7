"""Ed25519 signatures over the exact octets of pack.json (openwop-contract §7.5). It needs the extra `guard`."""

from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key
from msgspec import Struct

from assay.errors import UsageError


class TrustedKey(Struct, frozen=True, kw_only=True):
    """A public key that may sign packs, of these namespaces; without any, of all."""

    id: str
    octets: bytes
    namespaces: tuple[str, ...] = ()

    def permits(self, pack: str) -> bool:
        return not self.namespaces or any(
            pack == one or pack.startswith(f"{one}.") for one in self.namespaces
        )

    def verifies(self, signature: bytes, data: bytes) -> bool:
        try:
            Ed25519PublicKey.from_public_bytes(self.octets).verify(signature, data)
        except InvalidSignature:
            return False
        return True


def public_key(pem: bytes) -> bytes:
    """The 32 octets of an Ed25519 public key in PEM. Raises ValueError."""
    try:
        key = load_pem_public_key(pem)
    except (ValueError, UnsupportedAlgorithm):
        raise ValueError("expected an Ed25519 public key in PEM (-----BEGIN PUBLIC KEY-----)") from None
    if not isinstance(key, Ed25519PublicKey):
        raise ValueError("expected an Ed25519 key, got a key of another algorithm")
    return key.public_bytes_raw()


def read_trusted_key(id: str, file: str, namespaces: tuple[str, ...], place: str) -> TrustedKey:
    """The key in a file; a refusal names the setting or the option."""
    try:
        octets = public_key(Path(file).read_bytes())
    except OSError as error:
        raise UsageError(f"{place}: {file}: expected a file that can be read, got {error.strerror}") from None
    except ValueError as wrong:
        raise UsageError(f"{place}: {file}: {wrong}") from None
    return TrustedKey(id=id, octets=octets, namespaces=namespaces)


class SigningKey:
    """A private key that signs packs. `id` is how pack.json names it."""

    def __init__(self, id: str, key: Ed25519PrivateKey) -> None:
        self.id, self._key = id, key

    def sign(self, data: bytes) -> bytes:
        return self._key.sign(data)


def read_signing_key(file: str, id: str) -> SigningKey:
    """The private key in a PEM file without a password."""
    try:
        key = load_pem_private_key(Path(file).read_bytes(), None)
    except OSError as error:
        raise UsageError(f"--key {file}: expected a file that can be read, got {error.strerror}") from None
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise UsageError(
            f"--key {file}: expected an Ed25519 private key in PEM without a password:"
            " openssl genpkey -algorithm ed25519 makes one"
        ) from None
    if not isinstance(key, Ed25519PrivateKey):
        raise UsageError(f"--key {file}: expected an Ed25519 key, got a key of another algorithm")
    return SigningKey(id, key)
