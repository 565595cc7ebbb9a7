"""
Results of checks that all cases share, on the wire: what is the same in every case is written once a run.

What differs comes from the form of the sheet that scores: what a check found, and what its paths led to. A case that has more
to it (a check that erred) is left to the plain form, which writes the same.
"""

from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import Any

import msgspec
from msgspec import UNSET

from assay.checks.arguments import BoundCheck
from assay.fep.scorer import Scorer
from assay.fep.scorer_source import ScoredParts
from assay.protocol.cache import memoize_on
from assay.protocol.results import TestCaseSummary
from assay.serve.grpc.codec import encode as packed
from assay.serve.grpc.codec.encode import length_delimited, map_entry, varint
from assay.serve.grpc.codec.results import (
    EncodedContext,
    ResultEncoder,
    check_framing,
    counts,
    decode,
    moment,
)

_KEPT, _HELD = 4_096, 1 << 20  # lengths whose surroundings are remembered, and the bytes of those
_encode = msgspec.json.Encoder().encode
Around = tuple[Any, ...]  # how long a check's result is in all, and what stands before each of its values
Write = Callable[[ScoredParts, EncodedContext], bytes]


class CheckEncoder:
    """One check, in every case: what differs are its results, and the arguments that a path led to."""

    def __init__(self, bound: BoundCheck, takes: Sequence[int], *, arguments: bool) -> None:
        shown = {
            name: {"value": bound.displayed_literals[name]}
            for name in bound.order
            if name in bound.displayed_literals
        }
        paths = {path.field.name: path.displayed_path for path in bound.paths}
        self._type, self._metadata = bound.checker.type, _encode({"check_version": bound.checker.version})
        self._paths = paths if arguments else {}
        literals = {name: one for name, one in shown.items() if name not in paths} if arguments else {}
        self._literals = packed.struct(decode(_encode(literals)))
        self._tag = b"\x22" if arguments else b""
        self.takes = takes if arguments else ()
        self.back = check_framing(self._type, "completed", b"{}", self._metadata)[1]
        self.known: dict[tuple[Any, ...], Around] = {}
        self._held = 0

    def around(self, key: tuple[Any, ...]) -> Around:
        """What depends on nothing but lengths: of the values, and of what ends the result."""
        results, *lengths, tail = key
        front = check_framing(self._type, "completed", results, self._metadata)[0]
        before = [self._before(*path, long) for path, long in zip(self._paths.items(), lengths, strict=True)]
        args = len(self._literals) + sum(map(len, before)) + sum(map(abs, lengths))
        front += self._tag and self._tag + varint(args)
        many = varint(len(front) + args + tail)
        first = b"".join((b"\x1a", many, front, self._literals, *before[:1]))
        self._held += len(results) + len(first)
        if len(self.known) >= _KEPT or self._held > _HELD:
            self.known.clear()
            self._held = len(results) + len(first)
        all = 1 + len(many) + len(front) + args + tail
        found = self.known[key] = (all, first, *before[1:])
        return found

    def _before(self, name: str, path: Any, long: int) -> bytes:
        """Of a text, so long; or of another value, so long below zero."""
        value = packed.text(bytes(long)) if long >= 0 else bytes(-long)
        shown = b"" if path is UNSET else map_entry(b"jsonpath", packed.text(path.encode()))
        whole = map_entry(name.encode(), length_delimited(b"\x2a", shown + map_entry(b"value", value)))
        return whole[: len(whole) - abs(long)]


@memoize_on
def generate_encoder(sheet: Scorer, arguments: bool) -> Write:
    """One function for all of them, as the sheet has one that scores: a TestCaseResult, as a field of its EvaluationRunResult."""
    pairs = zip(sheet.bounds, sheet.takes, strict=True)
    made = [CheckEncoder(bound, takes, arguments=arguments) for bound, takes in pairs]
    tails = {column.back: f"tail{at}" for at, column in enumerate(made)}  # checks of one version end alike
    end = counts(_all_completed(len(made)))
    scope: dict[str, Any] = {
        "size": varint,
        "join": b"".join,
        "value": packed.value,
        "stamp": moment,
        "end": end,
    }
    scope |= {f"back_{tail}": back for back, tail in tails.items()}
    values = sorted({which for places in sheet.takes for which in places})
    lines = [
        "values, found, when = told",
        "case, output, about = echo",
        f"[{', '.join(f'v{which}' for which in values)}] = values",
        f"[{', '.join(f'r{at}' for at in range(len(made)))}] = found",
        "said = stamp(when)",
    ]
    for back, tail in tails.items():
        lines.append(f"{tail} = join((said, b'2', size(len(about) + {len(back)}), about, back_{tail}))")
    for which in sorted({which for column in made for which in column.takes}):
        lines.append(f"if type(v{which}) is str: v{which} = v{which}.encode(); n{which} = len(v{which})")
        lines.append(f"else: v{which} = value(v{which}); n{which} = -len(v{which})")
    parts: list[str] = []
    for at, column in enumerate(made):
        scope |= {f"known{at}": column.known, f"around{at}": column.around}
        parts += _column(at, column, tails[column.back], lines)
    lines += _whole(parts, 3 + len(end), [f"m{at}" for at in range(len(made))])
    source = "\n    ".join(["def write(told, echo):", *lines])
    exec(source, scope)  # noqa: S102  # made of names of our own; what came in is in constants
    return scope["write"]


def _all_completed(many: int) -> TestCaseSummary:
    return TestCaseSummary(total_checks=many, completed_checks=many, error_checks=0, skipped_checks=0)


def _column(at: int, column: CheckEncoder, tail: str, lines: list[str]) -> list[str]:
    """The parts of one check's result by their names; in `lines` goes what finds them, and how long they are in all."""
    values = [f"v{which}" for which in column.takes]
    before = [f"b{at}_{one}" for one in range(max(1, len(values)))]
    lines.append(f"key = (r{at}, {''.join(f'n{which}, ' for which in column.takes)}len({tail}))")
    lines.append(f"m{at}, {', '.join(before)} = known{at}.get(key) or around{at}(key)")
    pairs = zip_longest(before, values)
    return [*(one for pair in pairs for one in pair if one is not None), tail]


def _whole(parts: list[str], fixed: int, lengths: list[str]) -> list[str]:
    """Status, context, checks and summary."""
    said = "b'2', body, b'\\x08\\x01\\x12', many, b'\\n', one, case, b'\\x12', two, output"
    return [
        "one = size(len(case)); two = size(len(output))",
        "context = 2 + len(one) + len(case) + len(two) + len(output)",
        "many = size(context)",
        f"body = size({' + '.join((str(fixed), 'len(many)', 'context', *lengths))})",
        f"return join(({said}, {', '.join(parts)}, end))",
    ]


class RunEncoder:
    """The results of one run whose request is at hand."""

    def __init__(self, sheet: Scorer, *, arguments: bool) -> None:
        self.quickly = generate_encoder(sheet, arguments)
        self._plain = ResultEncoder()

    def case(self, line: bytes, told: ScoredParts | None, echo: EncodedContext) -> bytes:
        """The TestCaseResult of a line, as a field of its EvaluationRunResult; of what it was made, or where that is not known, of itself."""
        return self._plain.case(line, echo) if told is None else self.quickly(told, echo)
