"""
has_items (an extension to FEP): passes if a list has all required items, optionally in order, and no forbidden one.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from msgspec import UNSET, UnsetType, field
from msgspec.structs import replace

from assay.checks.checker import Answer, Checker, closed_object
from assay.checks.standard.parse import Parse, Unparsable, parse_value, run_parsed
from assay.checks.worker_tasks import WorkerTask, is_large, offload
from assay.ports import Limits, Services
from assay.protocol.canonical import exact
from assay.protocol.json_types import is_list, kind_of


class Absent(list[Any]):
    """The empty list of an argument that the caller did not give."""


class HasItems(Checker):
    type = "has_items"
    waits = False
    results_schema = closed_object(
        {
            "passed": {"type": "boolean"},
            "missing": {"type": "array", "description": "required items that are not there, or not in order"},
            "forbidden": {"type": "array", "description": "forbidden items that are there"},
        },
        optional=("missing", "forbidden"),
    )

    items: list[Any]
    required_items: list[Any] = field(default_factory=Absent)
    forbidden_items: list[Any] = field(default_factory=Absent)
    ordered: bool = False
    parse: Parse | UnsetType = UNSET

    def run(self, services: Services) -> Answer | WorkerTask:
        if self.parse is not UNSET:
            return run_parsed(lambda: self._parse_texts(services), services)
        if is_large(self.items, self.required_items, self.forbidden_items):
            return offload(self)
        return self.answer(services)

    def _parse_texts(self, services: Services) -> "HasItems":
        return replace(self, items=parse_items(self.items, self.parse, services.limits), parse=UNSET)

    def answer(self, services: Services) -> Answer:
        items = [item_key(item) for item in self.items]
        missing = (_missing_in_order if self.ordered else _missing)(self.required_items, items)
        there = frozenset(items) if self.forbidden_items else frozenset[str]()
        forbidden = [one for one in self.forbidden_items if item_key(one) in there]
        answer: dict[str, Any] = {"passed": not missing and not forbidden}
        if missing:
            answer["missing"] = missing
        if forbidden:
            answer["forbidden"] = forbidden
        return answer

    @classmethod
    def validate_literals(cls, literals: Mapping[str, Any]) -> None:
        """Raise ValueError if both lists are absent. An empty list, as a literal or from a path, requires nothing."""
        if all(isinstance(literals.get(name), Absent) for name in ("required_items", "forbidden_items")):
            raise ValueError("expected required_items, forbidden_items or both, got neither")


def parse_items(items: list[Any], mode: Parse | UnsetType, limits: Limits) -> list[Any]:
    """The list that a single text holds as JSON. With "number", every item that is a text is read as a number."""
    if mode == "number":
        return [parse_value(item, mode, limits) for item in items]
    if len(items) != 1 or not isinstance(items[0], str):
        return items
    parsed = parse_value(items[0], mode, limits)
    if not is_list(parsed):
        raise Unparsable(f"expected a JSON list, got {kind_of(parsed)}")
    return parsed


def item_key(item: Any) -> str:
    """
    A text that is the same for two items if and only if they are equal as JSON. The hashes of texts cannot be made to
    collide.
    """
    return f'"{item}' if isinstance(item, str) else exact(item)


def _missing(required: list[Any], items: list[str]) -> list[Any]:
    """The required items that are missing. An item that is required twice must occur twice."""
    left = Counter(items)
    missing: list[Any] = []
    for one in required:
        key = item_key(one)
        if left[key]:
            left[key] -= 1
        else:
            missing.append(one)
    return missing


def _missing_in_order(required: list[Any], items: list[str]) -> list[Any]:
    """The required items that are missing or not in order. Other items may occur between them."""
    rest = iter(items)
    for at, one in enumerate(required):
        if item_key(one) not in rest:
            return required[at:]
    return []
