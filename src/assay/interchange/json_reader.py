"""Reads a JSON document member by member, so that a long list in it is not held in memory."""

import codecs
import json
from collections.abc import Collection, Iterator
from typing import IO, Any

import msgspec

from assay.errors import BadLine, Problem
from assay.inputs.context import not_json, too_long
from assay.ports import Limits

Path = tuple[str | int, ...]
BLOCK = 1 << 16
_SPACE = " \t\n\r"
_scan = json.JSONDecoder().raw_decode
_NUMBER = "+-.0123456789eE"
_AHEAD = 32  # characters after which a number that goes on is one


def _may_go_on(text: str, end: int) -> bool:
    """Whether a value at the end of what was read could be the beginning of a longer number."""
    return end == len(text) or (text[end] in _NUMBER and end + _AHEAD > len(text))


class JsonReader:
    """
    Yields the members of an object with their paths: the items of the lists in `lists` one by one, and every other
    member whole.
    """

    def __init__(self, file: IO[bytes], name: str, limits: Limits, lists: Collection[Path]) -> None:
        self._file, self._name, self._limits = file, name, limits
        self._lists = frozenset(lists)
        self._inner = {one[:at] for one in lists for at in range(1, len(one))}
        self._decode = codecs.getincrementaldecoder("utf-8-sig")().decode
        self._text, self._at, self._line, self._ended = "", 0, 1, False

    def members(self) -> Iterator[tuple[Path, Any]]:
        """Raises BadLine with the number of the line for a document that is no object."""
        if self._peek() != "{":
            raise self._bad(f"expected an object, got {self._text[self._at : self._at + 20]!r}")
        yield from self._object(())
        if self._peek():
            raise self._bad("expected one document, got text after it")

    def _object(self, path: Path) -> Iterator[tuple[Path, Any]]:
        self._take("{")
        seen: set[str] = set()
        while self._peek() != "}":
            key = self._value()
            if not isinstance(key, str):
                raise self._bad("expected the name of a member")
            if key in seen:
                raise self._bad(f"the member {key[:40]!r} is there twice")
            seen.add(key)
            self._take(":")
            here = (*path, key)
            opening = self._peek()
            if here in self._lists and opening == "[":
                yield from self._list(here)
            elif here in self._inner and opening == "{":
                yield from self._object(here)
            else:
                yield here, self._value()
            if self._peek() == ",":
                self._take(",")
                if self._peek() == "}":
                    raise self._bad("expected a member after the comma")
            elif self._peek() != "}":
                raise self._bad("expected a comma or the end of an object")
        self._take("}")

    def _list(self, path: Path) -> Iterator[tuple[Path, Any]]:
        self._take("[")
        number = 0
        while self._peek() != "]":
            yield (*path, number), self._value()
            number += 1
            if self._peek() == ",":
                self._take(",")
                if self._peek() == "]":
                    raise self._bad("expected an item after the comma")
            elif self._peek() != "]":
                raise self._bad("expected a comma or the end of a list")
        self._take("]")

    def _value(self) -> Any:
        """The next value, with as much of the file as it needs."""
        self._peek()
        wanted = BLOCK
        while True:
            try:
                _, end = _scan(self._text, self._at)
                if self._ended or not _may_go_on(self._text, end):
                    break
            except RecursionError:
                raise self._bad("expected a value that is not nested so deeply") from None
            except ValueError as wrong:
                if self._ended:
                    raise self._bad(f"not JSON: {wrong}") from None
            if len(self._text) - self._at > self._limits.max_line_bytes:
                raise self._bad(too_long(self._limits))
            self._fill(wanted)
            wanted *= 2
        raw = self._text[self._at : end].encode(errors="surrogatepass")
        try:
            value = msgspec.json.decode(raw)
        except RecursionError:
            raise self._bad("expected a value that is not nested so deeply") from None
        except (msgspec.DecodeError, UnicodeDecodeError) as wrong:
            raise self._bad(not_json(raw, wrong)) from None
        self._line += self._text.count("\n", self._at, end)
        self._at = end
        return value

    def _peek(self) -> str:
        """The next character that is no space, or nothing at the end of the file."""
        while True:
            while self._at < len(self._text):
                character = self._text[self._at]
                if character not in _SPACE:
                    return character
                self._line += character == "\n"
                self._at += 1
            if self._ended:
                return ""
            self._fill(BLOCK)

    def _take(self, character: str) -> None:
        if self._peek() != character:
            raise self._bad(f"expected {character!r}, got {self._text[self._at : self._at + 20]!r}")
        self._at += 1

    def _fill(self, size: int) -> None:
        data = self._file.read(size)
        self._ended = not data
        try:
            text = self._decode(data, final=self._ended)
        except UnicodeDecodeError:
            raise BadLine(self._name, [Problem("", "not UTF-8")]) from None
        self._text, self._at = self._text[self._at :] + text, 0

    def _bad(self, message: str) -> BadLine:
        return BadLine(f"{self._name}:{self._line}", [Problem("", message)])
