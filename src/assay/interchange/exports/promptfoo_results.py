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


class PromptfooResults:
    def __init__(self, run: ExportedRun, write: Write) -> None:
        self._run, self._write = run, write
        before = {"version": 3, "timestamp": run.ended.isoformat()}
        self._rows = ListWriter(
            write, b"{" + members({"evalId": run.id}) + b',"results":{' + members(before) + b',"results":'
        )
        self._counts = {"successes": 0, "failures": 0, "errors": 0}
        self._tokens = {"prompt": 0, "completion": 0}
        self._tests: dict[str, int] = {}
        self._systems: dict[str, int] = {}

    def add(self, case: ExportedCase) -> None:
        test = self._tests.setdefault(case.id, len(self._tests))
        system = case.system or UNKNOWN
        row = _row(case, system, test, self._systems.setdefault(system, len(self._systems)))
        outcome = (
            "errors" if row["failureReason"] == ERRORED else "successes" if row["success"] else "failures"
        )
        self._counts[outcome] += 1
        self._tokens["prompt"] += case.usage.get("input_tokens", 0)
        self._tokens["completion"] += case.usage.get("output_tokens", 0)
        self._rows.add(row)

    def close(self) -> None:
        self._rows.close()
        usage = {**self._tokens, "total": sum(self._tokens.values())}
        prompts = [{"raw": PROMPT, "label": PROMPT, "provider": one} for one in self._systems]
        self._write(
            b"," + members({"prompts": prompts, "stats": {**self._counts, "tokenUsage": usage}}) + b"},"
        )
        config = {"description": self._run.name or self._run.id}
        about = {"assayVersion": self._run.version}
        self._write(members({"config": config, "shareableUrl": None, "metadata": about}) + b"}\n")


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
