"""Smaller pictures: a PNG of a browser, written again with a palette of at most 256 colours."""

import struct
import zlib
from collections import Counter

HEAD = b"\x89PNG\r\n\x1a\n"


def shrink(data: bytes) -> bytes:
    """The same picture with a palette. `data` has 8 bits for each of red, green and blue, as Chromium writes it."""
    width, height, rows = _rows(data)
    pixels = [[row[at : at + 3] for at in range(0, len(row), 3)] for row in rows]
    counts = Counter(colour for line in pixels for colour in line)
    palette = [colour for colour, _ in counts.most_common(256)]
    index = {colour: _nearest(colour, palette) for colour in counts}
    lines = b"".join(b"\x00" + bytes([index[colour] for colour in line]) for line in pixels)
    header = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    parts = [
        (b"IHDR", header),
        (b"PLTE", b"".join(palette)),
        (b"IDAT", zlib.compress(lines, 9)),
        (b"IEND", b""),
    ]
    return HEAD + b"".join(_chunk(kind, content) for kind, content in parts)


def size_of(data: bytes) -> tuple[int, int]:
    """Width and height of a PNG."""
    width, height = struct.unpack(">II", data[16:24])
    return width, height


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def _nearest(colour: bytes, palette: list[bytes]) -> int:
    distances = (sum((a - b) ** 2 for a, b in zip(colour, one, strict=True)) for one in palette)
    return min(enumerate(distances), key=lambda pair: pair[1])[0]


def _rows(data: bytes) -> tuple[int, int, list[bytes]]:
    """The rows of a PNG of red, green and blue."""
    width, height, depth, kind, _, _, interlaced = struct.unpack(">IIBBBBB", data[16:29])
    assert (depth, kind, interlaced) == (8, 2, 0), "expected 8 bits of red, green and blue"
    packed, at = b"", 8
    while at < len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        if data[at + 4 : at + 8] == b"IDAT":
            packed += data[at + 8 : at + 8 + length]
        at += 12 + length
    plain, size = zlib.decompress(packed), 3 * width
    rows: list[bytes] = []
    above = bytes(size)
    for start in range(0, len(plain), size + 1):
        above = _without_filter(plain[start], bytearray(plain[start + 1 : start + 1 + size]), above)
        rows.append(above)
    return width, height, rows


def _without_filter(kind: int, row: bytearray, above: bytes) -> bytes:
    if kind == 2:
        return bytes((a + b) & 255 for a, b in zip(row, above, strict=True))
    for at in range(len(row)) if kind else ():
        left, up, corner = (row[at - 3], above[at], above[at - 3]) if at > 2 else (0, above[at], 0)
        guess = left if kind == 1 else (left + up) // 2 if kind == 3 else _paeth(left, up, corner)
        row[at] = (row[at] + guess) & 255
    return bytes(row)


def _paeth(left: int, up: int, corner: int) -> int:
    a, b, c = abs(up - corner), abs(left - corner), abs(left + up - 2 * corner)
    return left if a <= b and a <= c else up if b <= c else corner
