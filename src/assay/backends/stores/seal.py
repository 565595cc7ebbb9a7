"""How evidence and documents lie on the disk: squeezed if asked, then sealed if there is a cipher."""

import zlib
from typing import NamedTuple

from assay.errors import Broken
from assay.ports import Cipher

PLAIN, ZLIB = 0, 1
WORTH_SQUEEZING = 512


class Sealed(NamedTuple):
    coding: int
    key_id: str  # empty: in clear
    data: bytes


class Vault:
    def __init__(self, cipher: Cipher | None = None, *, compress: bool = False) -> None:
        self._cipher, self._compress = cipher, compress

    def seal(self, data: bytes, *place: str | int) -> Sealed:
        coding = PLAIN
        if self._compress and len(data) >= WORTH_SQUEEZING:
            squeezed = zlib.compress(data, 1)
            if len(squeezed) < len(data):
                coding, data = ZLIB, squeezed
        if self._cipher is None:
            return Sealed(coding, "", data)
        return Sealed(coding, self._cipher.key_id, self._cipher.seal(data, _label(place)))

    def open(self, sealed: Sealed, *place: str | int) -> bytes:
        data = sealed.data
        if sealed.key_id:
            if self._cipher is None:
                raise Broken(f"{place[0]} {place[1]} is sealed with key {sealed.key_id!r}, and no key is set")
            data = self._cipher.open(sealed.key_id, data, _label(place))
        return zlib.decompress(data) if sealed.coding == ZLIB else data


def _label(place: tuple[str | int, ...]) -> bytes:
    return "\0".join(map(str, place)).encode()
