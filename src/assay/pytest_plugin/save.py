"""Stores the results of a session: one run for each function or data file, named by its node id."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from assay import app
from assay.errors import Refusal
from assay.fep.check_names import result_label
from assay.fep.run_result import metadata_of, read_result
from assay.fep.save import StoreSink
from assay.fep.sinks import RunFooter
from assay.fep.spending import spending_of_all
from assay.fep.tally import Tally
from assay.protocol.evaluation import ExperimentMetadata
from assay.protocol.results import TestCaseResult
from assay.settings import Settings, load
from assay.terminal import one_line


class SessionSummary(NamedTuple):
    """The lines for the terminal. `failed`: a suite did not pass as a whole."""

    lines: list[str]
    failed: bool = False


def save_runs(records: Sequence[str], *, save: bool) -> SessionSummary:
    """Store the results and say where they are. A store that cannot be opened is one line, and never an exception."""
    groups: dict[str, dict[int, Any]] = {}
    suites: dict[str, Any] = {}
    for text in records:
        record = msgspec.json.decode(text)
        if "suite" in record:
            suites[record["group"]] = record["suite"]
        else:
            groups.setdefault(record["group"], {})[record["index"]] = record
    lines = [line for suite in suites.values() for line in suite["lines"]]
    failed = any(suite["failed"] for suite in suites.values())
    if not save:
        return SessionSummary(lines, failed)
    settings = load()
    for name, by_index in groups.items():
        ordered = [by_index[index] for index in sorted(by_index)]
        try:
            run = _save_run(settings, name, ordered)
        except Refusal as refusal:
            lines.append(f"the results are not stored: {one_line(refusal.lines[0])}")
            break
        count = sum(len(record["lines"]) for record in ordered)
        lines.append(
            f"{one_line(name)}: {count:,} result{'' if count == 1 else 's'} stored; details: assay show {run}"
        )
    return SessionSummary(lines, failed)


def _save_run(settings: Settings, name: str, records: Sequence[Mapping[str, Any]]) -> str:
    clock, tally = app.services(settings).clock, Tally()
    started, experiment = clock.now(), ExperimentMetadata(name=name)
    sink = StoreSink(app.store(settings), records[0]["checks"], experiment, tally, clock)
    for record in records:
        for line in record["lines"]:
            _count(line, tally)
            sink.write(line.encode())
    footer = RunFooter(
        evaluation_id=sink.run,
        started_at=started,
        completed_at=clock.now(),
        status=tally.status,
        summary=tally.summary(),
        experiment=experiment,
        metadata=metadata_of(tally) or None,
    )
    sink.close(footer)
    return sink.run


def _count(line: str, tally: Tally) -> None:
    """Count a result line as the scheduler would have counted it."""
    result = read_result(line)
    id = str(result.execution_context.test_case.get("id", ""))
    answers, code = tally.answers(_labels(result)), 0
    for number, check in enumerate(result.check_results):
        message = check.error.message if check.error else ""
        code |= answers.record(number, check.status, check.results, id, message)
    answers.close(id, code)
    tally.count_case(result.status, spending_of_all(result.check_results))


def _labels(result: TestCaseResult) -> tuple[str, ...]:
    """The rows of the checks, as `fep/check_names.py` numbers them: `contains #2`."""
    names = [
        result_label({"check_type": check.check_type, "metadata": check.metadata or {}})
        for check in result.check_results
    ]
    total, seen = Counter(names), Counter[str]()
    labels: list[str] = []
    for name in names:
        seen[name] += 1
        labels.append(f"{name} #{seen[name]}" if total[name] > 1 else name)
    return tuple(labels)
