"""
JSON with sorted members and without spaces. A large text is processed in parts, so that other threads get the GIL in
between.
"""

from collections.abc import Callable

import msgspec

CHUNK = 1024 * 1024  # bytes decoded in one call
_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder(order="sorted").encode
_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_items = msgspec.json.Decoder(list[msgspec.Raw]).decode


def sorted_json(text: bytes, write: Callable[[bytes], object], chunk: int = CHUNK) -> None:
    """Writes the same bytes as decoding and encoding the whole text. Raises msgspec's error if the text is not JSON."""
    first = text.lstrip()[:1] if len(text) > chunk else b""
    if first == b"{":
        write(b"{")
        for at, (name, value) in enumerate(sorted(_members(text).items())):
            write(b"%b%b:" % (b"," if at else b"", _encode(name)))
            sorted_json(bytes(value), write, chunk)
        write(b"}")
    elif first == b"[":
        write(b"[")
        for at, value in enumerate(_items(text)):
            if at:
                write(b",")
            sorted_json(bytes(value), write, chunk)
        write(b"]")
    else:
        write(_encode(_decode(text)))
