"""The evidence of an eval run as FEP results in files, from the record here or from another host."""

from typing import Any

import msgspec
from msgspec import Struct

from assay.fep.sinks import RunFooter, sink_for
from assay.protocol.results import EvaluationSummary, Status


class _Check(Struct):
    status: Status


class _Case(_Check):
    check_results: list[_Check]


_read = msgspec.json.Decoder(_Case).decode


class Export:
    """Line by line; `close` leaves files that are whole."""

    def __init__(self, to: list[str]) -> None:
        self._sinks = [sink_for(name) for name in to]
        self._cases = dict.fromkeys(("completed", "error", "skip"), 0)
        self._checks = dict(self._cases)

    def add(self, line: bytes) -> None:
        result = _read(line)
        self._cases[result.status] += 1
        for one in result.check_results:
            self._checks[one.status] += 1
        for sink in self._sinks:
            sink.write(line)

    def close(self, run: str, status: str, started: Any, ended: Any) -> int:
        """How many there were."""
        cases, checks = self._cases, self._checks
        many = sum(cases.values())
        closing = RunFooter(
            evaluation_id=run,
            started_at=started,
            completed_at=ended,
            status="error" if cases["error"] or status != "completed" else "completed",
            summary=EvaluationSummary(
                total_test_cases=many,
                completed_test_cases=cases["completed"],
                error_test_cases=cases["error"],
                skipped_test_cases=cases["skip"],
                total_checks=sum(checks.values()),
                completed_checks=checks["completed"],
                error_checks=checks["error"],
                skipped_checks=checks["skip"],
            ),
        )
        for sink in self._sinks:
            sink.close(closing)
        return many
