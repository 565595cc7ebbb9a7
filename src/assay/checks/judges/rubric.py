"""
rubric: a judge decides several criteria in one call, each with its reason. Agreement with people: not measured.

The score is the share of weight of the criteria that are met. It passes from `bar` on.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from math import fsum
from typing import Annotated, Any

from msgspec import Meta, Struct

from assay.checks.checker import InvalidArgument, closed_object
from assay.checks.judges.ready_judge import INPUT, OUTPUT, REASON, ReadyJudge
from assay.checks.standard.judge_panel import require_majority
from assay.checks.standard.model_usage import ModelUsage
from assay.errors import ValueFault
from assay.ports import Services
from assay.protocol.json_types import is_list, is_object

MAX_CRITERIA = 50
Text = Annotated[str, Meta(min_length=1)]
RESULTS = closed_object(
    {
        "passed": {"type": "boolean"},
        "score": {"type": "number", "description": "the share of weight of the criteria that are met"},
        "response": {"type": "object", "description": "by the name of the criterion: reason and met"},
        "metadata": {"type": "object", "description": "judge, provider, model, cost_usd, tokens_used, …"},
    }
)


class Criterion(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A criterion; its name is its text if it has no other."""

    criterion: Text
    name: Text | None = None
    weight: Annotated[float, Meta(gt=0)] = 1.0

    @property
    def label(self) -> str:
        return self.name or self.criterion


class CriteriaJudge(ReadyJudge):
    """A judge that decides several criteria in one call."""

    results_schema = RESULTS
    question = """You judge `output`, the answer to `request`, by criteria. They are in `criteria`, numbered from 1.
For each, first weigh in `reason` what speaks for and against it, then say in `met` whether the output meets it. \
Judge each criterion by itself; a criterion that the output meets in part is not met."""

    def all_criteria(self) -> Sequence[Criterion]:
        raise TypeError(f"{type(self).__name__} has no all_criteria()")

    def least(self) -> float:
        """The share of weight that passes."""
        return 1.0

    def response_format(self) -> dict[str, Any]:
        one = closed_object({"reason": REASON, "met": {"type": "boolean"}})
        return closed_object({f"criterion_{at}": one for at in range(1, len(self.all_criteria()) + 1)})

    async def answer(
        self, services: Services, usages: list[ModelUsage]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        response, about = await self.asks(self.material()).ask(services, usages)
        criteria = self.all_criteria()
        names = {f"criterion_{at}": one.label for at, one in enumerate(criteria, 1)}
        met = {names[key]: answer for key, answer in response.items()}
        gained = fsum(one.weight for one in criteria if met[one.label]["met"])
        score = min(1.0, round(gained / fsum(one.weight for one in criteria), 12))
        if "panel" in about:
            about = about | {"panel": _named(about["panel"], names)}
        return {"passed": score >= self.least(), "score": score, "response": met}, about


def _named(panel: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """The numbers of a panel with the votes by the names of the criteria."""
    votes: Mapping[str, Any] = panel["votes"]
    return {**panel, "votes": {names[path.partition(".")[0]]: given for path, given in votes.items()}}


class Rubric(CriteriaJudge):
    type = "rubric"
    default_paths = {"input": INPUT, "output": OUTPUT}  # noqa: RUF012  # declared a ClassVar in Checker

    criteria: Annotated[list[str | Criterion], Meta(min_length=1, max_length=MAX_CRITERIA)]
    input: Any
    output: Any
    bar: Annotated[float, Meta(ge=0, le=1)] = 1.0

    def __post_init__(self) -> None:
        if (twice := _twice(self.criteria)) is not None:
            raise ValueFault(f"criteria: the name {twice!r} occurs twice")

    def all_criteria(self) -> Sequence[Criterion]:
        return [Criterion(criterion=one) if isinstance(one, str) else one for one in self.criteria]

    def least(self) -> float:
        return self.bar

    def material(self) -> dict[str, Any]:
        texts = [one.criterion for one in self.all_criteria()]
        return {"request": self.input, "output": self.output, "criteria": texts}

    @classmethod
    def validate_literals(cls, literals: Mapping[str, Any]) -> None:
        require_majority(literals)
        criteria = literals.get("criteria")
        if is_list(criteria):
            if any(one == "" for one in criteria):
                raise InvalidArgument("criteria", "expected texts, got an empty one")
            if (twice := _twice(criteria)) is not None:
                raise InvalidArgument("criteria", f"the name {twice!r} occurs twice: names must differ")


def _twice(criteria: Sequence[Any]) -> str | None:
    """A name that two criteria have."""
    names = Counter(_label(one) for one in criteria)
    return next((name for name, count in names.items() if count > 1), None)


def _label(one: Any) -> str:
    if is_object(one):
        return str(one.get("name") or one.get("criterion"))
    return one.label if isinstance(one, Criterion) else str(one)
