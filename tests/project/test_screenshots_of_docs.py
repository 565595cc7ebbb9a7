"""The pictures in the docs: each that a page names exists, each is named, is small, and is as wide as its name says."""

import re
import struct
import zlib
from pathlib import Path

from support.page.png import shrink, size_of

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs/screenshots"
SCREENS = (
    "Sign in",
    "Runs",
    "Over time",
    "A run",
    "Compare",
    "Approvals",
    "Try it",
    "Static report",
    "REST API",
)


def test_docs_and_pictures_agree():
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    named = {
        (page.parent / target).resolve()
        for page in pages
        for target in re.findall(r"!\[[^\]]+\]\(([^)\s]+)\)", page.read_text("utf-8"))
    }
    pictures = {path.resolve() for path in FOLDER.iterdir()}
    assert named == pictures
    for path in pictures:
        data = path.read_bytes()
        assert len(data) < 120_000, path.name
        assert str(size_of(data)[0]) == path.stem.split("-")[-2], path.name


def test_each_screen_has_a_picture():
    sections = re.split(r"^## ", (ROOT / "docs/page.md").read_text("utf-8"), flags=re.MULTILINE)
    shown = {part.splitlines()[0] for part in sections if "](screenshots/" in part}
    assert shown >= set(SCREENS)


def test_a_picture_with_a_palette_stays_the_same_picture():
    rows = [bytes([0, 10, 20, 30, 255, 255, 255]), bytes([2, 1, 1, 1, 0, 0, 0]), bytes([4, 9, 9, 9, 5, 5, 5])]
    rows += [bytes([1, 7, 7, 7, 1, 1, 1]), bytes([3, 2, 2, 2, 4, 4, 4])]

    def chunk(kind, content):
        return (
            struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
        )

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", 2, 5, 8, 2, 0, 0, 0))
    data = b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(b"".join(rows))) + chunk(b"IEND", b"")
    small = shrink(data)
    assert size_of(small) == (2, 5)
    palette = small[small.index(b"PLTE") + 4 :]
    start = small.index(b"IDAT")
    (length,) = struct.unpack(">I", small[start - 4 : start])
    lines = zlib.decompress(small[start + 4 : start + 4 + length])
    pixels = [palette[3 * at : 3 * at + 3] for y in range(5) for at in lines[3 * y + 1 : 3 * y + 3]]
    assert [tuple(pixel) for pixel in pixels] == [
        (10, 20, 30), (255, 255, 255),
        (11, 21, 31), (255, 255, 255),
        (20, 30, 40), (4, 4, 4),
        (7, 7, 7), (8, 8, 8),
        (5, 5, 5), (10, 10, 10),
    ]  # fmt: skip
