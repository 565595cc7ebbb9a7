"""Stores the results of a session: one run for each function or data file, named by its node id."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from assay.errors import Refusal
from assay.fep.outputs.run_result import metadata_of
from assay.fep.records.evaluation_statistics import count_lines
from assay.fep.records.save import StoreSink
from assay.host import parts
from assay.protocol.evaluation import ExperimentMetadata
from assay.results.run_end import RunFooter
from assay.results.tally import Tally
from assay.settings import Settings, load
from assay.terminal import one_line


class SessionSummary(NamedTuple):
    """The lines for the terminal. `failed`: a suite did not pass as a whole."""

    lines: list[str]
    failed: bool = False


def save_runs(records: Sequence[str], *, save: bool) -> SessionSummary:
    """Store the results and say where they are. A store that cannot be opened is one line, and never an exception."""
    groups: dict[str, dict[str, Any]] = {}
    suites: dict[str, Any] = {}
    for text in records:
        record = msgspec.json.decode(text)
        if "suite" in record:
            suites[record["group"]] = record["suite"]
        else:
            groups.setdefault(record["group"], {})[record["item"]] = (
                record  # the last, if a plugin ran it again
            )
    lines = [line for suite in suites.values() for line in suite["lines"]]
    failed = any(suite["failed"] for suite in suites.values())
    problem = ""
    for name, by_item in groups.items():
        ordered = sorted(by_item.values(), key=lambda record: record["index"])
        results, tally = [line for record in ordered for line in record["lines"]], Tally()
        count_lines(tally, results)
        about = f"{one_line(name)}: {len(results):,} result{'' if len(results) == 1 else 's'}"
        about += f", {tally.error_cases:,} not measured" if tally.error_cases else ""
        if save and not problem:
            try:
                about += (
                    f"; details: assay show {_save_run(load(), name, ordered[0]['checks'], results, tally)}"
                )
            except Refusal as refusal:
                problem = f"the results are not stored: {one_line(refusal.lines[0])}"
        lines.append(about)
    return SessionSummary([*lines, problem] if problem else lines, failed)


def _save_run(settings: Settings, name: str, checks: Any, results: Sequence[str], tally: Tally) -> str:
    clock = parts.services(settings).clock
    started, experiment = clock.now(), ExperimentMetadata(name=name)
    sink = StoreSink(parts.store(settings), checks, experiment, tally, clock)
    for line in results:
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
