"""The outcome of a workflow run: every verdict, the criteria, the goal, and the person it waits for."""

from typing import Any

import msgspec

from assay.cli.console.console import echo, echo_err, echo_json, echo_lines
from assay.errors import UsageError
from assay.fep.outputs.output_file import OutputFile
from assay.fep.outputs.result_tables import encode_row
from assay.ports import LOCAL_TENANT, Run
from assay.protocol.json_types import is_object
from assay.protocol.verification import CriticVerdict, Verification
from assay.stats.number_text import confidence_text

MAX_RESULT, MAX_LINE = 2_000, 200  # characters of a result, and of the message of a failure
QUESTIONS = {  # the reason why a run waits for a person, and the effect of --accept
    "gate": ("the workflow needs an approval", "continue"),
    "result": ("the confidence in the result is too low", "commit it"),
    "retry": ("the result is not good enough", "let the actor try again"),
    "decision": ("the confidence of its supervisor is too low", "carry out the decision"),
    "outputs": ("the output of a child run needs an approval", "merge it"),
    "question": ("it has a question", ""),
}
COLUMNS = tuple(field.encode_name for field in msgspec.structs.fields(CriticVerdict))


def print_json(verification: Verification) -> None:
    echo_json(msgspec.json.encode(verification))


def display(verification: Verification, hint: str | None = None) -> None:
    """Print the outcome. `hint` says how to answer a run that waits."""
    for line in _turns(verification):
        echo(line)
    display_end(verification, hint)


def display_end(verification: Verification, hint: str | None = None) -> None:
    """Print how the run ended, without its turns."""
    for criterion in verification.success_criteria:
        echo(f"{criterion['key']}: {'met' if criterion['met'] else 'not met'}")
    if verification.committed:
        echo_lines(f"result: {_text(verification.result)}")
    for name, value in (verification.question or {}).items():
        echo_lines(f"{name}{'' if name == 'question' else ' in question'}: {_text(value)}")
    echo(_goal(verification))
    if hint is not None:
        echo_err(hint)


def _turns(verification: Verification) -> list[str]:
    """The failures and verdicts of each turn, in order."""
    lines: list[tuple[int, int, str]] = []
    no_verdict = {
        (failure.iteration, failure.agent_id): failure.reason
        for failure in verification.failures
        if failure.role == "critic"
    }
    for failure in verification.failures:
        if failure.role != "critic":
            agent = f"{failure.role} {failure.agent_id}"
            message = f"turn {failure.iteration}: {agent} failed: {_line(failure.reason)}"
            lines.append((failure.iteration, 0, message))
    for verdict in verification.verdicts:
        why = no_verdict.get((verdict.iteration, verdict.agent_id))
        none = "" if why is None else f": it gave no verdict: {_line(why)}"
        message = f"{verdict_text(verdict)}{none}"
        lines.append((verdict.iteration, 1, f"turn {verdict.iteration}: {message}"))
    return [line for _, _, line in sorted(lines, key=lambda item: item[:2])]


def verdict_text(verdict: CriticVerdict) -> str:
    """`revise, by local.reader on the work of local.writer (spelling), confidence 90%`."""
    about = "its own work" if verdict.self_verified else f"the work of {verdict.actor_id}"
    keys = f" ({', '.join(verdict.criteria)})" if verdict.criteria else ""
    confidence = "" if verdict.confidence is None else f", confidence {confidence_text(verdict.confidence)}"
    return f"{verdict.verdict}, by {verdict.agent_id} on {about}{keys}{confidence}"


def _text(value: Any) -> str:
    text = value if isinstance(value, str) and value else msgspec.json.encode(value).decode()
    if len(text) <= MAX_RESULT:
        return text
    return f"{text[:MAX_RESULT]}… ({len(text):,} characters; --json prints all of them)"


def _line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MAX_LINE else f"{line[:MAX_LINE]}…"


def _goal(verification: Verification) -> str:
    if verification.goal_satisfied:
        return "goal reached"
    if verification.error is not None:
        message = f"{verification.error['code']}: {verification.error['message']}"
        exhausted = verification.error["code"] == "loop_limit_exceeded"
        return f"goal not reached: {f'no turns are left ({message})' if exhausted else message}"
    waiting = verification.waiting
    if waiting is not None:
        reason = QUESTIONS[waiting.get("about", "gate")][0]
        run = f"its child {waiting['runId']}" if "runId" in waiting else "the run"
        return f"goal not reached: {run} waits for a person at {waiting['nodeId']}: {reason}"
    if verification.status == "completed":
        return "goal not reached: the workflow gave up and completed"
    return f"goal not reached: the run is {verification.status}"


def goal_of(run: Run) -> str:
    """Whether the run reached its goal, in the few words for a table."""
    if "waiting" in run.metadata and run.status.startswith("waiting"):
        return "waits for a person"
    if "goalSatisfied" not in run.metadata:
        return "–"
    own = ", self-verified" if run.metadata.get("selfVerified") else ""
    return f"goal reached{own}" if run.metadata["goalSatisfied"] else "goal not reached"


def respond_hint(run: Run) -> str | None:
    """How to answer a run that waits for a person; None for every other run."""
    waiting = run.metadata.get("waiting")
    if not is_object(waiting) or not run.status.startswith("waiting"):
        return None
    if run.tenant != LOCAL_TENANT:
        path = f"POST /v1/runs/{run.id}/interrupts/{waiting['nodeId']}"
        return f"run {run.id} waits for a person of tenant {run.tenant}: {path}"
    effect = QUESTIONS[waiting.get("about", "gate")][1]
    options = "--answer TEXT" if waiting["kind"] == "clarification" else f"--accept to {effect}, or --reject"
    until = f", until {waiting['deadline']}" if waiting.get("deadline") else ""
    return f"run {run.id} waits for a person: assay respond {run.id} {options}{until}"


def export(verification: Verification, to: list[str]) -> int:
    """Write everything to `.json`, or one verdict per line to `.jsonl` and `.csv`; return the number of verdicts."""
    for name in to:
        if not name.endswith((".json", ".jsonl", ".ndjson", ".csv")) and name != "-":
            raise UsageError(f"{name}: expected an output that ends in .jsonl, .json or .csv")
    for file in [OutputFile(name) for name in to]:
        file.write(_encode(verification, file.name))
        file.close()
    return len(verification.verdicts)


def _encode(verification: Verification, name: str) -> bytes:
    if name.endswith(".json"):
        return msgspec.json.encode(verification) + b"\n"
    verdicts = verification.verdicts
    if not name.endswith(".csv"):
        return b"".join(msgspec.json.encode(verdict) + b"\n" for verdict in verdicts)
    rows = [msgspec.to_builtins(verdict) | {"criteria": " ".join(verdict.criteria)} for verdict in verdicts]
    return encode_row(COLUMNS) + b"".join(
        encode_row(cells.get(name, "") for name in COLUMNS) for cells in rows
    )
