"""How much work a JSON Schema may be: references that lead to the same place twice, level by level, double it each time."""

from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import unquote, urldefrag, urljoin

from assay.protocol.values import JSON, is_list, is_object

MOST = 100_000_000  # steps for one value, at about as many a second
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_KNOWN = ("https://json-schema.org/", "http://json-schema.org/")


class _Place(NamedTuple):
    """What a schema asks of a value itself, and of the parts of a list or an object, whichever it is."""

    here: tuple[int, ...]
    parts: tuple[
        tuple[tuple[int, ...], tuple[int, ...]], ...
    ]  # of each: one of the first, and all of the second


class Unfolding:
    """Of one schema. A schema without references does at most its own size of work, and is not looked at."""

    def __init__(self, schema: Any) -> None:
        self._ids: dict[int, int] = {}
        self._nodes: list[tuple[JSON, str]] = []
        self._named: dict[str, list[int]] = {}
        self._find(schema)
        self._places = [_Place((), ())] * len(self._nodes)
        self.lost: str | None = None  # a reference that we cannot follow
        for at, (node, base) in enumerate(self._nodes):
            self._places[at] = self._place(node, base)
        self._order = self._inside_first()
        self._work: list[list[int]] = []  # by depth

    def work(self, depth: int, size: int) -> int:
        """
        Steps for a value that is nested so deep and has so many parts, at most; what is beyond MOST nobody does.

        One that asks nothing twice is as much work as without references, and is never too much.
        """
        own = len(self._nodes) * (depth + 1)
        if self.lost is not None or own > MOST:
            return MOST + 1
        steps = self._steps(depth)
        return own if steps <= own else min(steps * size, MOST + 1)

    def _steps(self, depth: int) -> int:
        while len(self._work) <= depth and not (self._work and self._work[-1][0] > MOST):
            self._work.append(self._level(self._work[-1] if self._work else None))
        return self._work[min(depth, len(self._work) - 1)][0] if self._nodes else 1

    def _level(self, below: list[int] | None) -> list[int]:
        work = [1] * len(self._places)
        for at in self._order:
            place = self._places[at]
            steps = 1 + sum(work[one] for one in place.here)
            if below is not None:
                steps += max(
                    (
                        max((below[one] for one in some), default=0) + sum(below[one] for one in every)
                        for some, every in place.parts
                    ),
                    default=0,
                )
            work[at] = min(steps, MOST + 1)
        return work

    def _find(self, schema: Any) -> None:
        """Every object in it, with its base address, and the names that references may use."""
        stack: list[tuple[Any, str, str]] = [(schema, "", "")]
        while stack:
            node, base, pointer = stack.pop()
            if is_list(node):
                stack.extend((one, base, f"{pointer}/{at}") for at, one in enumerate(node))
            if not is_object(node):
                continue
            at = self._ids[id(node)] = len(self._nodes)
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


def measured(value: Any) -> tuple[int, int]:
    """How many lists and objects stand inside one another, and how many values there are in all."""
    depth, size, level = 0, 1, [value]
    while level := [
        one
        for part in level
        if is_object(part) or is_list(part)
        for one in (part.values() if is_object(part) else part)
    ]:
        depth += 1
        size += len(level)
    return depth, size
