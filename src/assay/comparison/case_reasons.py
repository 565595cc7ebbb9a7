"""Why a case has its value in a run, in one line. Only the results of the listed cases are read again."""

from collections.abc import Iterable, Mapping

import msgspec
from msgspec import Struct

from assay.comparison.compare import ChangeReasons, PairComparison
from assay.comparison.result_line import read_line
from assay.protocol.json_types import JSON
from assay.results.check_names import scored_label
from assay.results.reasons import agent_error, is_failing, passed_of, reason_of

MAX_REASON = 300  # characters
MAX_CHECKS = 3  # whose reasons are in one line
ALL_PASSED = "passed"  # what is said of a case without a failing check


class _Case(Struct):
    id: str


class _Context(Struct):
    test_case: _Case


class _Line(Struct):
    execution_context: _Context


_read_id = msgspec.json.Decoder(_Line).decode  # the line was read before, so it is valid


class CaseReasons:
    """Collects the reasons of some cases from the lines of one run."""

    def __init__(self, ids: Iterable[str]) -> None:
        self._ids = dict.fromkeys(ids, "")
        self._trials = dict.fromkeys(self._ids, 0)
        self._failed = dict.fromkeys(self._ids, 0)

    def add(self, raw: bytes, location: str) -> None:
        id = _read_id(raw).execution_context.test_case.id
        if id not in self._ids or read_line(raw, location).is_beside:
            return
        document: JSON = msgspec.json.decode(raw)
        failing = any(map(is_failing, document["check_results"]))
        self._trials[id] += 1
        self._failed[id] += failing
        if not self._ids[id] or (failing and self._failed[id] == 1):
            self._ids[id] = reason_line(document)

    def texts(self) -> dict[str, str]:
        """A line for each case; with several trials, the reason of the first that failed."""
        return {
            id: f"{text} ({self._failed[id]} of {self._trials[id]} trials failed)"
            if self._trials[id] > 1 and text
            else text
            for id, text in self._ids.items()
        }


def reason_line(result: JSON) -> str:
    """
    The reasons of checks that failed or were not measured; else `passed`; if no check says pass or fail, the reasons of
    all.
    """
    checks: list[JSON] = result["check_results"]
    listed = [check for check in checks if is_failing(check)]
    if not listed and any(passed_of(check) for check in checks):
        return ALL_PASSED
    listed = listed or checks
    if not listed:
        return "no checks"
    if (error := agent_error(result)) is not None:  # the checks only say that there is no answer
        return f"the agent failed: {_short(error)}"
    case: JSON = result["execution_context"]["test_case"]
    parts = [f"{scored_label(check)}: {_short(reason_of(check, case))}" for check in listed[:MAX_CHECKS]]
    return "; ".join(parts) + (f"; {len(listed) - MAX_CHECKS} more" if len(listed) > MAX_CHECKS else "")


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MAX_REASON else f"{line[: MAX_REASON - 1]}…"


def with_reasons(pair: PairComparison, before: Mapping[str, str], after: Mapping[str, str]) -> PairComparison:
    """The comparison with the reasons of the cases that it lists."""
    changes = tuple(
        msgspec.structs.replace(
            change,
            data=ChangeReasons(
                reason_before=before.get(change.id, ""), reason_after=after.get(change.id, "")
            ),
        )
        for change in pair.changes
    )
    return msgspec.structs.replace(pair, changes=changes)
