"""Data files beside tests: `cases.jsonl` with `checks.yaml`, and suites, become items without Python code."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from assay.api.evaluate import evaluate_sync
from assay.api.load import load_cases
from assay.errors import Refusal
from assay.fep.planning.sources import checks_in
from assay.protocol.json_types import JSON
from assay.pytest_plugin.cases import CaseGroup, judge_case, not_measured, read_outputs, validate
from assay.pytest_plugin.mark_options import NO_AGENT, agent_option
from assay.pytest_plugin.outcome import CaseNotPassed
from assay.settings import load
from assay.terminal import lines as terminal_lines

OUTPUTS, CHECKS = "outputs.jsonl", "checks.yaml"


def collector_for(path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """The collector of a data file; None for a file of another tool by the same name."""
    if path.name == "cases.jsonl":
        if not (path.parent / CHECKS).is_file():
            return None
        return CasesFile.from_parent(parent, path=path)  # pyright: ignore[reportUnknownMemberType]
    if b"suiteId" not in path.read_bytes():
        return None
    from assay.pytest_plugin.suites import SuiteFile  # deferred import: most data files are cases

    return SuiteFile.from_parent(parent, path=path)  # pyright: ignore[reportUnknownMemberType]


class CasesFile(pytest.File):
    """`cases.jsonl` and `checks.yaml`: one item for each case."""

    def collect(self) -> Iterable["CaseItem"]:
        try:
            documents = load_cases(self.path)
            checks = checks_in(str(self.path.with_name(CHECKS)), load().limits)
            cases, outputs = _pairs(documents)
            beside = self.path.with_name(OUTPUTS)
            if outputs is None and beside.is_file():
                outputs = read_outputs(beside)
                if len(outputs) != len(cases):
                    raise self.CollectError(
                        f"{OUTPUTS} has {len(outputs)} outputs for {len(cases)} cases: expected one for each"
                    )
            validate(cases, checks)
        except Refusal as refusal:
            raise self.CollectError("\n".join(map(terminal_lines, refusal.lines))) from None
        group = CaseGroup(name=self.nodeid, cases=cases, checks=checks)
        for index, case in enumerate(cases):
            output = None if outputs is None else outputs[index]
            yield CaseItem.from_parent(  # pyright: ignore[reportUnknownMemberType]
                self, name=str(case["id"]), group=group, index=index, output=output
            )


def _pairs(documents: list[JSON]) -> tuple[list[JSON], list[JSON] | None]:
    """The cases, and their outputs if each line has both."""
    if documents and all(document.keys() == {"test_case", "output"} for document in documents):
        return [one["test_case"] for one in documents], [one["output"] for one in documents]
    return documents, None


class CaseItem(pytest.Item):
    """One case of a data file."""

    def __init__(self, *, group: CaseGroup, index: int, output: JSON | None, **more: Any) -> None:
        super().__init__(**more)  # pyright: ignore[reportUnknownMemberType]
        self._group, self._index, self._output = group, index, output

    def runtest(self) -> None:
        agent = agent_option(self.config)
        if self._output is None and not agent:
            raise CaseNotPassed(NO_AGENT.format(name=self.path.name, argument="cases"), measured=False)
        group = self._group
        case = [group.cases[self._index]]
        try:
            if self._output is not None:
                run = evaluate_sync(case, [self._output], group.checks)
            else:
                run = evaluate_sync(case, checks=group.checks, agent=agent)
        except Refusal as refusal:
            raise not_measured(refusal) from None
        judge_case(self, group, self._index, run.results)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        return self.path, None, self.name
