"""
summary_quality: a judge says whether a summary is faithful, complete, coherent and concise, in one call. Agreement with
people: not measured.

It passes if all four criteria are met.
"""

from collections.abc import Sequence
from typing import Any, Final

from assay.checks.judges.ready_judge import INPUT, OUTPUT
from assay.checks.judges.rubric import CriteriaJudge, Criterion

CRITERIA: Final = (
    Criterion(
        name="faithful",
        criterion="Everything in the summary follows from the source; nothing contradicts it or is added.",
    ),
    Criterion(
        name="complete",
        criterion="The summary has every main point of the source; no point that a reader needs is missing.",
    ),
    Criterion(
        name="coherent",
        criterion="The summary can be understood without the source; its sentences follow from each other.",
    ),
    Criterion(
        name="concise",
        criterion="The summary repeats nothing, has no minor details, and is clearly shorter than the source.",
    ),
)


class SummaryQuality(CriteriaJudge):
    type = "summary_quality"
    default_paths = {"source": INPUT, "output": OUTPUT}  # noqa: RUF012  # declared a ClassVar in Checker
    question = """You judge `output`, a summary of `source`, by criteria. They are in `criteria`, numbered from 1.
For each, first weigh in `reason` what speaks for and against it, then say in `met` whether the summary meets it. \
Judge each criterion by itself; a criterion that the summary meets in part is not met."""

    source: Any
    output: Any

    def all_criteria(self) -> Sequence[Criterion]:
        return CRITERIA

    def material(self) -> dict[str, Any]:
        return {"criteria": [one.criterion for one in CRITERIA], "source": self.source, "output": self.output}
