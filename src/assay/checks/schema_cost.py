"""
An upper bound on the steps of validating a value against a JSON Schema.

The cost of a subschema is the cost of its own comparisons plus the cost of the subschemas it applies to the same value
or to its parts. References that lead to the same subschema twice double the cost at each level.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import unquote, urldefrag, urljoin

import msgspec

from assay.protocol.json_types import JSON, is_list, is_object

MAX_STEPS = 100_000_000  # steps for one value, at about 25 ns each
NESTED_STEPS = 16  # steps to compare with one list or object
_QUOTED_KEYWORDS = ("enum", "const", "required", "pattern", "dependentRequired", "format", "type")
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_METASCHEMAS = ("https://json-schema.org/", "http://json-schema.org/")


class _SchemaNode(NamedTuple):
    """The steps of a subschema's own comparisons, and the subschemas it applies to the same value and to its parts."""

    own_steps: int
    same_value: tuple[int, ...]
    parts: tuple[
        tuple[tuple[int, ...], tuple[int, ...]], ...
    ]  # for lists and for objects: a part takes one of the first tuple and all of the second


class SchemaCost:
    """The cost of one schema."""

    def __init__(self, schema: Any, *, has_references: bool = True) -> None:
        """
        `has_references=False`: the caller knows that the schema has no references, so addresses are not collected.
        """
        self._has_references = has_references
        self._ids: dict[int, int] = {}
        self._nodes: list[tuple[JSON, str]] = []
        self._by_address: dict[str, list[int]] = {}
        self._collect(schema)
        self._costs = [_SchemaNode(1, (), ())] * len(self._nodes)
        self.unresolved_reference: str | None = None  # a reference that we cannot follow
        for at, (node, base) in enumerate(self._nodes):
            self._costs[at] = self._node_cost(node, base)
        self._order = self._evaluation_order()
        self._deepest_level: list[int] | None = (
            None  # the steps of each subschema at the deepest level so far
        )
        self._steps_by_depth: list[int] = []
        self._stable = False

    def total_steps(self, depth: int, size: int) -> int:
        """The maximum number of steps for a value of this depth with `size` parts. Counting stops above MAX_STEPS."""
        if self.unresolved_reference is not None:
            return MAX_STEPS + 1
        return min(self.steps(depth) * size, MAX_STEPS + 1)

    def steps(self, depth: int) -> int:
        """The maximum number of steps for one part of a value of this depth."""
        while len(self._steps_by_depth) <= depth and not self._stable and self._nodes:
            below, self._deepest_level = self._deepest_level, self._next_level(self._deepest_level)
            self._steps_by_depth.append(
                max(self._deepest_level[0], self._steps_by_depth[-1] if self._steps_by_depth else 1)
            )
            self._stable = self._deepest_level == below or self._steps_by_depth[-1] > MAX_STEPS
        return self._steps_by_depth[min(depth, len(self._steps_by_depth) - 1)] if self._steps_by_depth else 1

    def _next_level(self, child_costs: list[int] | None) -> list[int]:
        """The steps of each subschema for a value one level deeper; the first level is a value without parts."""
        work = [0] * len(self._costs)
        for at in self._order:
            place = self._costs[at]
            steps = sum(work[one] for one in place.same_value)
            if child_costs is None:
                steps += place.own_steps
            else:
                steps += max(
                    max((child_costs[one] for one in some), default=0)
                    + sum(child_costs[one] for one in every)
                    for some, every in place.parts
                )
            work[at] = min(steps, MAX_STEPS + 1)
        return work

    def _collect(self, schema: Any) -> None:
        """Collect every object of the schema with its base address, and the addresses that references may use."""
        stack: list[tuple[Any, str, str]] = [(schema, "", "")]
        while stack:
            node, base, pointer = stack.pop()
            if is_list(node):
                stack.extend(
                    (one, base, f"{pointer}/{at}" if self._has_references else "")
                    for at, one in enumerate(node)
                )
            if not is_object(node):
                continue
            at = self._ids[id(node)] = len(self._nodes)
            if not self._has_references:
                self._nodes.append((node, base))
                stack.extend(
                    [(one, base, pointer) for one in node.values() if is_object(one) or is_list(one)]
                )
                continue
            if isinstance(own := node.get("$id"), str):
                base, pointer = urljoin(base, own), ""
            self._nodes.append((node, base))
            self._by_address.setdefault(f"{urldefrag(base)[0]}#{pointer}", []).append(at)
            for name in ("$anchor", "$dynamicAnchor"):
                if isinstance(anchor := node.get(name), str):
                    self._by_address.setdefault(f"{urldefrag(base)[0]}#{anchor}", []).append(at)
                    self._by_address.setdefault(f"#dynamic {anchor}", []).append(at)
            for name, one in node.items():
                escaped = name.replace("~", "~0").replace("/", "~1")
                stack.append((one, base, f"{pointer}/{escaped}"))

    def _node_cost(self, node: JSON, base: str) -> _SchemaNode:
        here = [
            *self._subschemas(node, "not", "if", "then", "else"),
            *self._subschemas_in_lists(node, "allOf", "anyOf", "oneOf"),
        ]
        here += [
            *self._subschemas_in_map(node, "dependentSchemas"),
            *self._subschemas_in_map(node, "dependencies"),
        ]
        for name in _REFERENCES:
            if isinstance(address := node.get(name), str):
                here += self._resolve(address, base, dynamic=name != "$ref")
        items = node.get("items")
        one_of = [
            *self._subschemas_in_lists(node, "prefixItems"),
            *(self._subschemas_in_lists(node, "items") if is_list(items) else ()),
        ]
        every = self._subschemas(node, "items", "additionalItems", "contains", "unevaluatedItems")
        members = self._subschemas(node, "additionalProperties", "unevaluatedProperties", "propertyNames")
        return _SchemaNode(
            _own_steps(node),
            tuple(here),
            (
                (tuple(one_of), tuple(every)),
                (
                    tuple(self._subschemas_in_map(node, "properties")),
                    (*self._subschemas_in_map(node, "patternProperties"), *members),
                ),
            ),
        )

    def _resolve(self, address: str, base: str, *, dynamic: bool) -> list[int]:
        document_address, fragment = urldefrag(urljoin(base, address))
        targets = self._by_address.get(f"{document_address}#{unquote(fragment)}", [])
        if dynamic:
            targets = [*targets, *self._by_address.get(f"#dynamic {fragment}", [])]
        if not targets and document_address.startswith(_METASCHEMAS):
            return []
        if not targets:
            self.unresolved_reference = address
        return list(dict.fromkeys(targets))

    def _evaluation_order(self) -> list[int]:
        """An order in which the subschemas applied to the same value come before a subschema. Cycles are cut."""
        order: list[int] = []
        state = bytearray(len(self._costs))
        for first in range(len(self._costs)):
            stack = [first]
            while stack:
                at = stack[-1]
                if state[at] == 0:
                    state[at] = 1
                    stack.extend(one for one in self._costs[at].same_value if state[one] == 0)
                else:
                    stack.pop()
                    if state[at] == 1:
                        state[at] = 2
                        order.append(at)
        return order

    def _subschemas(self, node: JSON, *names: str) -> list[int]:
        return [self._ids[id(node[name])] for name in names if is_object(node.get(name))]

    def _subschemas_in_lists(self, node: JSON, *names: str) -> Iterator[int]:
        for name in names:
            if is_list(some := node.get(name)):
                yield from (self._ids[id(one)] for one in some if is_object(one))

    def _subschemas_in_map(self, node: JSON, name: str) -> Iterator[int]:
        if is_object(some := node.get(name)):
            yield from (self._ids[id(one)] for one in some.values() if is_object(one))


def longest_keyword(schema: Any) -> int:
    """The length of the longest part of a schema that one error message quotes."""
    longest, stack = 0, [schema]
    while stack:
        node = stack.pop()
        if is_list(node):
            stack.extend(node)
        elif is_object(node):
            stack.extend(node.values())
            quoted = [node[name] for name in _QUOTED_KEYWORDS if name in node]
            longest = max(longest, sum(len(msgspec.json.encode(one)) for one in quoted))
    return longest


def _own_steps(node: JSON) -> int:
    """
    The steps of a subschema's own comparisons: required names, and lists and objects in an enum. Scalars are found by
    hash.
    """
    steps = 1
    for name in ("required", "properties", "patternProperties", "dependentRequired", "dependencies"):
        some = node.get(name)
        if is_list(some) or is_object(some):
            steps += len(some)
    for name in ("enum", "const"):
        if is_list(some := node.get(name)):
            steps += NESTED_STEPS * sum(is_list(one) or is_object(one) for one in some)
    return steps


class Size(NamedTuple):
    """The depth of a value, the number of its parts, and the characters of all its texts."""

    depth: int
    parts: int
    characters: int


def measure(value: Any) -> Size:
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
