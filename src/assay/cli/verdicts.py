"""What a run of a workflow came to, as a person sees it: each verdict and whose work it is about, the criteria, the goal, and who is waited for."""

from typing import Any

import msgspec

from assay.auth.local_key import TENANT
from assay.cli.say import give, say, tell, tell_lines
from assay.errors import UsageError
from assay.fep.cells import row
from assay.fep.sinks import File
from assay.ports import Run
from assay.protocol.json_types import is_object
from assay.protocol.verification import CriticVerdict, Verification

SHOWN, LINE = 2_000, 200  # characters of a result, and of why somebody failed
ASKED = {  # what a person is asked, and what a yes does
    "gate": ("it is a gate", "go on"),
    "result": ("somebody is not sure of the result", "commit it"),
    "retry": ("the result is not good enough", "let the actor try again"),
    "decision": ("its supervisor is not sure", "do as it decided"),
    "outputs": ("a child's output is to be approved", "merge it"),
    "question": ("a question", ""),
}
COLUMNS = tuple(field.encode_name for field in msgspec.structs.fields(CriticVerdict))


def print_json(came: Verification) -> None:
    give(msgspec.json.encode(came))


def display(came: Verification, answer: str | None = None) -> None:
    """`answer` says how a run that waits is answered."""
    for line in _turns(came):
        tell(line)
    for criterion in came.success_criteria:
        tell(f"{criterion['key']}: {'met' if criterion['met'] else 'not met'}")
    if came.committed:
        tell_lines(f"result: {_shown(came.result)}")
    for name, value in (came.asked or {}).items():
        tell_lines(f"{name}{'' if name == 'question' else ' in question'}: {_shown(value)}")
    tell(_verdict(came))
    if answer is not None:
        say(answer)


def _turns(came: Verification) -> list[str]:
    """In their order: who failed and why, and what the others said."""
    lines: list[tuple[int, int, str]] = []
    no_verdict = {(one.iteration, one.agent_id): one.why for one in came.failures if one.role == "critic"}
    for one in came.failures:
        if one.role != "critic":
            who = f"{one.role} {one.agent_id}"
            lines.append((one.iteration, 0, f"turn {one.iteration}: {who} failed: {_line(one.why)}"))
    for one in came.verdicts:
        about = "its own work" if one.self_verified else f"the work of {one.actor_id}"
        keys = f" ({', '.join(one.criteria)})" if one.criteria else ""
        sure = "" if one.confidence is None else f", {one.confidence:.0%} sure"
        why = no_verdict.get((one.iteration, one.agent_id))
        none = "" if why is None else f": it gave no verdict: {_line(why)}"
        said = f"turn {one.iteration}: {one.verdict}, by {one.agent_id} on {about}{keys}{sure}{none}"
        lines.append((one.iteration, 1, said))
    return [line for _, _, line in sorted(lines, key=lambda one: one[:2])]


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) and value else msgspec.json.encode(value).decode()
    if len(text) <= SHOWN:
        return text
    return f"{text[:SHOWN]}… ({len(text):,} characters; all of them with --json)"


def _line(text: str) -> str:
    said = " ".join(text.split())
    return said if len(said) <= LINE else f"{said[:LINE]}…"


def _verdict(came: Verification) -> str:
    if came.goal_satisfied:
        return "goal reached"
    if came.error is not None:
        told = f"{came.error['code']}: {came.error['message']}"
        spent = came.error["code"] == "loop_limit_exceeded"
        return f"goal not reached: {f'all its turns are taken ({told})' if spent else told}"
    if came.waiting is not None:
        what = ASKED[came.waiting.get("about", "gate")][0]
        who = f"its child {came.waiting['runId']}" if "runId" in came.waiting else "it"
        return f"goal not reached: {who} waits at {came.waiting['nodeId']} for a person: {what}"
    if came.status == "completed":
        return "goal not reached: it gave up, and is completed"
    return f"goal not reached: it is {came.status}"


def in_a_list(run: Run) -> str:
    """The goal, in the few words that a table has room for."""
    if "waiting" in run.head and run.status.startswith("waiting"):
        return "waits for a person"
    if "goalSatisfied" not in run.head:
        return "–"
    own = ", self-verified" if run.head.get("selfVerified") else ""
    return f"goal reached{own}" if run.head["goalSatisfied"] else "goal not reached"


def waits(run: Run) -> str | None:
    """For whom, and how it is answered."""
    waiting = run.head.get("waiting")
    if not is_object(waiting) or not run.status.startswith("waiting"):
        return None
    if run.tenant != TENANT:
        place = f"POST /v1/runs/{run.id}/interrupts/{waiting['nodeId']}"
        return f"run {run.id} waits for a person of tenant {run.tenant}: {place}"
    yes = ASKED[waiting.get("about", "gate")][1]
    how = "--answer TEXT" if waiting["kind"] == "clarification" else f"--accept to {yes}, or --reject"
    until = f", until {waiting['deadline']}" if waiting.get("deadline") else ""
    return f"run {run.id} waits for a person: assay respond {run.id} {how}{until}"


def export(came: Verification, to: list[str]) -> int:
    """`.json` is all of it; `.jsonl` and `.csv` have one verdict a line."""
    for name in to:
        if not name.endswith((".json", ".jsonl", ".ndjson", ".csv")) and name != "-":
            raise UsageError(f"{name}: expected an output that ends in .jsonl, .json or .csv")
    for file in [File(name) for name in to]:
        file.put(_written(came, file.name))
        file.close()
    return len(came.verdicts)


def _written(came: Verification, name: str) -> bytes:
    if name.endswith(".json"):
        return msgspec.json.encode(came) + b"\n"
    if not name.endswith(".csv"):
        return b"".join(msgspec.json.encode(one) + b"\n" for one in came.verdicts)
    told = [msgspec.to_builtins(one) | {"criteria": " ".join(one.criteria)} for one in came.verdicts]
    return row(COLUMNS) + b"".join(row(one.get(name, "") for name in COLUMNS) for one in told)
