"""
Reads a text through the encodings that hide a string from a plain search: base64, hexadecimal, URL and HTML escapes.

A skeleton keeps letters and digits only. It folds case, compatibility forms, homoglyphs and leetspeak, and drops
spaces, punctuation and invisible characters. All work is linear in the text.
"""

import html
import re
import unicodedata
from base64 import b64decode
from collections.abc import Iterator
from functools import cache
from typing import Final

MIN_RUN = 40  # letters of a run that is decoded
_CACHE = 70_000  # characters whose skeleton is stored
_HEX_MARKS = re.compile(r"\\x|0x")

_HOMOGLYPHS: Final = dict(
    zip(
        "аɑαаɡсϲеёіїıɩјӏⅼοоσрρѕтυѵνхχуγһнкκмпввβзԁɗԛʏɴʀᴀᴄᴇᴋᴍᴏᴘᴛᴜᴠᴢʙꜰɢʜɪᴊʟꜱᴡᴅ",
        "aaaagcceeiiiijllooopps" + "tuvvxxyyhhkkmnbbb3ddqynracekmoptuvzbfghijlswd",
        strict=True,
    )
) | {"ß": "b", "ø": "o", "ð": "d", "đ": "d", "ł": "l"}  # fmt: skip
_LEET: Final = {
    "4": "a", "@": "a", "3": "e", "€": "e", "1": "i", "!": "i", "|": "i", "l": "i", "0": "o", "5": "s", "$": "s", "7": "t", "8": "b", "9": "g", "q": "g",
    "2": "z", "6": "b",
}  # fmt: skip


INVISIBLE: Final = dict.fromkeys(map(ord, "\u00ad\u180e\u200b\u200c\u200d\u2060\u2061\u2062\u2063\ufeff"))


class _Folds(dict[int, str]):
    """A table for str.translate: each character becomes one letter or digit, or disappears."""

    def __missing__(self, code: int) -> str:
        fold = _fold(chr(code))
        if len(self) < _CACHE:
            self[code] = fold
        return fold


def _fold(character: str) -> str:
    if character in _LEET:
        return _LEET[character]
    if 0xE0020 <= ord(character) <= 0xE007E:  # tags: invisible copies of ASCII
        character = chr(ord(character) - 0xE0000)
    plain = unicodedata.normalize("NFKD", character)[:1].lower()[:1]
    plain = _HOMOGLYPHS.get(plain, plain)
    plain = _LEET.get(plain, plain)
    return plain if plain.isalnum() else ""


_FOLDS: Final = _Folds()


def skeleton(text: str) -> str:
    """The letters and digits of a text, folded."""
    return text.translate(_FOLDS)


def origin(text: str, start: int, end: int) -> tuple[int, int]:
    """The span of the text whose skeleton has the span from `start` to `end`."""
    places = [at for at, character in enumerate(text) if skeleton(character)]
    return places[start], places[end - 1] + 1


def shift(text: str, by: int) -> str:
    """Each letter of ASCII moved by a number of places in the alphabet."""
    return text.translate({**_alphabet("a", by), **_alphabet("A", by)})


def _alphabet(first: str, by: int) -> dict[int, str]:
    return {ord(first) + at: chr(ord(first) + (at + by) % 26) for at in range(26)}


def unescape(text: str) -> str:
    """The text without URL, HTML and Unicode escapes; two layers of them."""
    for _ in range(2):
        decoded = _percent().sub(_bytes, text) if "%" in text else text
        decoded = html.unescape(decoded) if "&" in decoded else decoded
        decoded = _escape().sub(_character, decoded) if "\\" in decoded else decoded
        if decoded == text:
            break
        text = decoded
    return text


def dense(text: str) -> str:
    """The text without white space and invisible characters, with the letters of standard base64."""
    return "".join(text.translate(INVISIBLE).split()).replace("-", "+").replace("_", "/")


def readings(text: str) -> Iterator[tuple[str, str]]:
    """
    What the long encoded runs of a text decode to, each with the name of the transform. The text itself comes first.
    """
    yield text, ""
    plain = unescape(text)
    if plain != text:
        yield plain, "url"
    packed = dense(plain)
    for base, name in ((packed, "base64"), (packed[::-1], "reversal+base64")):
        runs = [match.group() for match in _base64_run().finditer(base)]
        for offset in range(4 if runs else 0):
            yield "\n".join(_from_base64(run[offset:]) for run in runs), name
    digits = "".join(_hex_run().findall(_HEX_MARKS.sub("", plain)))
    if digits:
        pairs = re.sub(r"[^0-9A-Fa-f]", "", digits)
        for offset in (0, 1):
            even = len(pairs) - (len(pairs) - offset) % 2
            yield _text(bytes.fromhex(pairs[offset:even])), "hex"


def _from_base64(run: str) -> str:
    part = run[: len(run) - (1 if len(run) % 4 == 1 else 0)]
    return _text(b64decode(part + "=" * (-len(part) % 4)))


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode("latin-1")


def _character(match: re.Match[str]) -> str:
    return chr(min(int(match[1] or match[2], 16), 0x10FFFF))


def _bytes(match: re.Match[str]) -> str:
    return _text(bytes.fromhex(match.group().replace("%", "")))


@cache
def _percent() -> re.Pattern[str]:
    return re.compile(r"(?:%[0-9A-Fa-f]{2})+")


@cache
def _escape() -> re.Pattern[str]:
    return re.compile(r"\\u\{?([0-9A-Fa-f]{4,5})\}?|\\x([0-9A-Fa-f]{2})")


@cache
def _base64_run() -> re.Pattern[str]:
    return re.compile(rf"[A-Za-z0-9+/]{{{MIN_RUN},}}")


@cache
def _hex_run() -> re.Pattern[str]:
    return re.compile(rf"(?:[0-9A-Fa-f]{{2}}[ \t\r\n:,;_-]{{0,2}}){{{MIN_RUN},}}")
