"""
The first workload through pydantic-evals, in its own environment: `python with_pydantic.py CONTEXTS CHECKS RESULTS`.

It has no regex, no threshold and no paths: each check is an evaluator of a line or two. The task hands back the
recorded output. Prints one JSON line: CPU seconds from file to file, and how many checks passed.
"""

import json
import re
import resource
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic_evals import Case, Dataset
from pydantic_evals.evaluators import Evaluator, EvaluatorContext
from pydantic_evals.reporting import EvaluationReportAdapter


@dataclass
class ExactMatch(Evaluator):
    def evaluate(self, ctx: EvaluatorContext) -> bool:
        return ctx.output["value"]["answer"] == ctx.expected_output


@dataclass
class Contains(Evaluator):
    phrases: list[str]

    def evaluate(self, ctx: EvaluatorContext) -> bool:
        return all(phrase in ctx.output["value"]["text"] for phrase in self.phrases)


@dataclass
class Regex(Evaluator):
    pattern: str

    def evaluate(self, ctx: EvaluatorContext) -> bool:
        return re.search(self.pattern, ctx.output["value"]["text"]) is not None


@dataclass
class Threshold(Evaluator):
    min_value: float

    def evaluate(self, ctx: EvaluatorContext) -> bool:
        return ctx.output["value"]["trace"]["quality"]["scores"]["confidence"] >= self.min_value


def cpu() -> float:
    use = resource.getrusage(resource.RUSAGE_SELF)
    return use.ru_utime + use.ru_stime


def evaluators(checks: list[dict[str, Any]]) -> list[Evaluator]:
    given = {check["type"]: check["arguments"] for check in checks}
    return [
        ExactMatch(),
        Contains(given["contains"]["phrases"]),
        Regex(given["regex"]["pattern"]),
        Threshold(given["threshold"]["min_value"]),
    ]


def main(contexts: str, checks: str, results: str) -> None:
    began = cpu()
    with Path(contexts).open("rb") as file:
        pairs = [json.loads(line) for line in file]
    cases = [
        Case(
            name=pair["test_case"]["id"],
            inputs=pair,
            expected_output=pair["test_case"]["expected"],
            metadata=pair["test_case"]["metadata"],
        )
        for pair in pairs
    ]
    dataset = Dataset(
        name="workload", cases=cases, evaluators=evaluators(json.loads(Path(checks).read_text("utf-8")))
    )
    report = dataset.evaluate_sync(lambda pair: pair["output"], progress=False)
    Path(results).write_bytes(EvaluationReportAdapter.dump_json(report))
    spent = cpu() - began
    passed = sum(one.value for case in report.cases for one in case.assertions.values())
    print(json.dumps({"cpu": spent, "passed": passed}))


if __name__ == "__main__":
    main(*sys.argv[1:])
