"""exact_match (FEP 2.3.5): two texts are the same, or with `negate` are not."""

from collections.abc import Mapping
from typing import Any

from assay.checks.checker import (
    FAILED,
    FALLBACK,
    PASSED,
    PASSED_SCHEMA,
    Answer,
    Canonical,
    Run,
    Text,
    verdict,
)
from assay.checks.heavy import Heavy, elsewhere, is_large
from assay.checks.json_match import JsonMatch, equal
from assay.checks.work import Work
from assay.ports import Services
from assay.protocol.canonical import exact

FOLDED = 500_000  # characters whose case is folded where the check stands


class FoldedMatch(Heavy):
    """exact_match of two values that are no strings, without case. A worker process gets the values, not their texts."""

    actual: Any
    expected: Any
    negate: bool = False

    def answer(self, services: Services) -> Answer:
        return verdict(same_folded(self.actual, self.expected) != self.negate)


def same_folded(one: Any, two: Any) -> bool:
    return exact(one).casefold() == exact(two).casefold()


class ExactMatch(Heavy):
    type = "exact_match"
    waits = False
    results_schema = PASSED_SCHEMA

    actual: Text
    expected: Text
    negate: bool = False
    case_sensitive: bool = True

    def run(self, services: Services) -> Answer | Work:
        one, two = self.actual, self.expected
        if isinstance(one, Canonical) and isinstance(two, Canonical):
            if self.case_sensitive:
                if is_large(one.value) and is_large(two.value):
                    return elsewhere(JsonMatch(actual=one.value, expected=two.value, negate=self.negate))
            elif len(one) + len(two) > FOLDED or is_large(one.value, two.value):  # both are written as text
                return elsewhere(FoldedMatch(actual=one.value, expected=two.value, negate=self.negate))
        elif not self.case_sensitive and len(one) + len(two) > FOLDED:
            return elsewhere(self)
        return self.answer(services)

    def answer(self, services: Services) -> Answer:
        return verdict(self._same() != self.negate)

    def _same(self) -> bool:
        """As texts (decision 19), but two values that are no strings as values: numbers by what they are (decision 51)."""
        one, two = self.actual, self.expected
        fold = str if self.case_sensitive else str.casefold
        if isinstance(one, Canonical) and isinstance(two, Canonical):
            if self.case_sensitive:
                return equal(one.value, two.value)
            return same_folded(one.value, two.value)
        return fold(one) == fold(two)

    @classmethod
    def compile(cls, literals: Mapping[str, Any]) -> Run | None:
        if not {"negate", "case_sensitive"} <= literals.keys():
            return None
        same, other = (FAILED, PASSED) if literals["negate"] else (PASSED, FAILED)
        exactly: bool = literals["case_sensitive"]

        def compare(one: Any, two: Any) -> Answer:
            if type(one) is not str or type(two) is not str:
                return FALLBACK
            if not exactly and len(one) + len(two) > FOLDED:
                return FALLBACK
            return same if (one == two if exactly else one.casefold() == two.casefold()) else other

        if "expected" in literals and "actual" in literals:
            return None
        known = literals.get("expected", literals.get("actual"))
        if known is None:
            return compare

        def compare_with(value: Any) -> Answer:
            return compare(value, str(known))

        return compare_with
