"""
Results of checks that all cases share, on the wire: what is the same in every case is written once a run.

Of a line only what differs is looked at: what a check found, and of its arguments those that a path led to. A line that has
more to it (a check that erred, an argument that is a list) is left to the plain form, which writes the same.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import groupby
from typing import Any

import msgspec
from msgspec import UNSET

from assay.checks.arguments import Bound
from assay.fep.sheet import Sheet
from assay.protocol.results import TestCaseSummary
from assay.serve.grpc import packed
from assay.serve.grpc.packed import entry, size, sized
from assay.serve.grpc.results import Echo, Writer, context_of, counts, decode, ends

_BEFORE = len(b'{"status":"completed","execution_context":')  # of a line, and then comes its context
_TEXT = rb'"[^"\\]*(?:\\.[^"\\]*)*"'
_SCALAR = rb'(%b|[^"\[{,}\]]+)' % _TEXT
_FLAT = (
    rb'(\{"passed":(?:true|false)\}|\{(?:"\w+":(?:%b|[^"\[{,}\]]+),?)*\})' % _TEXT
)  # what a check found, mostly
_KEPT = 4_096  # lengths whose surroundings are remembered
_encode = msgspec.json.Encoder().encode
Piece = bytes | str


class Column:
    """One check, in every case: what differs are its results, and the arguments that a path led to."""

    def __init__(self, bound: Bound, *, arguments: bool) -> None:
        shown = {name: {"value": bound.shown[name]} for name in bound.order if name in bound.shown}
        paths = {path.field.name: path.shown for path in bound.paths}
        self.type, self._metadata = bound.checker.type, _encode({"check_version": bound.checker.version})
        self._order = [name for name in bound.order if name in paths or name in shown] if arguments else []
        self._paths = {name: paths[name] for name in self._order if name in paths}
        self._literals = {name: shown[name] for name in self._order if name not in paths}
        self._packed = packed.struct(decode(_encode(self._literals)))
        self._tag = b"\x22" if arguments else b""
        self.back = ends(self.type, "completed", b"{}", self._metadata)[1]
        self.known: dict[tuple[Any, ...], tuple[bytes, ...]] = {}

    def around(self, key: tuple[Any, ...]) -> tuple[bytes, ...]:
        """What stands before each value and depends on nothing but lengths: of the values, and of what ends the result."""
        results, *lengths, tail = key
        front = ends(self.type, "completed", results, self._metadata)[0]
        before = [self._before(*path, long) for path, long in zip(self._paths.items(), lengths, strict=True)]
        args = len(self._packed) + sum(map(len, before)) + sum(map(abs, lengths))
        front += self._tag and self._tag + size(args)
        before = [self._packed, *before] if not before else [self._packed + before[0], *before[1:]]
        first = b"".join((b"\x1a", size(len(front) + args + tail), front, before[0]))
        if len(self.known) >= _KEPT:
            self.known.clear()
        found = self.known[key] = (first, *before[1:])
        return found

    def _before(self, name: str, path: Any, long: int) -> bytes:
        """Of a text, so long; or of another value, so long below zero."""
        value = packed.text(bytes(long)) if long >= 0 else bytes(-long)
        shown = b"" if path is UNSET else entry(b"jsonpath", packed.text(path.encode()))
        whole = entry(name.encode(), sized(b"\x2a", shown + entry(b"value", value)))
        return whole[: len(whole) - abs(long)]

    def pieces(self, at: int) -> Iterator[Piece]:
        """Its result in a line: what is the same in every case, and the names of what is not."""
        yield b'{"check_type":' + _encode(self.type) + b',"status":"completed","results":'
        yield f"r{at}"
        if self._tag:
            yield b',"resolved_arguments":'
            for first, name in enumerate(self._order):
                yield (b"," if first else b"{") + _encode(name) + b":"
                yield from self._piece(name, at)
            yield b"}" if self._order else b"{}"
        yield b',"evaluated_at":"'
        yield "moment"
        yield b'","metadata":' + self._metadata + b"}"

    def _piece(self, name: str, at: int) -> Iterator[Piece]:
        if name in self._literals:
            yield _encode(self._literals[name])
            return
        path = self._paths[name]
        yield b'{"value":' if path is UNSET else b'{"jsonpath":' + _encode(path) + b',"value":'
        yield self.names(at)[[*self._paths].index(name)]
        yield b"}"

    def names(self, at: int) -> list[str]:
        """Of its values."""
        return [f"v{at}_{one}" for one in range(len(self._paths))]


Write = Callable[[Sequence[bytes], bytes, Callable[[bytes], bytes], bytes], list[bytes] | None]


@lru_cache(maxsize=64)
def together(sheet: Sheet, arguments: bool) -> tuple[re.Pattern[bytes], Write, bytes]:
    """What finds in a line what differs, what writes it, and how each result ends."""
    made = [Column(bound, arguments=arguments) for bound in sheet.bounds]
    many = len(made)
    summary = TestCaseSummary(total_checks=many, completed_checks=many, error_checks=0, skipped_checks=0)
    pieces: list[Piece] = [b',"check_results":[']
    for at, column in enumerate(made):
        pieces += [*([b","] if at else []), *column.pieces(at)]
    pieces = _merged([*pieces, b'],"summary":' + _encode(summary) + b"}"])
    return _pattern(pieces), _written(made, pieces), counts(summary)


def _merged(pieces: list[Piece]) -> list[Piece]:
    """With all that is the same in one piece, between what is not."""
    groups = groupby(pieces, key=lambda piece: isinstance(piece, bytes))
    return [
        piece
        for same, some in groups
        for piece in ([b"".join(one for one in some if isinstance(one, bytes))] if same else some)
    ]


def _pattern(pieces: list[Piece]) -> re.Pattern[bytes]:
    """Of what is the same only the length: that it is the same is said more quickly afterwards."""
    form, told = b"", False
    for piece in pieces:
        if isinstance(piece, bytes):
            form += b".{%d}" % len(piece)
        elif piece == "moment":
            form += b"(?P=moment)" if told else b'(?P<moment>[^"]+)'
            told = True
        else:
            form += _FLAT if piece[0] == "r" else _SCALAR
    return re.compile(form, re.DOTALL)


def _written(made: list[Column], pieces: list[Piece]) -> Write:
    """One function for all of them, as the sheet has one that scores: the parts of a result, or None if the line is another."""
    scope: dict[str, Any] = {"size": size, "join": b"".join, "other": _other}
    scope |= {f"same{at}": piece for at, piece in enumerate(pieces)}
    names = dict.fromkeys(piece for piece in pieces if isinstance(piece, str))
    whole = ", ".join(f"same{at}" if isinstance(one, bytes) else one for at, one in enumerate(pieces))
    lines = [
        f"[{', '.join(names)}] = found",
        f"if join(({whole},)) != line: return None",
        "said = stamp(moment)",
        "parts = []",
    ]
    for at, column in enumerate(made):
        values = column.names(at)
        scope |= {f"known{at}": column.known, f"around{at}": column.around, f"back{at}": column.back}
        lines.append(f"tail = join((said, b'2', size(len(about) + len(back{at})), about, back{at}))")
        for name in values:  # a text that is written as it is, or anything
            plain = f"{name} = {name}[1:-1]; n{name} = len({name})"
            lines.append(f"if {name}[0] == 34 and b'\\\\' not in {name}: {plain}")
            lines.append(f"else: {name} = other({name}); n{name} = -len({name})")
        lines.append(f"key = (r{at}, {''.join(f'n{name}, ' for name in values)}len(tail))")
        lines.append(f"before = known{at}.get(key) or around{at}(key)")
        given = "".join(f"before[{one}], {name}, " for one, name in enumerate(values)) or "before[0], "
        lines.append(f"parts += ({given}tail)")
    source = "\n    ".join(["def write(found, line, stamp, about):", *lines, "return parts"])
    exec(source, scope)  # noqa: S102  # made of names of our own; what came in is in constants
    return scope["write"]


def _other(raw: bytes) -> bytes:
    return packed.value(decode(raw))


class Together:
    """The results of one run whose request is at hand."""

    def __init__(self, sheet: Sheet, *, arguments: bool) -> None:
        pattern, self._write, self._end = together(sheet, arguments)
        self._find = pattern.fullmatch
        self._plain = Writer()

    def case(self, line: bytes, long: int, echo: Echo) -> bytes:
        """The TestCaseResult of a line whose context has so many bytes, as a field of its EvaluationRunResult."""
        return self.quickly(line, long, echo) or self._plain.case(line, echo)

    def quickly(self, line: bytes, long: int, echo: Echo) -> bytes | None:
        """The same, or nothing, if there is more to this line."""
        rest = line[_BEFORE + long :]
        found = self._find(rest)
        if (
            found is None
            or (parts := self._write(found.groups(), rest, self._plain.moment, echo.about)) is None
        ):
            return None
        context = context_of(echo)
        body = size(2 + len(context) + sum(map(len, parts)) + len(self._end))
        return b"".join((b"\x32", body, b"\x08\x01", context, *parts, self._end))
