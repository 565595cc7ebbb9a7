"""Encryption at rest."""

from typing import NamedTuple, Protocol


class Cipher(Protocol):
    """Encrypts records at rest. `location` names row and column, so that a ciphertext cannot be moved."""

    @property
    def key_id(self) -> str:
        """The id of the key that encrypts: the newest."""
        ...

    @property
    def ids(self) -> frozenset[str]:
        """The ids of all keys that decrypt."""
        ...

    def seal(self, data: bytes, location: bytes) -> bytes: ...
    def open(self, key_id: str, sealed: bytes, location: bytes) -> bytes: ...
    def data_cipher(self, id: str, key: bytes) -> "Cipher":
        """A cipher with one other key: the data key of a tenant."""
        ...

    def blind(self, name: str) -> str:
        """Return a keyed hash of a name. It shows only whether two names are equal."""
        ...


class ReencryptStep(NamedTuple):
    """One step: the number of records, the cursor of the next ("" ends it), and the data keys encrypted again."""

    records: int
    cursor: str
    keys: int = 0


class Reencryptable(Protocol):
    """A store whose records can be encrypted again with another key."""

    async def reencrypt(self, cursor: str = "") -> ReencryptStep:
        """
        Encrypt a batch of the records that the newest key has not encrypted; without a key, decrypt them.

        Repeat with the returned cursor until it is empty.
        """
        ...
