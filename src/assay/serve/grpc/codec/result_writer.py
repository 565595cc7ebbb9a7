"""
Encodes the results of checks that all cases share: bytes that are the same in every case are written once per run.

The parts that differ come from the scorer: the result of each check, and the values at its paths. A case with more (a
check that failed with an error) is left to `ResultEncoder`, which writes the same bytes.
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

_CACHED, _CACHED_BYTES = 4_096, 1 << 20  # framings by lengths, and their bytes
_encode = msgspec.json.Encoder().encode
Framing = tuple[Any, ...]  # the length of a check's result, and the bytes before each of its values
Write = Callable[[ScoredParts, EncodedContext], bytes]


class CheckEncoder:
    """One check in every case: only its results and the arguments resolved from paths differ."""

    def __init__(self, bound: BoundCheck, value_indexes: Sequence[int], *, arguments: bool) -> None:
        shown = {
            name: {"value": bound.displayed_literals[name]}
            for name in bound.order
            if name in bound.displayed_literals
        }
        paths = {path.field.name: path.display_path for path in bound.paths}
        self._type, self._metadata = bound.checker.type, _encode(bound.metadata)
        self._paths = paths if arguments else {}
        literals = {name: one for name, one in shown.items() if name not in paths} if arguments else {}
        self._literals = packed.struct(decode(_encode(literals)))
        self._tag = b"\x22" if arguments else b""
        self.value_indexes = value_indexes if arguments else ()
        self.back = check_framing(self._type, "completed", b"{}", self._metadata)[1]
        self.cache: dict[tuple[Any, ...], Framing] = {}
        self._cached_bytes = 0

    def framing(self, key: tuple[Any, ...]) -> Framing:
        """The bytes that depend only on lengths: of the values, and of the end of the result."""
        results, *lengths, tail = key
        front = check_framing(self._type, "completed", results, self._metadata)[0]
        before = [
            self._argument_prefix(*path, long)
            for path, long in zip(self._paths.items(), lengths, strict=True)
        ]
        args = len(self._literals) + sum(map(len, before)) + sum(map(abs, lengths))
        front += self._tag and self._tag + varint(args)
        size = varint(len(front) + args + tail)
        first = b"".join((b"\x1a", size, front, self._literals, *before[:1]))
        self._cached_bytes += len(results) + len(first)
        if len(self.cache) >= _CACHED or self._cached_bytes > _CACHED_BYTES:
            self.cache.clear()
            self._cached_bytes = len(results) + len(first)
        total = 1 + len(size) + len(front) + args + tail
        framing = self.cache[key] = (total, first, *before[1:])
        return framing

    def _argument_prefix(self, name: str, path: Any, length: int) -> bytes:
        """The bytes before a text of `long` bytes; if `long` is negative, before another value of `-long` bytes."""
        value = packed.text(bytes(length)) if length >= 0 else bytes(-length)
        shown = b"" if path is UNSET else map_entry(b"jsonpath", packed.text(path.encode()))
        whole = map_entry(name.encode(), length_delimited(b"\x2a", shown + map_entry(b"value", value)))
        return whole[: len(whole) - abs(length)]


@memoize_on
def generate_encoder(scorer: Scorer, arguments: bool) -> Write:
    """
    Generate one function for all checks of a scorer. It writes a TestCaseResult, as a field of its EvaluationRunResult.
    """
    pairs = zip(scorer.checks, scorer.value_indexes, strict=True)
    made = [CheckEncoder(bound, takes, arguments=arguments) for bound, takes in pairs]
    tails = {
        encoder.back: f"tail{at}" for at, encoder in enumerate(made)
    }  # checks of one version have the same end
    end = counts(_all_completed(len(made)))
    scope: dict[str, Any] = {
        "size": varint,
        "short": packed.SHORT,
        "join": b"".join,
        "value": packed.value,
        "double": packed.double,
        "stamp": moment,
        "end": end,
    }
    scope |= {f"back_{tail}": back for back, tail in tails.items()}
    values = sorted({which for places in scorer.value_indexes for which in places})
    lines = [
        "values, found, when = told",
        "case, output, about = echo",
        f"[{', '.join(f'v{which}' for which in values)}] = values",
        f"[{', '.join(f'r{at}' for at in range(len(made)))}] = found",
        "said = stamp(when)",
    ]
    for back, tail in tails.items():
        lines += [
            f"long = len(about) + {len(back)}",
            f"{tail} = join((said, b'2', {_size('long')}, about, back_{tail}))",
            f"n_{tail} = len({tail})",
        ]
    for which in sorted({which for encoder in made for which in encoder.value_indexes}):
        lines.append(f"if type(v{which}) is str: v{which} = v{which}.encode(); n{which} = len(v{which})")
        lines.append(f"elif type(v{which}) is float: v{which} = b'\\x11' + double(v{which}); n{which} = -9")
        lines.append(f"else: v{which} = value(v{which}); n{which} = -len(v{which})")
    parts: list[str] = []
    for at, encoder in enumerate(made):
        scope |= {f"cache{at}": encoder.cache, f"framing{at}": encoder.framing}
        parts += _check_parts(at, encoder, tails[encoder.back], lines)
    lines += _join_source(parts, 3 + len(end), [f"m{at}" for at in range(len(made))])
    source = "\n    ".join(["def write(told, echo):", *lines])
    exec(source, scope)  # noqa: S102  # the source has only names of our own; values from requests are constants in the scope
    return scope["write"]


def _all_completed(count: int) -> TestCaseSummary:
    return TestCaseSummary(total_checks=count, completed_checks=count, error_checks=0, skipped_checks=0)


def _check_parts(index: int, encoder: CheckEncoder, tail: str, lines: list[str]) -> list[str]:
    """
    The names of the parts of one check's result. Adds to `lines` the code that computes them and their total length.
    """
    values = [f"v{which}" for which in encoder.value_indexes]
    before = [f"b{index}_{one}" for one in range(max(1, len(values)))]
    lines.append(f"key = (r{index}, {''.join(f'n{which}, ' for which in encoder.value_indexes)}n_{tail})")
    lines.append(f"m{index}, {', '.join(before)} = cache{index}.get(key) or framing{index}(key)")
    pairs = zip_longest(before, values)
    return [*(one for pair in pairs for one in pair if one is not None), tail]


def _size(name: str) -> str:
    """The code for the varint of a length; a short one is looked up here, because a call takes longer."""
    return f"(short[{name}] if {name} < {len(packed.SHORT)} else size({name}))"


def _join_source(parts: list[str], constant_size: int, lengths: list[str]) -> list[str]:
    """The code that joins status, context, checks and summary."""
    said = "b'2', body, b'\\x08\\x01\\x12', many, b'\\n', one, case, b'\\x12', two, output"
    return [
        "n_case = len(case); n_output = len(output)",
        f"one = {_size('n_case')}; two = {_size('n_output')}",
        "context = 2 + len(one) + n_case + len(two) + n_output",
        f"many = {_size('context')}",
        f"long = {' + '.join((str(constant_size), 'len(many)', 'context', *lengths))}",
        f"body = {_size('long')}",
        f"return join(({said}, {', '.join(parts)}, end))",
    ]


class RunEncoder:
    """The results of an inline run."""

    def __init__(self, scorer: Scorer, *, arguments: bool) -> None:
        self.generated = generate_encoder(scorer, arguments)
        self._fallback = ResultEncoder()

    def case(self, line: bytes, parts: ScoredParts | None, echo: EncodedContext) -> bytes:
        """
        The TestCaseResult of a line, as a field of its EvaluationRunResult: from its parts, or without them from the
        line itself.
        """
        return self._fallback.case(line, echo) if parts is None else self.generated(parts, echo)
