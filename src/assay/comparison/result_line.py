"""One line of results, decoded as far as a comparison needs it: arguments and outputs are skipped."""

from typing import Any

import msgspec
from msgspec import Struct

from assay.errors import InvalidRequest, Problem
from assay.protocol.json_types import JSON, is_list, is_object
from assay.protocol.results import Status
from assay.results.reasons import number_of, own_score_of, passed_of, score_of
from assay.results.spending import cost_of_check

BESIDE = "beside: "  # begins the name of a check that is beside a scorecard (`assay run --checks`)
EXPECTED = "expected a result with execution_context and check_results, as `assay evaluate -o` writes it"


class CheckLine(Struct):
    check_type: str
    status: Status
    results: JSON
    metadata: Any = None

    @property
    def label(self) -> str:
        name = self.metadata.get("check_name") if is_object(self.metadata) else None
        return name if isinstance(name, str) and name else self.check_type

    @property
    def document(self) -> JSON:
        return {"results": self.results}

    @property
    def has_verdict_alone(self) -> bool:
        """Whether it says pass or fail, and has no score."""
        return self.passed is not None and (len(self.results) == 1 or own_score_of(self.document) is None)

    @property
    def passed(self) -> bool | None:
        passed = self.results.get("passed")
        return passed if isinstance(passed, bool) else passed_of(self.document)


class _Output(Struct):
    metadata: Any = None


class _Context(Struct):
    test_case: JSON
    output: _Output


class ResultLine(Struct):
    """A TestCaseResult: one trial of one case."""

    status: Status
    execution_context: _Context
    check_results: list[CheckLine]

    @property
    def case(self) -> JSON:
        return self.execution_context.test_case

    @property
    def is_beside(self) -> bool:
        """Whether it has only checks that do not count for the score."""
        checks = self.check_results
        if not checks or not checks[0].label.startswith(BESIDE):
            return False
        return all(check.label.startswith(BESIDE) for check in checks)

    @property
    def judges_usd(self) -> float | None:
        """What the judges of the trial cost, as far as it is known; None if nothing is."""
        costs = [cost_of_check(check.results, check.metadata) for check in self.check_results]
        known = [cost for cost in costs if cost is not None]
        return sum(known) if known else None

    def criteria(self, check: CheckLine) -> list[tuple[str, bool, float]]:
        """The criteria of a rubric: the text of each, whether it is met, and its weight. Empty for any other check."""
        response = check.results.get("response")
        if not is_object(response):
            return []
        listed = self.case.get("expected")
        declared: list[Any] = listed if is_list(listed) else []
        found: list[tuple[str, bool, float]] = []
        for at, (name, one) in enumerate(response.items()):
            if not is_object(one) or not isinstance(met := one.get("met"), bool):
                return []
            item = declared[at] if at < len(declared) else None
            about: JSON = item if is_object(item) else {}
            text, weight = about.get("criterion"), number_of(about.get("weight"))
            found.append((text if isinstance(text, str) else name, met, 1.0 if weight is None else weight))
        return found

    def score(self, check: CheckLine) -> float | None:
        """The score of a check: what it reports, the weight of the met criteria, or 1 and 0 for pass and fail."""
        if len(check.results) == 1 and isinstance(passed := check.results.get("passed"), bool):
            return float(passed)
        if (score := score_of(check.document)) is not None:
            return score
        criteria = self.criteria(check)
        total = sum(weight for _, _, weight in criteria)
        return sum(weight for _, met, weight in criteria if met) / total if total else None


_decode = msgspec.json.Decoder(ResultLine).decode


def read_line(raw: bytes, location: str) -> ResultLine:
    """Decode a line; an InvalidRequest says what is wrong with it and where."""
    try:
        line = _decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as wrong:
        raise InvalidRequest(Problem(location, f"{EXPECTED}: {_reason(wrong)}")) from None
    if not isinstance(line.case.get("id"), str) or not line.case["id"]:
        raise InvalidRequest(Problem(location, "expected test_case.id, a text: cases are paired by their id"))
    return line


def _reason(wrong: Exception) -> str:
    return "nested too deeply" if isinstance(wrong, RecursionError) else str(wrong)
