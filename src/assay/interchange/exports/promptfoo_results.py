"""Results of promptfoo (`.json`, version 3): a row for each result, with what each check said as a component."""

from assay.interchange.exports.exported import (
    UNKNOWN,
    ExportedCase,
    ExportedRun,
    ListWriter,
    Write,
    members,
    text_of,
)
from assay.protocol.json_types import JSON, is_object

PROMPT = "{{input}}"  # a run has inputs, and no template of a prompt
ASSERTED, ERRORED = 1, 2  # reasons of a failure
_METRICS = (
    "score",
    "testPassCount",
    "testFailCount",
    "testErrorCount",
    "assertPassCount",
    "assertFailCount",
    "totalLatencyMs",
    "cost",
)


class PromptfooResults:
    def __init__(self, run: ExportedRun, write: Write) -> None:
        self._run, self._write = run, write
        before = {"version": 3, "timestamp": run.ended.isoformat()}
        self._rows = ListWriter(
            write, b"{" + members({"evalId": run.id}) + b',"results":{' + members(before) + b',"results":'
        )
        self._systems: dict[str, _Column] = {}
        self._tests: dict[
            tuple[str, int], int
        ] = {}  # each trial of a case is a test, as a repeat of promptfoo is

    def add(self, case: ExportedCase) -> None:
        system = case.system or UNKNOWN
        column = self._systems.get(system)
        if column is None:
            column = self._systems[system] = _Column(len(self._systems))
        test = self._tests.setdefault((case.id, column.trial_of(case.id)), len(self._tests))
        row = _row(case, system, test, column.number)
        column.count(case, row)
        self._rows.add(row)

    def close(self) -> None:
        self._rows.close()
        prompts = [
            {"raw": PROMPT, "label": PROMPT, "provider": one, "metrics": column.metrics}
            for one, column in self._systems.items()
        ]
        columns = list(self._systems.values())
        stats: JSON = {
            name: sum(one.metrics[count] for one in columns)
            for name, count in (
                ("successes", "testPassCount"),
                ("failures", "testFailCount"),
                ("errors", "testErrorCount"),
            )
        }
        stats["tokenUsage"] = {
            name: sum(one.metrics["tokenUsage"][name] for one in columns)
            for name in ("prompt", "completion", "total")
        }
        self._write(b"," + members({"prompts": prompts, "stats": stats}) + b"},")
        config = {"description": self._run.name or self._run.id}
        about = {"assayVersion": self._run.version}
        self._write(members({"config": config, "shareableUrl": None, "metadata": about}) + b"}\n")


class _Column:
    """A system: what promptfoo shows above its column, and how often it answered each case."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.metrics: JSON = dict.fromkeys(_METRICS, 0)
        self.metrics |= {"tokenUsage": {"prompt": 0, "completion": 0, "total": 0}}
        self.metrics |= {"namedScores": {}, "namedScoresCount": {}}
        self._trials: dict[str, int] = {}

    def trial_of(self, id: str) -> int:
        self._trials[id] = self._trials.get(id, 0) + 1
        return self._trials[id]

    def count(self, case: ExportedCase, row: JSON) -> None:
        metrics = self.metrics
        failed = "testErrorCount" if row["failureReason"] == ERRORED else "testFailCount"
        metrics["testPassCount" if row["success"] else failed] += 1
        metrics["score"] += row["score"]
        for one in row["gradingResult"]["componentResults"]:
            metrics["assertPassCount" if one["pass"] else "assertFailCount"] += 1
        for name, score in row["namedScores"].items():
            metrics["namedScores"][name] = metrics["namedScores"].get(name, 0) + score
            metrics["namedScoresCount"][name] = metrics["namedScoresCount"].get(name, 0) + 1
        usage = metrics["tokenUsage"]
        usage["prompt"] += case.usage.get("input_tokens", 0)
        usage["completion"] += case.usage.get("output_tokens", 0)
        usage["total"] = usage["prompt"] + usage["completion"]


def _row(case: ExportedCase, system: str, test: int, column: int) -> JSON:
    """A row. A case with a check that was not measured, or whose agent failed, is an error and has no verdict."""
    errors = ([case.error] if case.error is not None else []) + [
        f"{label}: {reason}" for label, reason in case.not_measured.items()
    ]
    verdicts = [one for one in case.scores if one.is_measured and one.passed is not None]
    measured = case.measured
    success = not errors and all(one.passed for one in verdicts)
    mean = sum(one.score or 0.0 for one in measured) / len(measured) if measured else 0.0
    usage = {"prompt": case.usage.get("input_tokens"), "completion": case.usage.get("output_tokens")}
    variables = case.input if is_object(case.input) else {"input": case.input}
    about: JSON = {**case.metadata, "assay": {"id": case.id, "trial": case.trial}}
    if case.has_expected:
        about["assay"]["expected"] = case.expected
    components = [
        {
            "pass": one.passed,
            "score": one.score,
            "reason": one.reason,
            "assertion": {"type": f"assay:{one.type}", "metric": one.label},
        }
        for one in verdicts
    ]
    failed = next((one.reason for one in verdicts if not one.passed), "")
    row: JSON = {
        "id": f"{case.id}#{case.trial}",
        "testIdx": test,
        "promptIdx": column,
        "success": success,
        "score": 0 if errors else mean,
        "namedScores": {one.label: one.score for one in measured},
        "failureReason": ERRORED if errors else 0 if success else ASSERTED,
        "prompt": {"raw": text_of(case.input), "label": PROMPT},
        "provider": {"id": system, "label": system},
        "response": {"output": case.output},
        "testCase": {"vars": variables, "assert": [], "metadata": about},
        "vars": variables,
        "gradingResult": {
            "pass": success,
            "score": 0 if errors else mean,
            "reason": failed or ("All assertions passed" if success else ""),
            "componentResults": components,
        },
    }
    if errors:
        row["error"] = "; ".join(errors)
        row["gradingResult"]["reason"] = row["error"]
    elif failed:
        row["error"] = failed
    if None not in usage.values():
        row["tokenUsage"] = {**usage, "total": sum(case.usage.values())}
    return row
