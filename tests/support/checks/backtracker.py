"""
The plainest matcher that backtracks: every way through a parsed pattern, one after the other, each step counted.

It does what `re` does and nothing cleverer. It counts more steps than the bound does, never fewer: one for every item
it comes to, and for every character that a repeat takes as much as the bound says.
"""

from assay.patterns.backtracking import COUNTED, LOOKS, ONE, REPEATS
from assay.patterns.charsets import compiler, op, parser


def alone(item, flags):
    """An item of a parsed pattern as a pattern of its own."""
    state = parser.State()
    state.flags, state.str = flags, ""
    return compiler.compile(parser.SubPattern(state, [item]), flags)


class Enough(Exception):
    pass


class Matcher:
    def __init__(self, parts, flags, most):
        self.parts, self.flags, self.most = parts, flags, most
        self.steps = 0.0
        self.groups = {}
        self.ones = {}

    def search(self, text):
        """Whether it is found; `steps` are those of all starts together."""
        self.text = text
        for start in range(len(text) + 1):
            self.groups = {}
            if any(True for _ in self.sequence(list(self.parts), 0, start, self.flags)):
                return True
        return False

    def step(self, weight=1.0):
        self.steps += weight
        if self.steps > self.most:
            raise Enough

    def sequence(self, parts, at, place, flags):
        """The places where parts[at:] can end, one after the other."""
        if at == len(parts):
            yield place
            return
        code, what = parts[at]
        for end in self.item(code, what, place, flags):
            yield from self.sequence(parts, at + 1, end, flags)

    def item(self, code, what, place, flags):
        if code in REPEATS:
            yield from self.repeat(code, what, place, flags)
            return
        self.step()
        if code in ONE:
            if place < len(self.text) and self.one(code, what, flags).match(self.text, place):
                yield place + 1
        elif code is op.AT:
            if alone((code, what), flags).match(self.text, place):
                yield place
        else:
            yield from self.several(code, what, place, flags)

    def several(self, code, what, place, flags):
        if code is op.BRANCH:
            for one in what[1]:
                yield from self.sequence(list(one), 0, place, flags)
        elif code is op.SUBPATTERN:
            yield from self.group(what, place, flags)
        elif code in LOOKS:
            yield from self.look(code, what, place, flags)
        elif code is op.ATOMIC_GROUP:
            yield from self.first(self.sequence(list(what), 0, place, flags))
        else:
            assert code is op.GROUPREF
            yield from self.reference(what, place)

    def one(self, code, what, flags):
        key = code, str(what), flags
        if key not in self.ones:
            self.ones[key] = alone((code, what), flags)
        return self.ones[key]

    def group(self, what, place, flags):
        number, more, less, inner = what
        for end in self.sequence(list(inner), 0, place, (flags | more) & ~less):
            before = self.groups.get(number)
            self.groups[number] = (place, end)
            yield end
            self.groups[number] = before

    def look(self, code, what, place, flags):
        direction, inner = what
        start = place if direction > 0 else place - inner.getwidth()[0]
        found = start >= 0 and any(
            direction > 0 or end == place for end in self.sequence(list(inner), 0, start, flags)
        )
        if found is (code is op.ASSERT):
            yield place

    def reference(self, number, place):
        span = self.groups.get(number)
        if span is not None:
            wanted = self.text[span[0] : span[1]]
            if self.text.startswith(wanted, place):
                yield place + len(wanted)

    def first(self, ends):
        yield from (end for _, end in zip(range(1), ends, strict=False))

    def repeat(self, code, what, place, flags):
        least, most, item = what
        if code is op.POSSESSIVE_REPEAT:
            yield from self.first(self.repeat(op.MAX_REPEAT, what, place, flags))
            return
        self.step()
        single = len(item) == 1 and item[0][0] in ONE
        yield from self.rounds(code is op.MIN_REPEAT, least, most, list(item), place, flags, 0, single)

    def rounds(self, lazy, least, most, item, place, flags, done, single):
        if lazy and done >= least:
            yield place
        if done < most:
            if single:
                self.step(COUNTED)
                more = self.one(item[0][0], item[0][1], flags).match(self.text, place)
                ends = [place + 1] if more and place < len(self.text) else []
            else:
                ends = self.sequence(item, 0, place, flags)
            for end in ends:
                if end > place or done < least:  # `re` too goes round no further without a character
                    yield from self.rounds(lazy, least, most, item, end, flags, done + 1, single)
        if not lazy and done >= least:
            yield place


def steps(parts, flags, text, most):
    """Whether a search finds anything (None: it takes more than `most` steps), and how many steps it took."""
    matcher = Matcher(parts, flags, most)
    try:
        return matcher.search(text), matcher.steps
    except (Enough, RecursionError):
        return None, matcher.steps
