"""The fixture `evaluate`: an evaluation inside a test."""

from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from assay.api.agents import AgentLike
from assay.api.evaluate import evaluate_sync
from assay.errors import Refusal
from assay.fep.outputs.run_result import RunResult
from assay.protocol.json_types import JSON
from assay.pytest_plugin.case_verdict import Bar, DecideBy, decide, describe, outcome_of
from assay.pytest_plugin.cases import not_measured, read_cases, read_checks, read_outputs, record
from assay.pytest_plugin.outcome import RECORD, CaseNotPassed
from assay.pytest_plugin.samples import encode_result


class Evaluator:
    """Evaluates cases. The results of all its calls in one test are one run in the store."""

    def __init__(self, item: pytest.Item) -> None:
        self._item = item
        self._lines: list[str] = []

    def __call__(
        self,
        cases: Any,
        outputs: Any = None,
        checks: Any = None,
        *,
        agent: AgentLike | None = None,
        samples: int = 1,
        min_pass_rate: float | None = 1.0,
        decide_by: DecideBy = "estimate",
    ) -> RunResult:
        """
        Run the checks on the outputs, or on what the agent answers `samples` times for each case.

        `cases`, `outputs` and `checks` are lists, or names of files relative to the test. The test fails if fewer
        results than `min_pass_rate` pass; with None it only measures.
        """
        if min_pass_rate is not None and not 0 <= min_pass_rate <= 1:
            raise CaseNotPassed(
                f"min_pass_rate: expected a number from 0 to 1, got {min_pass_rate!r}", measured=False
            )
        if decide_by not in get_args(DecideBy):
            raise CaseNotPassed(
                f"decide_by: expected 'estimate' or 'lower_bound', got {decide_by!r}", measured=False
            )
        folder = self._item.path.parent
        try:
            result = evaluate_sync(
                read_cases(cases, folder, "cases"),
                read_outputs(folder / outputs) if isinstance(outputs, str | Path) else outputs,
                given := read_checks(checks, folder),
                agent=agent,
                trials=samples,
            )
        except Refusal as refusal:
            raise not_measured(refusal) from None
        lines = [encode_result(one) for one in result.results]
        self._lines += lines
        self._item.stash[RECORD] = record(self._item, self._item.nodeid, given, self._lines)
        if min_pass_rate is not None:
            _raise_below(Bar(min_pass_rate=min_pass_rate, decide_by=decide_by), lines)
        return result


def _raise_below(bar: Bar, lines: list[str]) -> None:
    documents: list[JSON] = [msgspec.json.decode(line) for line in lines]
    if not documents:
        raise CaseNotPassed("there was nothing to evaluate: no test cases", measured=False)
    ids = [str(document["execution_context"]["test_case"]["id"]) for document in documents]
    verdict = decide([outcome_of(document) for document in documents], bar, "result", ids)
    if not verdict.passed:
        raise CaseNotPassed(
            describe(documents, "all", title=verdict.headline), measured=verdict.passed is False
        )
