"""The evidence of an eval run, here or on another host, written to files as FEP results."""

from typing import Any

import msgspec
from msgspec import UNSET, Struct

from assay.fep.outputs.sinks import sink_for
from assay.protocol.json_types import JSON
from assay.protocol.results import EvaluationSummary, Status
from assay.results.check_names import result_label
from assay.results.run_end import RunEnd, RunFooter
from assay.results.run_part import RunPart

BESIDE = "beside: "  # begins the name of a check that is beside the scorecard


class _Check(Struct):
    status: Status


class _Case(_Check):
    check_results: list[_Check]


_read = msgspec.json.Decoder(_Case).decode


class ResultExport:
    """Writes results line by line; `close` completes the files."""

    def __init__(self, to: list[str]) -> None:
        self._sinks = [sink_for(name) for name in to]
        self._cases = dict.fromkeys(("completed", "error", "skip"), 0)
        self._checks = dict(self._cases)
        self._written = 0

    def add(self, line: bytes) -> None:
        result = _read(line)
        self._cases[result.status] += 1
        for check in result.check_results:
            self._checks[check.status] += 1
        self._write(line)

    def add_beside(self, line: bytes) -> None:
        """
        Write a result of the checks beside the scorecard. It is not counted; the name of each check says what it is.
        """
        result: JSON = msgspec.json.decode(line)
        for check in result["check_results"]:
            name = f"{BESIDE}{result_label(check)}"
            check["metadata"] = {**(check.get("metadata") or {}), "check_name": name}
        self._write(msgspec.json.encode(result))

    def _write(self, line: bytes) -> None:
        self._written += 1
        for sink in self._sinks:
            sink.write(line)

    def close(
        self, run: str, status: str, started_at: Any, ended_at: Any, part: RunPart | None = None
    ) -> int:
        """The number of results. `part`: the tasks of the suite that the run has, if these are not all."""
        cases, checks, is_complete = self._cases, self._checks, status == "completed" and part is None
        total = sum(cases.values())
        footer = RunFooter(
            evaluation_id=run,
            started_at=started_at,
            completed_at=ended_at,
            status="error" if cases["error"] or status != "completed" else "completed",
            summary=EvaluationSummary(
                total_test_cases=total,
                completed_test_cases=cases["completed"],
                error_test_cases=cases["error"],
                skipped_test_cases=cases["skip"],
                total_checks=sum(checks.values()),
                completed_checks=checks["completed"],
                error_checks=checks["error"],
                skipped_checks=checks["skip"],
            ),
            end=RunEnd(
                planned=self._written if status == "completed" else None,
                results=self._written,
                complete=is_complete,
                part=part or UNSET,
            ),
        )
        for sink in self._sinks:
            sink.close(footer)
        return total
