"""Canonical JSON (RFC 8785): equal values have equal texts and digests."""

from collections.abc import Callable, Iterator
from json.encoder import encode_basestring as _quote
from typing import Any

import msgspec

from assay.protocol.json_types import is_object

_SAFE = 2**53


def canonical(value: Any) -> str:
    """
    Encode a JSON value: keys sorted by UTF-16, numbers as ECMAScript writes them, no spaces.

    The RFC has only doubles. An integer beyond 2^53 keeps its digits here, so that different integers stay different.
    """
    return "".join(_parts(value, _number))


def exact(value: Any) -> str:
    """The same, but a double without a fraction has all digits: texts are equal only if the numbers are."""
    return "".join(_parts(value, _digits))


def _parts(value: Any, number: Callable[[float], str]) -> list[str]:
    parts: list[str] = []
    _write(value, parts.append, number)
    return parts


def _write(value: Any, write_text: Callable[[str], None], number: Callable[[float], str]) -> None:
    if isinstance(value, str):
        write_text(_quote(value))
    elif value is True or value is False or value is None:
        write_text({True: "true", False: "false", None: "null"}[value])
    elif isinstance(value, int):
        write_text(str(value))
    elif isinstance(value, float):
        write_text(number(value))
    elif is_object(value):
        members: dict[str, Any] = value
        write_text("{")
        order = None if "".join(members).isascii() else _utf16  # the same order, and the key takes longer
        for at, name in enumerate(sorted(members, key=order)):
            write_text(("," if at else "") + _quote(name) + ":")
            _write(members[name], write_text, number)
        write_text("}")
    else:
        write_text("[")
        for at, item in enumerate(value):
            if at:
                write_text(",")
            _write(item, write_text, number)
        write_text("]")


def _utf16(name: str) -> bytes:
    return name.encode("utf-16-be", "surrogatepass")


def _digits(value: float) -> str:
    return str(int(value)) if value == int(value) else _number(value)


def _number(value: float) -> str:
    """A double the way ECMAScript prints it: the shortest digits that read back, plain between 1e-7 and 1e21."""
    if value == 0:
        return "0"
    if value == int(value) and abs(value) <= _SAFE:
        return str(int(value))
    mantissa, _, exponent = repr(abs(value)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    if fraction == "0":
        fraction = ""
    digits = (whole + fraction).lstrip("0")
    point = len(whole) + int(exponent or 0) - (len(whole + fraction) - len(digits))
    digits = digits.rstrip("0")
    sign = "-" if value < 0 else ""
    if 0 < point <= 21:
        digits = digits.ljust(point, "0")
        return sign + digits[:point] + ("." + digits[point:] if digits[point:] else "")
    if -6 < point <= 0:
        return sign + "0." + "0" * -point + digits
    power = point - 1
    head = digits[0] + ("." + digits[1:] if digits[1:] else "")
    return f"{sign}{head}e{'+' if power > 0 else ''}{power}"


# JSON with sorted members and without spaces. A large text is processed in parts, so that other threads get the
# GIL in between.

CHUNK = 256 * 1024  # bytes decoded in one call
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
        for at, part in enumerate(_parts_of(text, chunk)):
            if at:
                write(b",")
            if isinstance(part, list):
                write(_encode(_decode(b"[%b]" % b",".join(part)))[1:-1])
            else:
                sorted_json(bytes(part), write, chunk)
        write(b"]")
    else:
        write(_encode(_decode(text)))


def _parts_of(text: bytes, chunk: int) -> Iterator[msgspec.Raw | list[msgspec.Raw]]:
    """The items of a list: a large one alone, small ones together. One call for each of many would take long."""
    small: list[msgspec.Raw] = []
    size = 0
    for item in _items(text):
        if len(item) <= chunk:
            small.append(item)
            size += len(item)
        if small and (len(item) > chunk or size > chunk):
            yield small
            small, size = [], 0
        if len(item) > chunk:
            yield item
    if small:
        yield small
