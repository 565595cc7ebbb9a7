"""
Arithmetic over named numbers, as a small parser of our own: `0.8 * exact + 0.2 * max(near.score, far)`.

There are + - * / ^, parentheses, numbers, names, and the functions of `FUNCTIONS`. Nothing else can be written, so
nothing else can run.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

OPEN = "("
MOST_CHARACTERS = 2_000
DEEPEST = 50  # parentheses, signs and powers inside one another
_TOKEN = re.compile(
    r"\s*(?:(\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+)|([A-Za-z_]\w*(?:\.\w+)*)|([-+*/^(),]))", re.ASCII
)

Values = Mapping[str, float]
Term = Callable[[Values], float]

FUNCTIONS: Final[
    Mapping[str, tuple[Callable[..., Any], int | None]]
] = {  # with the number of their arguments
    "min": (min, None),
    "max": (max, None),
    "abs": (abs, 1),
    "floor": (math.floor, 1),
    "ceil": (math.ceil, 1),
    "exp": (math.exp, 1),
    "sqrt": (math.sqrt, 1),
    "log": (math.log, 1),
}


class Arithmetic:
    """An expression. ValueError says what is wrong with its text, or why it has no value."""

    def __init__(self, text: str) -> None:
        if len(text) > MOST_CHARACTERS:
            raise ValueError(f"expected at most {MOST_CHARACTERS:,} characters, got {len(text):,}")
        self.names: list[str] = []
        self._tokens = list(_tokens(text))
        self._at = self._depth = 0
        self._term = self._sum()
        if (rest := self._peek()) is not None:
            raise ValueError(f"expected an operator or the end, got {rest!r}")

    def value(self, values: Values) -> float:
        """The value for these numbers, which have all `names`."""
        try:
            found = self._term(values)
        except ZeroDivisionError:
            raise ValueError("it divides by zero") from None
        except OverflowError:
            raise ValueError("its value is too large") from None
        except ValueError:
            raise ValueError("a function of it has no value for its argument") from None
        if isinstance(found, complex) or not math.isfinite(found):
            raise ValueError("its value is no number")
        return float(found)

    def _peek(self) -> str | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def _take(self, *wanted: str) -> str | None:
        found = self._peek()
        if found is None or found not in wanted:
            return None
        self._at += 1
        return found

    def _sum(self) -> Term:
        return self._chain(("+", "-"), self._product)

    def _product(self) -> Term:
        return self._chain(("*", "/"), self._signed)

    def _chain(self, signs: tuple[str, str], part: Callable[[], Term]) -> Term:
        """Parts joined from left to right; a long chain is no deep recursion."""
        first, rest = part(), list[tuple[Callable[[float, float], float], Term]]()
        while (sign := self._take(*signs)) is not None:
            rest.append((_JOINED[sign], part()))

        def value(values: Values) -> float:
            found = first(values)
            for join, term in rest:
                found = join(found, term(values))
            return found

        return value if rest else first

    def _signed(self) -> Term:
        self._depth += 1
        if self._depth > DEEPEST:
            raise ValueError(f"expected at most {DEEPEST} parts inside one another")
        sign = self._take("-", "+")
        term = self._power() if sign is None else self._signed()
        self._depth -= 1
        return (lambda values: -term(values)) if sign == "-" else term

    def _power(self) -> Term:
        base = self._atom()
        if self._take("^") is None:
            return base
        power = self._signed()
        return lambda values: base(values) ** power(values)

    def _atom(self) -> Term:
        token = self._peek()
        if token is None:
            raise ValueError("expected a number or a name, got the end")
        self._at += 1
        if token == OPEN:
            return self._closed(self._sum())
        if token[0].isdigit() or token[0] == ".":
            number = float(token)
            return lambda _: number
        if not (token[0].isalpha() or token[0] == "_"):
            raise ValueError(f"expected a number or a name, got {token!r}")
        return self._call(token) if self._take(OPEN) else self._name(token)

    def _name(self, name: str) -> Term:
        self.names += [] if name in self.names else [name]
        return lambda values: values[name]

    def _closed(self, term: Term) -> Term:
        if self._take(")") is None:
            raise ValueError(f"expected ')', got {self._peek() or 'the end'!r}")
        return term

    def _call(self, name: str) -> Term:
        if name not in FUNCTIONS:
            raise ValueError(f"there is no function {name!r}; there are {', '.join(FUNCTIONS)}")
        function, wanted = FUNCTIONS[name]
        arguments = [self._sum()]
        while self._take(","):
            arguments.append(self._sum())
        if wanted is not None and len(arguments) != wanted:
            raise ValueError(f"{name} takes {wanted} argument, got {len(arguments)}")
        if wanted is None and len(arguments) < 2:
            raise ValueError(f"{name} takes two arguments or more, got 1")
        return self._closed(lambda values: function(*(one(values) for one in arguments)))


_JOINED: Final[Mapping[str, Callable[[float, float], float]]] = {
    "+": lambda left, right: left + right,
    "-": lambda left, right: left - right,
    "*": lambda left, right: left * right,
    "/": lambda left, right: left / right,
}


def _tokens(text: str) -> Iterator[str]:
    at, end = 0, len(text.rstrip())
    while at < end:
        found = _TOKEN.match(text, at)
        if found is None:
            raise ValueError(
                f"expected a number, a name or one of + - * / ^ ( ), got {text[at:].lstrip()[:10]!r}"
            )
        yield found[1] or found[2] or found[3]
        at = found.end()
