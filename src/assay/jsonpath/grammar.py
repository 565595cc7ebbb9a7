"""
Parses text into segments by the grammar and the well-typedness rules of RFC 9535 §2.1–§2.5 (§2.4.3 for functions).

Positions are exact and nesting is bounded.
"""

import json
import re
from types import EllipsisType
from typing import Any, Literal, NamedTuple

from assay.errors import MalformedPath
from assay.lazy_pattern import lazy_pattern

MAX_TEXT = 10_000  # characters of a path
MAX_NESTING = 32  # filters, parentheses and calls inside one another
MAX_INTEGER = 2**53 - 1  # I-JSON (RFC 9535 §2.1)

OBJECT: type[Any] = dict
ARRAY: type[Any] = list


class Segment(NamedTuple):
    selectors: "tuple[Selector, ...]"
    descend: bool = False
    tight: bool = (
        True  # no blanks inside the brackets: a singular query in a filter must have none (RFC 9535 §2.3.5.1)
    )

    @property
    def key(self) -> str | int | None:
        """The name or index of a segment that selects one child, else None."""
        first = self.selectors[0]
        alone = len(self.selectors) == 1 and not self.descend
        return first if alone and isinstance(first, str | int) else None


class Constant(NamedTuple):
    value: Any


class Subquery(NamedTuple):
    absolute: bool  # from `$`, else from `@`
    segments: tuple[Segment, ...]


class FunctionCall(NamedTuple):
    function: str
    arguments: "tuple[Operand, ...]"


class ComparisonTest(NamedTuple):
    left: "Operand"
    operator: str
    right: "Operand"


class Not(NamedTuple):
    test: "Test"


class Junction(NamedTuple):
    every: bool  # `&&`, else `||`
    tests: "tuple[Test, ...]"


class Filter(NamedTuple):
    test: "Test"


Operand = Constant | Subquery | FunctionCall
Test = Subquery | FunctionCall | ComparisonTest | Not | Junction
Selector = str | int | slice | EllipsisType | Filter  # `...` is the wildcard


class Signature(NamedTuple):
    """
    The parameter types of a function, `value` or `nodes`. A logical function is a test; others are compared (RFC 9535
    §2.4.1).
    """

    takes: tuple[Literal["value", "nodes"], ...]
    logical: bool = False


FUNCTIONS = {
    "length": Signature(("value",)),
    "count": Signature(("nodes",)),
    "value": Signature(("nodes",)),
    "match": Signature(("value", "value"), logical=True),
    "search": Signature(("value", "value"), logical=True),
}
CONSTANTS: dict[str, bool | None] = {"true": True, "false": False, "null": None}

