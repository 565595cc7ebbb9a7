"""
AES-256-GCM with a key ring: the first key encrypts, all keys decrypt (FEP 6.4).

A ciphertext is `salt (16) | nonce (12) | ciphertext | tag (16)`. Every process encrypts with its own key, derived from
the ring's key and a random salt drawn at its start, and counts its nonces: no nonce is used twice.
"""

import base64
import binascii
import hmac
import os
import re
import secrets
from collections.abc import Mapping
from itertools import count
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from assay.errors import EnvironmentFailure, UsageError
from assay.ports import Secret

SALT, NONCE = 16, 12
DERIVED = 1024  # derived keys in the cache
DERIVED_OF_TENANT = 64  # of one tenant
FILE = "file:"
_ID = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_EXPECTED = "expected ID:KEY, the newest first and commas between, where KEY is the base64 of 32 bytes (openssl rand -base64 32)"


class KeyRing:
    """
    Keys by id, newest first.

    >>> ring = KeyRing({"b": bytes(32), "a": bytes(range(32))})
    >>> ring.open("b", ring.seal(b"what", b"where"), b"where")
    b'what'
    """

    def __init__(self, keys: Mapping[str, bytes], derived: int = DERIVED) -> None:
        self._keys, self._most = dict(keys), derived
        self.key_id = next(iter(self._keys))
        self._names = hmac.digest(self._keys[self.key_id], b"assay names", "sha256")
        self._derived: dict[tuple[str, bytes], AESGCM] = {}
        self._process = -1
        self._begin()

    @property
    def ids(self) -> frozenset[str]:
        return frozenset(self._keys)

    def seal(self, data: bytes, location: bytes) -> bytes:
        if os.getpid() != self._process:  # a fork would count the same nonces again
            self._begin()
        nonce = next(self._numbers).to_bytes(NONCE)
        return b"".join((self._salt, nonce, self._own.encrypt(nonce, data, location)))

    def open(self, key_id: str, sealed: bytes, location: bytes) -> bytes:
        if key_id not in self._keys:
            there = ", ".join(map(repr, self._keys))
            raise EnvironmentFailure(
                f"this is encrypted with key {key_id!r}, and ASSAY_EVIDENCE_KEY has only {there}"
            )
        salt, nonce, rest = sealed[:SALT], sealed[SALT : SALT + NONCE], sealed[SALT + NONCE :]
        try:
            return self._under(key_id, salt).decrypt(nonce, rest, location)
        except (InvalidTag, ValueError):
            raise EnvironmentFailure(
                f"this cannot be decrypted with key {key_id!r}: it was changed, moved from another place, "
                f"or encrypted with another key of that id"
            ) from None

    def data_cipher(self, id: str, key: bytes) -> "KeyRing":
        return KeyRing({id: key}, DERIVED_OF_TENANT)

    def blind(self, name: str) -> str:
        """A hash of a name, keyed with the newest key: it can be searched for and does not reveal the name."""
        return f"~{hmac.digest(self._names, name.encode(), 'sha256').hex()[:48]}"

    def _begin(self) -> None:
        self._salt = secrets.token_bytes(SALT)
        self._own = self._under(self.key_id, self._salt)
        self._numbers = count()
        self._process = os.getpid()

    def _under(self, key_id: str, salt: bytes) -> AESGCM:
        found = self._derived.get((key_id, salt))
        if found is None:
            if len(self._derived) >= self._most:
                self._derived.clear()
            found = AESGCM(hmac.digest(self._keys[key_id], b"assay evidence" + salt, "sha256"))
            self._derived[key_id, salt] = found
        return found


def read_keys(setting: Secret) -> dict[str, bytes]:
    """Parse `new:BASE64,old:BASE64`, or `file:PATH` with such lines. Messages do not quote the keys."""
    text = setting.reveal().strip()
    if text.startswith(FILE):
        path = Path(text.removeprefix(FILE))
        try:
            text = path.read_text("ascii")
        except (OSError, UnicodeDecodeError) as wrong:
            why = wrong.strerror if isinstance(wrong, OSError) else "it is not ASCII"
            raise UsageError(f"evidence_key: {path}: expected a file that can be read, got {why}") from None
    keys: dict[str, bytes] = {}
    for number, part in enumerate(filter(None, (one.strip() for one in re.split(r"[,\s]+", text))), 1):
        id, colon, encoded = part.partition(":")
        if not colon or not _ID.fullmatch(id):
            raise UsageError(f"evidence_key: key {number}: {_EXPECTED}")
        if id in keys:
            raise UsageError(
                f"evidence_key: key {number}: expected an id of its own, got {id!r}, which another key has"
            )
        keys[id] = _decode_key(encoded, f"evidence_key: key {id!r}")
    if not keys:
        raise UsageError(f"evidence_key: there is no key in it; {_EXPECTED}")
    return keys


def _decode_key(encoded: str, setting: str) -> bytes:
    try:
        key = base64.b64decode(
            encoded + "=" * (-len(encoded) % 4),
            altchars=b"-_" if set("-_") & set(encoded) else None,
            validate=True,
        )
    except (binascii.Error, ValueError):
        raise UsageError(f"{setting} is not base64; {_EXPECTED}") from None
    if len(key) != 32:
        raise UsageError(f"{setting}: expected 32 bytes, got {len(key)}")
    return key
