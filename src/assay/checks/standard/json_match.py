"""
json_match (an extension to FEP): passes if two JSON values are equal, or if the expected one is part of the actual one.
"""

from collections.abc import Mapping
from contextlib import suppress
from itertools import islice
from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from assay.checks.checker import PASSED, Answer, Checker, InvalidArgument, closed_object, verdict
from assay.checks.standard.json_rules import Rules, Tolerances, differences, fits, with_tolerances
from assay.checks.standard.parse import Parse, Unparsable, parse_value, run_parsed
from assay.checks.worker_tasks import WorkerTask, is_large, offload
from assay.errors import MalformedPath
from assay.jsonpath import compile as compile_path
from assay.ports import Services
from assay.protocol.json_types import is_list, is_object

MAX_DIFFERENCES = 20
INLINE_BYTES = 2_000  # of a value whose items are compared with each other in place


class JsonMatch(Checker):
    type = "json_match"
    waits = False
    results_schema = closed_object(
        {
            "passed": {"type": "boolean"},
            "differences": {
                "type": "array",
                "items": {"type": "string"},
                "description": f"what differs and where, the first {MAX_DIFFERENCES}, if there are rules",
            },
        },
        optional=("differences",),
    )

    actual: Any
    expected: Any
    mode: Literal["equal", "subset"] = "equal"
    ordered: bool = True
    tolerances: Tolerances | UnsetType = UNSET
    negate: bool = False
    parse: Parse | UnsetType = UNSET

    def run(self, services: Services) -> Answer | WorkerTask:
        if self.parse is not UNSET:
            return run_parsed(lambda: self._parse_texts(services), services)
        if self._has_rules:
            return offload(self) if self._is_long_work() else self.answer(services)
        # the comparison visits only as many values as the smaller one has
        return offload(self) if is_large(self.actual) and is_large(self.expected) else self.answer(services)

    def _parse_texts(self, services: Services) -> "JsonMatch":
        """The check with the values that its texts hold. A text in `expected` may also stand for itself."""
        actual, expected = parse_value(self.actual, self.parse, services.limits), self.expected
        if isinstance(expected, str) and expected != actual:
            with suppress(Unparsable):
                expected = parse_value(expected, self.parse, services.limits)
        return replace(self, actual=actual, expected=expected, parse=UNSET)

    @property
    def _has_rules(self) -> bool:
        return not self.ordered or self.tolerances is not UNSET

    def _is_long_work(self) -> bool:
        """Whether each item may be compared with each, and there are many."""
        if is_large(self.actual) or is_large(self.expected):
            return True
        sizes = [len(msgspec.json.encode(one)) for one in (self.actual, self.expected)]
        return max(sizes) > INLINE_BYTES or sizes[0] * sizes[1] > INLINE_BYTES**2 // 10

    def answer(self, services: Services) -> Answer:
        if self._has_rules:
            return self._by_rules()
        compare = equal if self.mode == "equal" else is_part
        return verdict(compare(self.expected, self.actual) != self.negate)

    def _by_rules(self) -> Answer:
        rules = Rules(self.mode == "subset", self.ordered)
        expected = with_tolerances(self.expected, {} if self.tolerances is UNSET else self.tolerances)
        if fits(expected, self.actual, rules):
            return verdict(not self.negate)
        if self.negate:
            return PASSED
        found = islice(differences(expected, self.actual, rules), MAX_DIFFERENCES)
        return {"passed": False, "differences": list(found)}

    @classmethod
    def validate_literals(cls, literals: Mapping[str, Any]) -> None:
        tolerances = literals.get("tolerances", UNSET)
        for path in () if tolerances is UNSET else tolerances:
            try:
                compile_path(path)
            except MalformedPath as wrong:
                raise InvalidArgument("tolerances", str(wrong)) from None


def equal(left: Any, right: Any) -> bool:
    """
    Whether two values are equal as JSON: 1 equals 1.0, true does not equal 1, and the order of members is ignored.
    """
    if is_object(left) and is_object(right):
        return left.keys() == right.keys() and all(equal(left[name], right[name]) for name in left)
    if is_list(left) and is_list(right):
        return len(left) == len(right) and all(map(equal, left, right))
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    return left == right


def is_part(part: Any, document: Any) -> bool:
    """
    Whether every member of an object is in the other, at any depth. Lists match item by item; other values must be
    equal.
    """
    if is_object(part) and is_object(document):
        return all(name in document and is_part(part[name], document[name]) for name in part)
    if is_list(part) and is_list(document):
        return len(part) == len(document) and all(map(is_part, part, document))
    return equal(part, document)