_BLANKS = lazy_pattern(r"[ \t\n\r]*")
_NOT_IN_A_NAME = r"\x00-/:-@\[-\^`{-\x7f\ud800-\udfff"  # a negated class compiles 20x faster
_NAME = lazy_pattern(f"[^0-9{_NOT_IN_A_NAME}][^{_NOT_IN_A_NAME}]*")
_WORD = lazy_pattern(r"[a-z][a-z_0-9]*")
_INTEGER = lazy_pattern(r"0|-?[1-9][0-9]*")
_NUMBER = lazy_pattern(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_OPERATOR = lazy_pattern(r"[=!]=|[<>]=?")
_ESCAPE = (
    r"\\(?:[bfnrt/\\]|u(?:[0-9A-CEFa-cef][0-9A-Fa-f]{3}|[Dd][0-7][0-9A-Fa-f]{2}"
    r"|[Dd][89ABab][0-9A-Fa-f]{2}\\u[Dd][C-Fc-f][0-9A-Fa-f]{2}))"
)
_STRINGS = {
    quote: lazy_pattern(rf"(?:[^{quote}\\\x00-\x1f\ud800-\udfff]|\\{quote}|{_ESCAPE})*")
    for quote in ("'", '"')
}


def parse(text: str) -> tuple[Segment, ...]:
    """The segments of a query. Raises MalformedPath with the position of the error."""
    if len(text) > MAX_TEXT:
        raise MalformedPath(
            f"{text[:40]}…", MAX_TEXT, f"the path is too long; the limit is {MAX_TEXT} characters"
        )
    reader = _Reader(text)
    reader.expect("$")
    segments = reader.segments()
    if reader.at < len(text):
        raise reader.refusal("expected '.', '..', '[' or the end")
    return segments


class _Reader:
    """A recursive-descent parser. Each method reads one rule of the grammar at position `at`."""

    def __init__(self, text: str) -> None:
        self.text, self.at, self.nesting = text, 0, 0

    def refusal(self, message: str, position: int | None = None) -> MalformedPath:
        return MalformedPath(self.text, self.at if position is None else position, message)

    def accept(self, token: str) -> bool:
        found = self.text.startswith(token, self.at)
        if found:
            self.at += len(token)
        return found

    def expect(self, *tokens: str) -> str:
        for token in tokens:
            if self.accept(token):
                return token
        raise self.refusal(f"expected {' or '.join(map(repr, tokens))}")

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        found = pattern.match(self.text, self.at)
        if found:
            self.at = found.end()
        return found

    def blanks(self) -> bool:
        start = self.at
        self.match(_BLANKS)
        return self.at > start

    def after_blanks(self, *tokens: str) -> bool:
        """Read blanks and a token, or nothing: blanks without the token are not consumed."""
        start = self.at
        self.blanks()
        if any(self.accept(token) for token in tokens):
            return True
        self.at = start
        return False

    def nest(self, amount: int) -> None:
        self.nesting += amount
        if self.nesting > MAX_NESTING:
            raise self.refusal(f"nested more than {MAX_NESTING} deep")

    # segments and selectors

    def segments(self) -> tuple[Segment, ...]:
        found: list[Segment] = []
        while True:
            if self.after_blanks(".."):
                found.append(
                    self.bracket_segment(descend=True) if self.accept("[") else self.shorthand(descend=True)
                )
            elif self.after_blanks("."):
                found.append(self.shorthand(descend=False))
            elif self.after_blanks("["):
                found.append(self.bracket_segment(descend=False))
            else:
                return tuple(found)

    def shorthand(self, *, descend: bool) -> Segment:
        if self.accept("*"):
            return Segment((...,), descend)
        if name := self.match(_NAME):
            return Segment((name[0],), descend)
        raise self.refusal("expected a name or '*'")

    def bracket_segment(self, *, descend: bool) -> Segment:
        selectors: list[Selector] = []
        loose = False
        while True:
            loose |= self.blanks()
            selectors.append(self.selector())
            loose |= self.blanks()
            if self.expect(",", "]") == "]":
                return Segment(tuple(selectors), descend, not loose)

    def selector(self) -> Selector:
        if self.accept("*"):
            return ...
        if self.accept("?"):
            self.nest(+1)
            self.blanks()
            test = self.disjunction()
            self.nest(-1)
            return Filter(test)
        name = self.string()
        return self.index_or_slice() if name is None else name

    def index_or_slice(self) -> int | slice:
        start = self.integer()
        if not self.after_blanks(":"):
            if start is None:
                raise self.refusal("expected a quoted name, an index, a slice, '*' or '?'")
            return start
        self.blanks()
        stop = self.integer()
        step = None
        if self.after_blanks(":"):
            self.blanks()
            step = self.integer()
        return slice(start, stop, step)

    def integer(self) -> int | None:
        start = self.at
        digits = self.match(_INTEGER)
        if digits is None:
            return None
        if len(digits[0]) > len(str(-MAX_INTEGER)) or abs(int(digits[0])) > MAX_INTEGER:
            raise self.refusal("an index must be within ±(2^53-1)", start)
        return int(digits[0])

    def string(self) -> str | None:
        quote = self.text[self.at : self.at + 1]
        if quote not in _STRINGS:
            return None
        start = self.at
        self.at += 1
        body = self.match(_STRINGS[quote])
        if body is None or not self.accept(quote):
            ended = self.at == len(self.text)
            raise (
                self.refusal("the string is not closed", start)
                if ended
                else self.refusal("not allowed in a string")
            )
        if quote == "'":
            return json.loads(f'"{_requote(body[0])}"')
        return json.loads(f'"{body[0]}"')

    # filters

    def disjunction(self) -> Test:
        tests = [self.conjunction()]
        while self.after_blanks("||"):
            self.blanks()
            tests.append(self.conjunction())
        return tests[0] if len(tests) == 1 else Junction(False, tuple(tests))

    def conjunction(self) -> Test:
        tests = [self.basic()]
        while self.after_blanks("&&"):
            self.blanks()
            tests.append(self.basic())
        return tests[0] if len(tests) == 1 else Junction(True, tuple(tests))

    def basic(self) -> Test:
        negated = self.accept("!")
        if negated:
            self.blanks()
        test = self.group() if self.accept("(") else self.comparison_or_test(negated=negated)
        return Not(test) if negated else test

    def group(self) -> Test:
        self.nest(+1)
        self.blanks()
        test = self.disjunction()
        self.blanks()
        self.expect(")")
        self.nest(-1)
        return test

    def comparison_or_test(self, *, negated: bool) -> Test:
        start = self.at
        left = self.operand()
        end = self.at
        self.blanks()
        operator = None if negated else self.match(_OPERATOR)  # `!` binds to a test, never to a comparison
        if operator is None:
            self.at = end
            if isinstance(left, Constant) or (
                isinstance(left, FunctionCall) and not FUNCTIONS[left.function].logical
            ):
                raise self.refusal("must be compared with something", start)
            return left
        self.value(left, start)
        self.blanks()
        start = self.at
        right = self.value(self.operand(), start)
        return ComparisonTest(left, operator[0], right)

    def operand(self) -> Operand:
        if self.accept("@"):
            return Subquery(False, self.segments())
        if self.accept("$"):
            return Subquery(True, self.segments())
        text = self.string()
        if text is not None:
            return Constant(text)
        if number := self.match(_NUMBER):
            exact = not (number[1] or number[2]) and len(number[0]) < 300
            return Constant(int(number[0]) if exact else float(number[0]))
        start = self.at
        word = self.match(_WORD)
        if word and self.accept("("):
            return self.call(word[0], start)
        if word and word[0] in CONSTANTS:
            return Constant(CONSTANTS[word[0]])
        raise self.refusal("expected a query, a literal or a function", start)

    def call(self, function: str, start: int) -> FunctionCall:
        if function not in FUNCTIONS:
            raise self.refusal(
                f"unknown function {function!r}; the functions are {', '.join(sorted(FUNCTIONS))}", start
            )
        takes = FUNCTIONS[function].takes
        self.nest(+1)
        arguments: list[Operand] = []
        for number, kind in enumerate(takes):
            if number:
                self.blanks()
                self.expect(",")
            self.blanks()
            at = self.at
            operand = self.operand()
            arguments.append(self.value(operand, at) if kind == "value" else self.nodes(operand, at))
        self.blanks()
        self.expect(")")
        self.nest(-1)
        return FunctionCall(function, tuple(arguments))

    # well-typedness (RFC 9535 §2.4.3)

    def value(self, operand: Operand, at: int) -> Operand:
        match operand:
            case Subquery(_, segments) if any(each.key is None or not each.tight for each in segments):
                raise self.refusal("expected a query for one value (only names and indexes)", at)
            case FunctionCall(function) if FUNCTIONS[function].logical:
                raise self.refusal(f"{function}() is a test, not a value", at)
            case _:
                return operand

    def nodes(self, operand: Operand, at: int) -> Operand:
        if not isinstance(operand, Subquery):
            raise self.refusal("expected a query", at)
        return operand


def _requote(body: str) -> str:
    """Convert the body of a '…' string to the body of a "…" string."""
    return body.replace("\\'", "'").replace('"', '\\"')
