"""The seam of what lies sealed on a disk."""

from typing import NamedTuple, Protocol


class Cipher(Protocol):
    """Seals the record at rest. `place` names where a thing lies, so that none can be swapped for another."""

    @property
    def key_id(self) -> str:
        """Of the key that seals: the newest."""
        ...

    @property
    def ids(self) -> frozenset[str]:
        """Of all the keys that open."""
        ...

    def seal(self, data: bytes, place: bytes) -> bytes: ...
    def open(self, key_id: str, sealed: bytes, place: bytes) -> bytes: ...
    def blind(self, name: str) -> list[str]:
        """What stands for a name under each key, the newest first: the same for the same name, and nothing else to be told from it."""
        ...


class ReencryptStep(NamedTuple):
    """A step of sealing everything anew: how many things were, and where to go on; "": nothing is left."""

    many: int
    following: str


class Reencryptable(Protocol):
    """Part of a store."""

    async def reencrypt(self, following: str = "") -> ReencryptStep:
        """Seal some of what is not sealed with the newest key, or unseal it where none seals; again, until nothing follows."""
        ...
