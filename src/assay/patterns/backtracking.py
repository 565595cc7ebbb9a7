"""
The cost of a search: an upper bound on the steps of `re` for a text, proved from the pattern.

`re` tries each start in turn, and from a start every way through the pattern until one matches. So the steps from a
start are at most those of a search in which every way is tried and fails in the end. `cost` follows a pattern item by
item and counts two things: the steps, and the ways to get through it. It knows what the next character may be
(`possible`):

- An item of one character takes a step, and goes on only if `possible` and its set have something in common.
- A repeat of one character stops after each count from its least to its most. Where it gives back, the next character
  is in its set; where it stopped by itself, the next is outside. So what follows `\\d+` in `\\d+\\s*m` fails at once
  after all counts but one, and the costs add up; in `\\d+\\d*m` they multiply.
- Alternatives add up, but only those that one and the same next character can begin.
- A repeat of anything else is written out, if that is short; else each round must have one way only and consume
  something: then there are at most as many rounds as characters. `(a?){40}a{40}` has 2^40 ways written out.
- Look-around and atomic groups are left with one way. A back-reference takes as many steps as the text is long.

Anything else, or a pattern that is too large to follow, has no bound.
"""

import re
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from assay.patterns.charsets import END, LINE_FEED, Alphabet, NoBound, Set, op, parser

MOST_NODES = 600
MOST_VISITS = 20_000
COUNTED = 0.1  # steps for a character that a repeat counts
ROUND = 4.0  # steps for a round of a repeat of several items
ONE = (op.LITERAL, op.NOT_LITERAL, op.ANY, op.IN)
REPEATS = (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT)
LOOKS = (op.ASSERT, op.ASSERT_NOT)


class Cost(NamedTuple):
    steps: float
    ways: float


class TextFacts(NamedTuple):
    """The facts about a text: its length, and the maximum length of a run of characters of one repeat's set."""

    length: int
    run: int


Visit = Callable[["PatternNode", int], Cost]


class PatternNode(ABC):
    """An item and all that follows it. `first`: the next characters for which it does not fail at once."""

    first: int

    @abstractmethod
    def cost(self, possible: int, text: TextFacts, visit: Visit) -> Cost:
        """The most steps of a match that starts here."""


class Last(PatternNode):
    def __init__(self, alphabet: int) -> None:
        self.first = alphabet

    def cost(self, possible: int, text: TextFacts, visit: Visit) -> Cost:
        return Cost(0.0, 1.0)


class Characters(PatternNode):
    def __init__(self, first: int, size: int, following: PatternNode, alphabet: int) -> None:
        self.first, self.size, self.then, self.every = first, size, following, alphabet

    def cost(self, possible: int, text: TextFacts, visit: Visit) -> Cost:
        if not possible & self.first:
            return Cost(1.0, 0.0)
        steps, ways = visit(self.then, self.every)
        return Cost(self.size + steps, ways)


class Repeat(PatternNode):
    """A repeat of an item of one character, inside this many groups."""

    def __init__(
        self,
        characters: Set,
        minimum: int,
        maximum: int,
        following: PatternNode,
        alphabet: int,
        groups: int = 0,
    ) -> None:
        self.held, self.least, self.most = characters, minimum, maximum
        self.then, self.every, self.groups = following, alphabet, groups
        self.first = characters.may | (0 if minimum else following.first)

    def cost(self, possible: int, text: TextFacts, visit: Visit) -> Cost:
        outside = possible & ~self.held.may
        none = Cost(0.0, 0.0) if self.least or not outside else visit(self.then, outside)
        attempt = 1.0 + self.groups if self.groups else COUNTED  # steps of a character
        failure = attempt if self.groups else 0.0  # of the attempt after the last character
        if not possible & self.held.may or not self.most:
            return Cost(1.0 + failure + none.steps, none.ways)
        long = min(self.most, text.length, text.run)
        back = visit(self.then, self.held.may)
        stop = visit(self.then, self.every if self.most <= long else self.every & ~self.held.must)
        fewer = max(0, long - self.least)
        steps = 1.0 + attempt * long + failure + fewer * back.steps + max(stop.steps, none.steps)
        return Cost(steps, fewer * back.ways + max(stop.ways, none.ways))


class Group(PatternNode):
    def __init__(self, inner: PatternNode) -> None:
        self.inner, self.first = inner, inner.first

    def cost(self, possible: int, text: TextFacts, visit: Visit) -> Cost:
        steps, ways = visit(self.inner, possible)
        return Cost(1.0 + steps, ways)


class Position(PatternNode):
    """`$`, `\\b` and similar items that match no character."""

    def __init__(self, allowed: int, following: PatternNode) -> None:
        self.allowed, self.then = allowed, following
        self.first = allowed & following.first

    def cost(self, possible: int, text: TextFacts, visit: Visit) -> Cost:
        if not possible & self.allowed:
            return Cost(1.0, 0.0)
        steps, ways = visit(self.then, possible & self.allowed)
        return Cost(1.0 + steps, ways)


