"""The cases of a mark or a data file: reads and validates them at collection, and runs one of them as a test."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from msgspec import Struct

from assay.api.agents import empty_outputs
from assay.api.evaluate import evaluate_sync
from assay.api.evaluation import with_functions, with_short_forms
from assay.api.load import load_cases
from assay.checks.runner import ResultOptions
from assay.errors import BadLine, InvalidRequest, Problem, Refusal
from assay.fep.planning.request import contexts_in, plan_of, scorers_of
from assay.fep.planning.sources import checks_in
from assay.host import parts
from assay.inputs.row_files import items_of
from assay.protocol.evaluation import TestCase
from assay.protocol.json_types import JSON
from assay.protocol.results import TestCaseResult
from assay.pytest_plugin.case_verdict import Bar, decide, describe, outcome_of, sample_outcomes
from assay.pytest_plugin.outcome import CASE, RECORD, CaseNotPassed, variant_of
from assay.pytest_plugin.samples import argument_names, call_samples, encode_result, score_samples
from assay.settings import load
from assay.terminal import lines as terminal_lines

COLUMNS = (CASE, "test_case", "input")  # the parameters of an item that come from its case


class CaseGroup(Struct, kw_only=True):
    """The cases that one function or one data file measures. They are one run in the store."""

    name: str  # the node id of the function or the file
    cases: list[JSON]
    checks: Any = None
    samples: int = 1
    bar: Bar = Bar()
    agent: Any = None  # of the mark; None: the function

    def results(self, case: JSON, item: pytest.Function, arguments: dict[str, Any]) -> list[TestCaseResult]:
        """A result for each sample: of the agent, or of the function with these arguments."""
        try:
            if self.agent is None:
                return score_samples(case, self.checks, call_samples(item.obj, arguments, self.samples))
            return evaluate_sync([case], checks=self.checks, agent=self.agent, trials=self.samples).results
        except Refusal as refusal:
            raise not_measured(refusal) from None


class CaseRun(Struct):
    """One case of a group, as the parameter of an item."""

    group: CaseGroup
    index: int

    @property
    def case(self) -> JSON:
        return self.group.cases[self.index]

    def run(self, item: pytest.Function) -> None:
        """Call the function of the item for the case, record the results, and raise if they do not pass."""
        arguments = {name: item.funcargs[name] for name in argument_names(item)}
        judge_case(item, self.group, self.index, self.group.results(self.case, item, arguments))


class SampleRun(Struct):
    """
    All cases of a group, as the parameter of one item: a sample passes if every case passes in it
    (`pass_mode="sample"`).
    """

    group: CaseGroup

    def run(self, item: pytest.Function) -> None:
        """Call the function of the item for each case, record the results, and raise if too few samples pass."""
        names = argument_names(item)
        group, lines = self.group, list[str]()
        for case in group.cases:
            own = {"test_case": test_case_of(case), "input": case["input"]}
            arguments = {name: own.get(name, item.funcargs[name]) for name in names}
            lines += map(encode_result, group.results(case, item, arguments))
        item.stash[RECORD] = record(item, group.name + variant_of(item, COLUMNS), group.checks, lines)
        documents: list[JSON] = [msgspec.json.decode(line) for line in lines]
        mode, size = group.bar.check_mode, group.samples
        outcomes = [outcome_of(document, mode) for document in documents]
        verdict = decide(
            sample_outcomes([outcomes[at : at + size] for at in range(0, len(outcomes), size)]), group.bar
        )
        if not verdict.passed:
            title = f"{verdict.headline}; a sample passes if all {len(group.cases)} cases pass in it"
            raise CaseNotPassed(describe(documents, mode, title=title), measured=verdict.passed is False)


def judge_case(item: pytest.Item, group: CaseGroup, index: int, results: Sequence[TestCaseResult]) -> None:
    """Record the results of a case on its item. Raise CaseNotPassed if they are below the bar."""
    lines = [encode_result(result) for result in results]
    name = group.name + variant_of(item, COLUMNS)
    item.stash[RECORD] = record(item, name, group.checks, lines, index)
    documents: list[JSON] = [msgspec.json.decode(line) for line in lines]
    mode = group.bar.check_mode
    verdict = decide([outcome_of(document, mode) for document in documents], group.bar)
    if verdict.passed:
        return
    title = verdict.headline if len(documents) > 1 else ""
    raise CaseNotPassed(describe(documents, mode, title=title), measured=verdict.passed is False)


def record(item: pytest.Item, group: str, checks: Any, lines: Sequence[str], index: int = 0) -> str:
    """What the report of an item carries to the process that stores the run."""
    try:
        stored = None if checks is None else msgspec.to_builtins(checks)
    except TypeError:  # a function among them
        stored = None
    document = {"group": group, "item": item.nodeid, "index": index, "checks": stored, "lines": lines}
    return msgspec.json.encode(document).decode()


def not_measured(refusal: Refusal) -> CaseNotPassed:
    return CaseNotPassed("\n".join(map(terminal_lines, refusal.lines)), measured=False)


def read_cases(source: Any, folder: Path, place: str) -> list[JSON]:
    """The cases of a list, or of a file whose name is relative to the test's folder."""
    if isinstance(source, str | Path):
        return load_cases(folder / source)
    if not isinstance(source, Sequence):
        message = f"expected a list of cases or the name of a file, got {type(source).__name__}"
        raise InvalidRequest(Problem(place, message))
    return [
        msgspec.to_builtins(case) if isinstance(case, TestCase) else case
        for case in cast("Sequence[Any]", source)
    ]


def read_outputs(path: Path) -> list[JSON]:
    """The outputs of a file."""
    outputs: list[JSON] = []
    for item in items_of(str(path), load().limits, "output", None):
        if item.problems:
            raise BadLine(item.location, item.problems)
        try:
            outputs.append(msgspec.json.decode(item.raw, type=dict[str, Any]))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as wrong:
            raise InvalidRequest(Problem(item.location, f"expected an output: {wrong}")) from None
    return outputs


def read_checks(source: Any, folder: Path) -> Any:
    """The checks of a list, or of a file whose name is relative to the test's folder."""
    if isinstance(source, str | Path):
        return checks_in(str(folder / source), load().limits)
    return with_short_forms(source)


def validate(cases: Sequence[JSON], checks: Any) -> None:
    """Refuse cases or checks that could never be measured, with every problem, before anything runs."""
    settings = load()
    parsed = contexts_in(cases, empty_outputs(cases), settings.limits)
    checks, available = with_functions(checks, parts.registry(settings))
    if parsed.problems:
        raise InvalidRequest(parsed.problems)
    if not cases:
        raise InvalidRequest("expected at least one case, got none")
    if checks is None and (bare := [case["id"] for case in cases if not case.get("checks")]):
        raise InvalidRequest(
            Problem("checks", f"case {bare[0]!r} has no checks: name them in the mark or in the case")
        )
    scorers_of(plan_of(checks, available, parts.services(settings), ResultOptions()), parsed)


def test_case_of(case: Mapping[str, Any]) -> TestCase:
    """The case as the function receives it."""
    return msgspec.convert(case, TestCase)
