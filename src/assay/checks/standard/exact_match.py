"""exact_match (FEP 2.3.5): passes if two texts are equal, or with `negate` if they differ."""

from collections.abc import Mapping
from typing import Any

from assay.checks.checker import (
    FAILED,
    FALLBACK,
    PASSED,
    PASSED_SCHEMA,
    Answer,
    Canonical,
    Checker,
    Run,
    Text,
    verdict,
)
from assay.checks.standard.json_match import JsonMatch, equal
from assay.checks.worker_tasks import WorkerTask, is_large, offload
from assay.ports import Services
from assay.protocol.canonical import exact

FOLD_LIMIT = 500_000  # characters whose case is folded in place


class FoldedMatch(Checker):
    """
    exact_match of two values that are not strings, ignoring case. A worker process gets the values, not their texts.
    """

    actual: Any
    expected: Any
    negate: bool = False

    def answer(self, services: Services) -> Answer:
        return verdict(equal_folded(self.actual, self.expected) != self.negate)


def equal_folded(left: Any, right: Any) -> bool:
    return exact(left).casefold() == exact(right).casefold()


class ExactMatch(Checker):
    type = "exact_match"
    waits = False
    results_schema = PASSED_SCHEMA

    actual: Text
    expected: Text
    negate: bool = False
    case_sensitive: bool = True

    def run(self, services: Services) -> Answer | WorkerTask:
        actual, expected = self.actual, self.expected
        if isinstance(actual, Canonical) and isinstance(expected, Canonical):
            if self.case_sensitive:
                if is_large(actual.value) and is_large(expected.value):
                    return offload(
                        JsonMatch(actual=actual.value, expected=expected.value, negate=self.negate)
                    )
            elif len(actual) + len(expected) > FOLD_LIMIT or is_large(
                actual.value, expected.value
            ):  # both are written as text
                return offload(FoldedMatch(actual=actual.value, expected=expected.value, negate=self.negate))
        elif not self.case_sensitive and len(actual) + len(expected) > FOLD_LIMIT:
            return offload(self)
        return self.answer(services)

    def answer(self, services: Services) -> Answer:
        return verdict(self._same() != self.negate)

    def _same(self) -> bool:
        """Compare as texts (FEP-19). Two values that are not strings are compared as JSON values (FEP-51)."""
        actual, expected = self.actual, self.expected
        fold = str if self.case_sensitive else str.casefold
        if isinstance(actual, Canonical) and isinstance(expected, Canonical):
            if self.case_sensitive:
                return equal(actual.value, expected.value)
            return equal_folded(actual.value, expected.value)
        return fold(actual) == fold(expected)

    @classmethod
    def compile(cls, literals: Mapping[str, Any]) -> Run | None:
        if not {"negate", "case_sensitive"} <= literals.keys():
            return None
        same, other = (FAILED, PASSED) if literals["negate"] else (PASSED, FAILED)
        exactly: bool = literals["case_sensitive"]

        def compare(left: Any, right: Any) -> Answer:
            if type(left) is not str or type(right) is not str:
                return FALLBACK
            if not exactly and len(left) + len(right) > FOLD_LIMIT:
                return FALLBACK
            return same if (left == right if exactly else left.casefold() == right.casefold()) else other

        if "expected" in literals and "actual" in literals:
            return None
        constant = literals.get("expected", literals.get("actual"))
        if constant is None:
            return compare

        def compare_with(value: Any) -> Answer:
            return compare(value, str(constant))

        return compare_with
