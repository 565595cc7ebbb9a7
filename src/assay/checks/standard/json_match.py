"""
json_match (an extension to FEP): passes if two JSON values are equal, or if the expected one is part of the actual one.
"""

from contextlib import suppress
from typing import Any, Literal

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from assay.checks.checker import PASSED_SCHEMA, Answer, Checker, verdict
from assay.checks.standard.parse import Parse, Unparsable, parse_value, run_parsed
from assay.checks.worker_tasks import WorkerTask, is_large, offload
from assay.ports import Services
from assay.protocol.json_types import is_list, is_object


class JsonMatch(Checker):
    type = "json_match"
    waits = False
    results_schema = PASSED_SCHEMA

    actual: Any
    expected: Any
    mode: Literal["equal", "subset"] = "equal"
    negate: bool = False
    parse: Parse | UnsetType = UNSET

    def run(self, services: Services) -> Answer | WorkerTask:
        if self.parse is not UNSET:
            return run_parsed(lambda: self._parse_texts(services), services)
        # the comparison visits only as many values as the smaller one has
        return offload(self) if is_large(self.actual) and is_large(self.expected) else self.answer(services)

    def _parse_texts(self, services: Services) -> "JsonMatch":
        """The check with the values that its texts hold. A text in `expected` may also stand for itself."""
        actual, expected = parse_value(self.actual, self.parse, services.limits), self.expected
        if isinstance(expected, str) and expected != actual:
            with suppress(Unparsable):
                expected = parse_value(expected, self.parse, services.limits)
        return replace(self, actual=actual, expected=expected, parse=UNSET)

    def answer(self, services: Services) -> Answer:
        compare = equal if self.mode == "equal" else is_part
        return verdict(compare(self.expected, self.actual) != self.negate)


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
