"""
How much work a JSON Schema may be with a value, at most.

Every place of a schema costs what it compares itself, and what the places cost that it asks of the same value or of its parts.
References that lead to the same place twice, level by level, double it each time.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import unquote, urldefrag, urljoin

import msgspec

from assay.protocol.json_types import JSON, is_list, is_object

MOST = 100_000_000  # steps for one value, at about 25 ns each
NESTED = 16  # steps to compare with one list or object
_REPEATED = ("enum", "const", "required", "pattern", "dependentRequired", "format", "type")
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_KNOWN = ("https://json-schema.org/", "http://json-schema.org/")


class _Place(NamedTuple):
    """What a schema compares itself, what it asks of a value, and of the parts of a list or an object, whichever it is."""

    own: int
    here: tuple[int, ...]
    parts: tuple[
        tuple[tuple[int, ...], tuple[int, ...]], ...
    ]  # of each: one of the first, and all of the second


class SchemaCost:
    """Of one schema."""

    def __init__(self, schema: Any, *, linked: bool = True) -> None:
        """A schema that is not `linked` has no references."""
        self._linked = linked
        self._ids: dict[int, int] = {}
        self._nodes: list[tuple[JSON, str]] = []
        self._named: dict[str, list[int]] = {}
        self._find(schema)
        self._places = [_Place(1, (), ())] * len(self._nodes)
        self.lost: str | None = None  # a reference that we cannot follow
        for at, (node, base) in enumerate(self._nodes):
            self._places[at] = self._place(node, base)
        self._order = self._inside_first()
        self._level: list[int] | None = None  # the deepest so far
        self._most: list[int] = []  # by depth
        self._settled = False

    def work(self, depth: int, size: int) -> int:
        """Steps for a value that is nested so deep and has so many parts, at most; what is beyond MOST is not counted."""
        if self.lost is not None:
            return MOST + 1
        return min(self.steps(depth) * size, MOST + 1)

    def steps(self, depth: int) -> int:
        """For one part of a value that is nested so deep. What is asked of a part depends on how deep it stands."""
        while len(self._most) <= depth and not self._settled and self._nodes:
            below, self._level = self._level, self._following(self._level)
            self._most.append(max(self._level[0], self._most[-1] if self._most else 1))
            self._settled = self._level == below or self._most[-1] > MOST
        return self._most[min(depth, len(self._most) - 1)] if self._most else 1

    def _following(self, below: list[int] | None) -> list[int]:
        """The steps of each place for a part of the value that stands one deeper; at first, for the value itself."""
        work = [0] * len(self._places)
        for at in self._order:
            place = self._places[at]
            steps = sum(work[one] for one in place.here)
            if below is None:
                steps += place.own
            else:
                steps += max(
                    max((below[one] for one in some), default=0) + sum(below[one] for one in every)
                    for some, every in place.parts
                )
            work[at] = min(steps, MOST + 1)
        return work

    def _find(self, schema: Any) -> None:
        """Every object in it, with its base address, and the names that references may use."""
        stack: list[tuple[Any, str, str]] = [(schema, "", "")]
        while stack:
            node, base, pointer = stack.pop()
            if is_list(node):
                stack.extend(
                    (one, base, f"{pointer}/{at}" if self._linked else "") for at, one in enumerate(node)
                )
            if not is_object(node):
                continue
            at = self._ids[id(node)] = len(self._nodes)
            if not self._linked:
                self._nodes.append((node, base))
                stack.extend(
                    [(one, base, pointer) for one in node.values() if is_object(one) or is_list(one)]
                )
                continue
            if isinstance(own := node.get("$id"), str):
                base, pointer = urljoin(base, own), ""
            self._nodes.append((node, base))
            self._named.setdefault(f"{urldefrag(base)[0]}#{pointer}", []).append(at)
            for name in ("$anchor", "$dynamicAnchor"):
                if isinstance(anchor := node.get(name), str):
                    self._named.setdefault(f"{urldefrag(base)[0]}#{anchor}", []).append(at)
                    self._named.setdefault(f"#dynamic {anchor}", []).append(at)
            for name, one in node.items():
                escaped = name.replace("~", "~0").replace("/", "~1")
                stack.append((one, base, f"{pointer}/{escaped}"))

    def _place(self, node: JSON, base: str) -> _Place:
        here = [*self._all(node, "not", "if", "then", "else"), *self._listed(node, "allOf", "anyOf", "oneOf")]
        here += [*self._mapped(node, "dependentSchemas"), *self._mapped(node, "dependencies")]
        for name in _REFERENCES:
            if isinstance(address := node.get(name), str):
                here += self._meant(address, base, dynamic=name != "$ref")
        items = node.get("items")
        one_of = [
            *self._listed(node, "prefixItems"),
            *(self._listed(node, "items") if is_list(items) else ()),
        ]
        every = self._all(node, "items", "additionalItems", "contains", "unevaluatedItems")
        members = self._all(node, "additionalProperties", "unevaluatedProperties", "propertyNames")
        return _Place(
            _own(node),
            tuple(here),
            (
                (tuple(one_of), tuple(every)),
                (
                    tuple(self._mapped(node, "properties")),
                    (*self._mapped(node, "patternProperties"), *members),
                ),
            ),
        )

    def _meant(self, address: str, base: str, *, dynamic: bool) -> list[int]:
        there, fragment = urldefrag(urljoin(base, address))
        found = self._named.get(f"{there}#{unquote(fragment)}", [])
        if dynamic:
            found = [*found, *self._named.get(f"#dynamic {fragment}", [])]
        if not found and there.startswith(_KNOWN):
            return []
        if not found:
            self.lost = address
        return list(dict.fromkeys(found))

    def _inside_first(self) -> list[int]:
        """What a place asks of the same value comes before it; a circle, which asks the same again, is cut."""
        order: list[int] = []
        state = bytearray(len(self._places))
        for first in range(len(self._places)):
            stack = [first]
            while stack:
                at = stack[-1]
                if state[at] == 0:
                    state[at] = 1
                    stack.extend(one for one in self._places[at].here if state[one] == 0)
                else:
                    stack.pop()
                    if state[at] == 1:
                        state[at] = 2
                        order.append(at)
        return order

    def _all(self, node: JSON, *names: str) -> list[int]:
        return [self._ids[id(node[name])] for name in names if is_object(node.get(name))]

    def _listed(self, node: JSON, *names: str) -> Iterator[int]:
        for name in names:
            if is_list(some := node.get(name)):
                yield from (self._ids[id(one)] for one in some if is_object(one))

    def _mapped(self, node: JSON, name: str) -> Iterator[int]:
        if is_object(some := node.get(name)):
            yield from (self._ids[id(one)] for one in some.values() if is_object(one))


def longest_keyword(schema: Any) -> int:
    """Characters of the longest part of a schema that a message about one value repeats."""
    longest, stack = 0, [schema]
    while stack:
        node = stack.pop()
        if is_list(node):
            stack.extend(node)
        elif is_object(node):
            stack.extend(node.values())
            repeated = [node[name] for name in _REPEATED if name in node]
            longest = max(longest, sum(len(msgspec.json.encode(one)) for one in repeated))
    return longest


def _own(node: JSON) -> int:
    """What is compared at this place: names that are required, and values of an enum that are no plain ones, which are found by hash."""
    steps = 1
    for name in ("required", "properties", "patternProperties", "dependentRequired", "dependencies"):
        some = node.get(name)
        if is_list(some) or is_object(some):
            steps += len(some)
    for name in ("enum", "const"):
        if is_list(some := node.get(name)):
            steps += NESTED * sum(is_list(one) or is_object(one) for one in some)
    return steps


class Size(NamedTuple):
    """Of a value: how many lists and objects stand inside one another, how many values there are, and the characters of all texts."""

    depth: int
    parts: int
    characters: int


def measured(value: Any) -> Size:
    depth, parts, characters, level = 0, 1, len(value) if isinstance(value, str) else 0, [value]
    while True:
        following: list[Any] = []
        for part in level:
            if is_object(part):
                following.extend(part.values())
                characters += sum(map(len, part))
            elif is_list(part):
                following.extend(part)
        if not following:
            return Size(depth, parts, characters)
        depth += 1
        parts += len(following)
        characters += sum(len(one) for one in following if isinstance(one, str))
        level = following
