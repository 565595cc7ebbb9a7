"""contains (FEP 2.3.5): passes if a text contains all phrases, or with `negate` none of them."""

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Meta

from assay.checks.checker import (
    FAILED,
    FALLBACK,
    PASSED,
    PASSED_SCHEMA,
    Answer,
    Checker,
    Phrase,
    Run,
    Text,
    verdict,
)
from assay.checks.worker_tasks import WorkerTask, offload
from assay.ports import Services

SEARCH_LIMIT = 16_000_000  # characters that are searched in place, for all phrases together


class Contains(Checker):
    type = "contains"
    waits = False
    results_schema = PASSED_SCHEMA

    text: Text
    phrases: Annotated[list[Phrase], Meta(min_length=1)]
    negate: bool = False
    case_sensitive: bool = True

    def run(self, services: Services) -> Answer | WorkerTask:
        if len(self.text) * len(self.phrases) > SEARCH_LIMIT:
            return offload(self, "phrases", "negate", "case_sensitive")
        return self.answer(services)

    def answer(self, services: Services) -> Answer:
        fold = str if self.case_sensitive else str.casefold
        text = fold(self.text)
        matches = [fold(phrase) in text for phrase in self.phrases]
        return verdict(not any(matches) if self.negate else all(matches))

    @classmethod
    def compile(cls, literals: Mapping[str, Any]) -> Run | None:
        if set(literals) != {"phrases", "negate", "case_sensitive"}:
            return None
        exactly: bool = literals["case_sensitive"]
        phrases: list[str] = [one if exactly else one.casefold() for one in literals["phrases"]]
        negate: bool = literals["negate"]
        longest = SEARCH_LIMIT // len(phrases)
        found, missing = (FAILED, PASSED) if negate else (PASSED, FAILED)

        def search(text: Any) -> Answer:
            if type(text) is not str or len(text) > longest:
                return FALLBACK
            if not exactly:
                text = text.casefold()
            for phrase in phrases:
                if (phrase in text) is negate:
                    return FAILED
            return PASSED

        if len(phrases) == 1 and exactly:
            (phrase_alone,) = phrases

            def look_for_it(text: Any) -> Answer:
                if type(text) is not str or len(text) > SEARCH_LIMIT:
                    return FALLBACK
                return found if phrase_alone in text else missing

            return look_for_it
        return search
