"""
The cost of a search: an upper bound on the steps of `re` for a text of some length, computed from the pattern.

`re` tries each start in turn, and from a start every way through the pattern until one matches. The bound is the steps
if all of them fail. It follows the pattern from its end, item by item, and counts the steps and the ways from there on:

- A repeat gives back what it took, one by one, and each time tries what follows. If what follows cannot begin with a
  character of the repeat, it fails at once, and the costs add up: `\\d+\\s*m`. Else they multiply: `\\d+\\d*m`.
- Alternatives add up, but only those that can begin with the same character.
- A repeat of several items has as many rounds as fit into the text, if each round has one way: `(\\.[a-z]+)*`. Else it
  is written out, if that is short: `(\\d{1,3}\\.){3}`. Else there is no bound: `(a+)+`.

Back-references may match any text. Conditional groups, and patterns that are too large to follow, have no bound.
"""

import re
from math import inf
from typing import Any, NamedTuple

from assay.patterns.charsets import END, EVERY, LINE_FEED, characters, op

MAX_ITEMS = 600  # limit of the items that are followed; a literal counts as a fifth
MAX_FIRSTS = 40  # limit of the sets that are compared with one another
COUNTED = 0.1  # steps for a character that a repeat counts
ROUND = 4.0  # steps for a round of a repeat of several items
ONE = (op.LITERAL, op.NOT_LITERAL, op.ANY, op.IN)
REPEATS = (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT)
LOOKS = (op.ASSERT, op.ASSERT_NOT)


class NoBound(Exception):
    """The pattern has no bound, or it takes too long to find one."""


class Rest(NamedTuple):
    """What a match does from an item to the end of the pattern."""

    first: int  # the next characters for which it does not fail at once
    fail: float  # the steps until it fails at once
    steps: float
    ways: float


LAST = Rest(EVERY, 0.0, 0.0, 1.0)


class Bound:
    """The bound of a parsed pattern. `steps(length)` is `inf` if there is none."""

    def __init__(self, parts: Any, flags: int) -> None:
        self._parts, self._flags = list(parts), flags
        self._anchored = bool(self._parts) and self._begins(*self._parts[0])
        if self._parts and self._is_optional(*self._parts[-1]):
            del self._parts[-1]  # it always matches, so that the search is over
        self._classes: dict[tuple[int, int], int] = {}  # by the id of their members, which the pattern holds
        self._length, self._left = 0, 0.0

    def steps(self, length: int) -> float:
        """The most steps of a search in a text of this length."""
        self._length, self._left = length, MAX_ITEMS
        try:
            steps = self._sequence(self._parts, self._flags, LAST).steps
        except (NoBound, RecursionError, OverflowError):
            return inf
        return length + 2 + (1 if self._anchored else length + 1) * (1 + steps)

    def _begins(self, code: Any, argument: Any) -> bool:
        line = argument is op.AT_BEGINNING and not self._flags & re.MULTILINE
        return code is op.AT and (line or argument is op.AT_BEGINNING_STRING)

    def _is_optional(self, code: Any, argument: Any) -> bool:
        return code in REPEATS and not argument[0] and _is_one(argument[2])

    def _sequence(self, parts: Any, flags: int, rest: Rest) -> Rest:
        for code, argument in reversed(list(parts)):
            rest = self._item(code, argument, flags, rest)
        return rest

    def _item(self, code: Any, argument: Any, flags: int, rest: Rest) -> Rest:
        if code in ONE:
            return Rest(self._characters(code, argument, flags), 1.0, 1.0 + rest.steps, rest.ways)
        self._follow(1)
        if code in REPEATS:  # one that gives nothing back takes no more steps
            minimum, maximum, item = argument
            return self._repeat(minimum, maximum, item, flags, rest)
        if code is op.SUBPATTERN:
            _, more, less, inner = argument
            first, fail, steps, ways = self._sequence(inner, (flags | more) & ~less, rest)
            return Rest(first, 1.0 + fail, 1.0 + steps, ways)
        if code is op.ATOMIC_GROUP:
            first, fail, steps, ways = self._sequence(argument, flags, rest)
            return Rest(first, 1.0 + fail, 1.0 + steps, ways)
        if code is op.BRANCH:
            self._follow(len(argument[1]))
            return self._choice([self._sequence(one, flags, rest) for one in argument[1]])
        if code is op.AT:
            allowed = {op.AT_END: END | LINE_FEED, op.AT_END_STRING: END}.get(argument, EVERY)
            return Rest(rest.first & allowed, 1.0 + rest.fail, 1.0 + rest.steps, rest.ways)
        if code in LOOKS:
            cost = 1.0 + self._sequence(argument[1], flags, LAST).steps
            return Rest(rest.first, cost + rest.fail, cost + rest.steps, rest.ways)
        if code is op.GROUPREF:
            steps = 1.0 + self._length + rest.steps
            return Rest(EVERY, steps, steps, rest.ways)
        raise NoBound

    def _follow(self, items: float) -> None:
        self._left -= items
        if self._left < 0:
            raise NoBound

    def _characters(self, code: Any, argument: Any, flags: int) -> int:
        self._follow(0.2 if code is op.LITERAL else 1)
        if code is not op.IN:
            return characters(code, argument, flags)
        key = id(argument), flags
        if key not in self._classes:
            self._classes[key] = characters(code, argument, flags)
        return self._classes[key]

    def _choice(self, parts: list[Rest]) -> Rest:
        every = 0
        for part in parts:
            every |= part.first
        firsts = {part.first for part in parts}
        alike = [parts]
        if len(firsts) <= MAX_FIRSTS:
            alike = [[part for part in parts if part.first & first] for first in firsts]
        fail = 1.0 + sum(part.fail for part in parts)
        return Rest(
            every,
            fail,
            fail + max(sum(part.steps for part in some) for some in alike),
            max(sum(part.ways for part in some) for some in alike),
        )

    def _repeat(self, minimum: int, maximum: int, item: Any, flags: int, rest: Rest) -> Rest:
        if _is_one(item):
            code, argument = item[0]
            held, fail, each = self._characters(code, argument, flags), COUNTED, COUNTED
            count = min(maximum, self._length)
        else:
            width = item.getwidth()[0]
            held, fail, _, _ = self._sequence(item, flags, LAST)
            fail += ROUND
            after = Rest(held | rest.first, fail + rest.fail, 0.0, 1.0)
            _, _, each, ways = self._sequence(item, flags, after)
            if not width or ways > 1:
                return self._written_out(minimum, maximum, item, flags, rest)
            each += ROUND
            count = min(maximum, self._length // width)
        given_back = max(0, count - minimum)
        steps, ways = (rest.steps, rest.ways) if held & rest.first else (rest.fail, 0.0)
        return Rest(
            held if minimum else held | rest.first,
            1.0 + fail + (0.0 if minimum else rest.fail),
            1.0 + (count + 1) * each + given_back * steps + rest.steps,
            given_back * ways + rest.ways,
        )

    def _written_out(self, minimum: int, maximum: int, item: Any, flags: int, rest: Rest) -> Rest:
        self._follow(maximum)
        following = rest
        for _ in range(maximum - minimum):
            rest = self._choice([self._sequence(item, flags, rest), following])
        for _ in range(minimum):
            rest = self._sequence(item, flags, rest)
        return rest


def _is_one(item: Any) -> bool:
    return len(item) == 1 and item[0][0] in ONE