class Choice(PatternNode):
    def __init__(self, parts: Sequence[PatternNode]) -> None:
        self.parts = parts
        self.first = 0
        for part in parts:
            self.first |= part.first

    def cost(self, possible: int, text: TextFacts, visit: Visit) -> Cost:
        steps = 1.0
        by_first: dict[int, Cost] = {}
        for part in self.parts:
            if possible & ~part.first:
                steps += visit(part, possible & ~part.first).steps
            if begins := possible & part.first:
                more, ways = visit(part, begins)
                before = by_first.get(begins, Cost(0.0, 0.0))
                by_first[begins] = Cost(before.steps + more, before.ways + ways)
        together = _combine(by_first)
        return Cost(steps + together.steps, together.ways)


class Rounds(PatternNode):
    """A repeat of items that have one way only and consume a character in each round."""

    def __init__(
        self, body: PatternNode, minimum: int, maximum: int, width: int, following: PatternNode, alphabet: int
    ) -> None:
        self.body, self.least, self.most, self.width = body, minimum, maximum, width
        self.then, self.every = following, alphabet
        self.first = body.first | (0 if minimum else following.first)

    def cost(self, possible: int, text: TextFacts, visit: Visit) -> Cost:
        body = visit(self.body, self.every)
        if body.ways > 1:
            raise NoBound
        rounds = min(self.most, text.length // self.width)
        between, last = visit(self.then, self.body.first), visit(self.then, self.every)
        steps = (rounds + 1) * (ROUND + body.steps) + rounds * between.steps + last.steps
        return Cost(steps, rounds * between.ways + last.ways)


class Lookaround(PatternNode):
    """An item that is not retried after it matched: look-around, atomic groups."""

    def __init__(
        self, inner: PatternNode, following: PatternNode, alphabet: int, *, ahead: bool, consumes: bool
    ) -> None:
        self.inner, self.then, self.every = inner, following, alphabet
        self.ahead, self.consumes = ahead, consumes
        self.first = inner.first if consumes else following.first

    def cost(self, possible: int, text: TextFacts, visit: Visit) -> Cost:
        inner = visit(self.inner, possible if self.ahead else self.every)
        steps, ways = visit(self.then, self.every if self.consumes else possible)
        return Cost(1.0 + inner.steps + steps, ways)


class Reference(PatternNode):
    def __init__(self, following: PatternNode, alphabet: int) -> None:
        self.then, self.every, self.first = following, alphabet, alphabet

    def cost(self, possible: int, text: TextFacts, visit: Visit) -> Cost:
        steps, ways = visit(self.then, self.every)
        return Cost(1.0 + text.length + steps, ways)


def _combine(by_first: dict[int, Cost]) -> Cost:
    """The largest sum of the costs of alternatives that the same character can begin."""
    groups: dict[int, Cost] = {}  # disjoint masks
    for mask, cost in by_first.items():
        left = mask
        for known in list(groups):
            if not (both := known & left):
                continue
            before = groups.pop(known)
            groups[both] = Cost(before.steps + cost.steps, before.ways + cost.ways)
            if known & ~both:
                groups[known & ~both] = before
            left &= ~both
        if left:
            groups[left] = cost
    steps = max((one.steps for one in groups.values()), default=0.0)
    return Cost(steps, max((one.ways for one in groups.values()), default=0.0))


class Builder:
    """Builds the nodes of a parsed pattern, from its end to its beginning."""

    def __init__(self, alphabet: Alphabet) -> None:
        self.alphabet, self.every, self.left = alphabet, alphabet.all, MOST_NODES
        self.repeats: list[
            tuple[tuple[Any, Any, int], int]
        ] = []  # repeats of one character, with their maximum

    def sequence(self, parts: Any, flags: int, following: PatternNode) -> PatternNode:
        for code, what in reversed(list(parts)):
            following = self._item(code, what, flags, following)
            self.left -= 1
            if self.left < 0:
                raise NoBound
        return following

    def _item(self, code: Any, argument: Any, flags: int, following: PatternNode) -> PatternNode:
        if code in ONE:
            argument = tuple(argument) if code is op.IN else argument
            size = 1
            if isinstance(following, Characters):
                self.left += 1
                size, following = following.size + 1, following.then
            return Characters(self.alphabet.of(code, argument, flags).may, size, following, self.every)
        if code is op.AT:
            allowed = {op.AT_END: END | LINE_FEED, op.AT_END_STRING: END}.get(argument, self.every)
            return Position(allowed, following)
        if code is op.BRANCH:
            return Choice([self.sequence(one, flags, following) for one in argument[1]])
        if code in REPEATS:
            least, most, item = argument
            return self._repeat(code, least, most, item, flags, following)
        if code is op.SUBPATTERN:
            _, more, less, inner = argument
            return Group(self.sequence(inner, (flags | more) & ~less, following))
        return self._rare_item(code, argument, flags, following)

    def _rare_item(self, code: Any, argument: Any, flags: int, following: PatternNode) -> PatternNode:
        last = Last(self.every)
        if code is op.ATOMIC_GROUP:
            return Lookaround(
                self.sequence(argument, flags, last), following, self.every, ahead=True, consumes=True
            )
        if code in LOOKS:
            direction, inner = argument
            looked = self.sequence(inner, flags, last)
            return Lookaround(looked, following, self.every, ahead=direction > 0, consumes=False)
        if code is op.GROUPREF:
            return Reference(following, self.every)
        if code is op.GROUPREF_EXISTS:
            _, yes, no = argument
            return Choice([self.sequence(one or [], flags, following) for one in (yes, no)])
        raise NoBound

    def _repeat(
        self, code: Any, minimum: int, maximum: int, item: Any, flags: int, following: PatternNode
    ) -> PatternNode:
        if code is op.POSSESSIVE_REPEAT:
            inner = self._repeat(op.MAX_REPEAT, minimum, maximum, item, flags, Last(self.every))
            return Lookaround(inner, following, self.every, ahead=True, consumes=True)
        alone = _single(item, flags)
        if alone is not None:
            self.repeats.append((alone, maximum))
            characters, groups = self.alphabet.of(*alone), _size(item) - 1
            return Repeat(characters, minimum, maximum, following, self.every, groups)
        width = item.getwidth()[0]
        body = self.sequence(item, flags, Last(self.every))
        if not (maximum <= self.left and maximum * _size(item) <= self.left):
            if not width:
                raise NoBound
            return Rounds(body, minimum, maximum, width, following, self.every)
        rest = following
        for _ in range(maximum - minimum):
            rest = Choice([self.sequence(item, flags, rest), following])
        for _ in range(minimum):
            rest = self.sequence(item, flags, rest)
        return rest


def _single(item: Any, flags: int) -> tuple[Any, Any, int] | None:
    """The repeated item if it is one item of one character, also inside a group; else None."""
    while len(item) == 1:
        code, what = item[0]
        if code in ONE:
            return code, tuple(what) if code is op.IN else what, flags
        if code is not op.SUBPATTERN:
            return None
        _, more, less, item = what
        flags = (flags | more) & ~less
    return None


def _size(parts: Any) -> int:
    """The number of items, including those of groups."""
    return sum(1 for _ in walk(parts))


def walk(parts: Any) -> Iterator[tuple[Any, Any]]:
    """Every item, at any depth."""
    stack: list[Any] = [parts]
    while stack:
        for code, what in stack.pop():
            yield code, what
            if code in REPEATS or code is op.SUBPATTERN or code in LOOKS:
                stack.append(what[-1])
            elif code is op.BRANCH:
                stack += what[1]
            elif code is op.ATOMIC_GROUP:
                stack.append(what)
            elif code is op.GROUPREF_EXISTS:
                stack += [one for one in what[1:] if one]


def named_characters(parts: Any) -> Iterator[str]:
    """The characters that a pattern names."""
    for code, what in walk(parts):
        for part, value in what if code is op.IN else [(code, what)]:
            if part in (op.LITERAL, op.NOT_LITERAL):
                yield chr(value)


def parse(pattern: str, flags: int) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return parser.parse(pattern, flags)


class Tree:
    """A pattern as nodes. `cost(text)` is the bound for a search from one start; `inf` if there is no bound."""

    def __init__(self, parts: Any, flags: int) -> None:
        self.parts, self.flags = parts, flags
        self.anchored = bool(parts) and self._begins(*parts[0])
        self.root: PatternNode | None = None
        self.repeats: list[tuple[tuple[Any, Any, int], int]] = []
        try:
            self.alphabet = Alphabet(named_characters(parts))
            builder = Builder(self.alphabet)
            self.repeats = builder.repeats
            self.root = builder.sequence(parts, flags, Last(self.alphabet.all))
        except (NoBound, RecursionError):
            return

    def _begins(self, code: Any, argument: Any) -> bool:
        if code is not op.AT:
            return False
        return argument is op.AT_BEGINNING_STRING or (
            argument is op.AT_BEGINNING and not self.flags & re.MULTILINE
        )

    def cost(self, text: TextFacts) -> float:
        root = self.root
        if root is None:
            return float("inf")
        seen: dict[tuple[int, int], Cost] = {}

        def visit(node: PatternNode, possible: int) -> Cost:
            key = id(node), possible
            found = seen.get(key)
            if found is None:
                if len(seen) > MOST_VISITS:
                    raise NoBound
                found = seen[key] = node.cost(possible, text, visit)
            return found

        try:
            return visit(root, self.alphabet.all).steps
        except (NoBound, RecursionError, OverflowError):
            return float("inf")
        finally:
            seen.clear()  # `visit` refers to itself, so that only the garbage collector would free it
