"""json_match (ours): two JSON values are equal, or the expected one is part of the actual one."""

from typing import Any, Literal

from assay.checks.checker import PASSED_SCHEMA, Answer, verdict
from assay.checks.heavy import Heavy, elsewhere, is_large
from assay.checks.work import Work
from assay.ports import Services
from assay.protocol.json_types import is_list, is_object


class JsonMatch(Heavy):
    type = "json_match"
    waits = False
    results_schema = PASSED_SCHEMA

    actual: Any
    expected: Any
    mode: Literal["equal", "subset"] = "equal"
    negate: bool = False

    def run(self, services: Services) -> Answer | Work:
        # the smaller one is all that is compared
        return elsewhere(self) if is_large(self.actual) and is_large(self.expected) else self.answer(services)

    def answer(self, services: Services) -> Answer:
        compare = equal if self.mode == "equal" else part_of
        return verdict(compare(self.expected, self.actual) != self.negate)


def equal(one: Any, two: Any) -> bool:
    """Equal as JSON: 1 is 1.0, but true is not 1, and the order of members does not count."""
    if is_object(one) and is_object(two):
        return one.keys() == two.keys() and all(equal(one[name], two[name]) for name in one)
    if is_list(one) and is_list(two):
        return len(one) == len(two) and all(map(equal, one, two))
    if isinstance(one, bool) or isinstance(two, bool):
        return one is two
    return one == two


def part_of(part: Any, whole: Any) -> bool:
    """Every member of an object is in the other, at any depth; lists match item by item; the rest is equality."""
    if is_object(part) and is_object(whole):
        return all(name in whole and part_of(part[name], whole[name]) for name in part)
    if is_list(part) and is_list(whole):
        return len(part) == len(whole) and all(map(part_of, part, whole))
    return equal(part, whole)
