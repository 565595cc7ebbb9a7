"""JSON with its members sorted and without space: of a large text in parts, so that others have their turn in between."""

from collections.abc import Callable

import msgspec

AT_ONCE = 1024 * 1024  # bytes that are decoded in one go
_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder(order="sorted").encode
_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_items = msgspec.json.Decoder(list[msgspec.Raw]).decode


def sorted_json(text: bytes, write: Callable[[bytes], object], at_once: int = AT_ONCE) -> None:
    """The same bytes as of all of it decoded and encoded again. Raises what msgspec raises where it is no JSON."""
    first = text.lstrip()[:1] if len(text) > at_once else b""
    if first == b"{":
        write(b"{")
        for at, (name, value) in enumerate(sorted(_members(text).items())):
            write(b"%b%b:" % (b"," if at else b"", _encode(name)))
            sorted_json(bytes(value), write, at_once)
        write(b"}")
    elif first == b"[":
        write(b"[")
        for at, value in enumerate(_items(text)):
            if at:
                write(b",")
            sorted_json(bytes(value), write, at_once)
        write(b"]")
    else:
        write(_encode(_decode(text)))
