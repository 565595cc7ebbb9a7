"""
Real runs for the screens that compare, verify, approve and try: a server with verifier loops and a policy, and requests that fill it.

    python tests/support/page/decision_runs.py FOLDER PORT    # serves them until it is stopped
"""

import sys
import time
from pathlib import Path
from random import Random
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))

from assay.auth.keys import DEFAULT, DEPLOY
from assay.comparison.policy import ApprovalRules, PromotionPolicy, PromotionRules
from assay.ports.config import VerifierLoopConfig
from assay.protocol.agents import AgentCard, InvocationResult
from support.page.page_runs import HOSTILE, RLO, SCRIPT, Runs, golden
from support.servers.rest_client import Server

EVERYTHING = DEFAULT | DEPLOY
NOTE = "Version 2.1 starts twice as fast."
COMMAND = " To upgrade, run `assay migrate` once; it takes a minute."
CRITERIA = ["says-how-to-upgrade", "names-the-command"]
MET = dict.fromkeys(CRITERIA, True)


class Scripted:
    """An agent whose answer is a function of its task."""

    def __init__(self, id: str, answer: Any, **card: Any) -> None:
        self.card, self._answer = AgentCard(agent_id=id, **card), answer

    async def invoke(self, task: Any, scene: Any) -> InvocationResult:
        answer = self._answer(task)
        if isinstance(answer, InvocationResult):
            return answer
        return InvocationResult(outcome="completed", result=answer)

    async def close(self) -> None: ...


class Sorter(Scripted):
    """An agent with two versions. Version 1.1.0 fails one task of its suite."""

    versions = ("1.0.0", "1.1.0")

    def __init__(self, version: str) -> None:
        wrong = "queue 7" if version == "1.1.0" else ""
        super().__init__("local.shop.sorter-2", lambda task: "?" if task == wrong else task, version=version)

    def at(self, version: str) -> "Sorter | None":
        return Sorter(version) if version in self.versions else None


def _turn(task: Any) -> int:
    return task.get("turn", 1) if isinstance(task, dict) else 1


def _write(task: Any) -> Any:
    return NOTE + (COMMAND if _turn(task) > 1 else "")


def _doubt(task: Any) -> InvocationResult:
    return InvocationResult(outcome="completed", result=NOTE + COMMAND, confidence=0.42)


def _hostile(task: Any) -> str:
    return f"{SCRIPT} {RLO}reversed {HOSTILE['terminal']}"


def _review(about: Any) -> Any:
    if "migrate" in str(about["result"]):
        return {"verdict": "pass", "confidence": 0.93, "met": MET}
    met = {"says-how-to-upgrade": False, "names-the-command": False}
    return {
        "verdict": "revise",
        "confidence": 0.81,
        "met": met,
        "notes": "Say how to upgrade, and name the command.",
    }


def _refuse(about: Any) -> Any:
    met = {"says-how-to-upgrade": "migrate" in str(about["result"]), "names-the-command": False}
    if all(word in str(about["result"]) for word in ("migrate", "minute")):
        return {"verdict": "pass", "met": MET}
    hostile = SCRIPT if SCRIPT in str(about["result"]) else ""
    notes = f"It promises a speed that no measurement shows. {hostile}".strip()
    return {"verdict": "fail", "met": met, "notes": notes, "confidence": 0.97}


AGENTS = [
    Scripted("local.notes.writer", _write),
    Scripted("local.notes.doubter", _doubt),
    Scripted("local.notes.hostile", _hostile),
    Scripted("local.notes.reader", _review),
    Scripted("local.notes.editor", _refuse),
    *(Scripted(f"local.shop.sorter-{number}", lambda task: task, version="1.1.0") for number in range(2)),
    Sorter("1.1.0"),
    Scripted("local.strict.sorter", lambda task: task, version="1.1.0"),
]


def _loop(actor: str, critic: str, **more: Any) -> VerifierLoopConfig:
    named = {"actor": f"local.notes.{actor}", "critics": [f"local.notes.{critic}"], "criteria": CRITERIA}
    return VerifierLoopConfig(**named, max_turns=3, **more)


LOOPS = {
    "release-note": _loop("writer", "reader"),
    "careful-note": _loop("writer", "editor", approval_seconds=86_400),
    "hopeless-note": _loop("hostile", "editor", on_fail="give-up"),
    "hostile-note": _loop("hostile", "editor"),
}
POLICY = PromotionPolicy(
    agents={
        "local.shop.*": PromotionRules(
            eval_states=(), approval=ApprovalRules(gate="production", author_may_approve=True)
        ),
        "local.strict.*": PromotionRules(eval_states=(), approval=ApprovalRules(gate="two-persons")),
    }
)


def decision_server(address: str) -> Server:
    return Server(address, agents=AGENTS, loops=LOOPS, policy=POLICY)


# evaluations to compare


def answers(seed: int, good: float, count: int = 120) -> dict[str, Any]:
    """Answers of a support bot. The better one misses other cases; a few were not measured, and some are in one run alone."""
    chance, first = Random(seed), Random(7)
    cases: list[dict[str, Any]] = []
    outputs: list[dict[str, Any]] = []
    for number in range(count):
        easy = first.random()
        right = easy < good - 0.1 or chance.random() < good - 0.15
        question = f"How do I return order {1000 + number}?"
        tags = ["refund" if number % 3 else "delivery", "de" if number % 5 else "en"]
        cases.append({"id": f"order-{1000 + number}", "input": question, "metadata": {"tags": tags}})
        text = f"Order {1000 + number}: you get a refund within 30 days. The label is in your mail."
        wrong = f"Order {1000 + number}: please ask us again. The label is in your mail."
        latency = round(180 + 900 * chance.random() ** 3 - 60 * (seed % 2), 1)
        metadata = {"latency_ms": latency, "cost_usd": round(0.0004 + 0.0002 * chance.random(), 6)}
        outputs.append({"value": text if right else wrong, "metadata": metadata})
    cases[5]["id"] = f"order-{seed}-alone"
    cases[9]["input"] = f"A question that only run {seed} has"
    if seed % 2:
        outputs[11]["value"] = 17  # the check cannot read a number
    checks = [
        {"type": "contains", "arguments": {"text": "$.output.value", "phrases": ["refund"]}},
        {"type": "regex", "arguments": {"text": "$.output.value", "pattern": "label"}},
    ]  # fmt: skip
    return {"test_cases": cases, "outputs": outputs, "checks": checks}


def hostile_pair(*, after: bool) -> dict[str, Any]:
    """Two runs whose ids, inputs, tags and outputs try to be more than text."""
    cases = [
        {"id": f"{name}-{SCRIPT}"[:200], "input": text[:2_000], "metadata": {"tags": [SCRIPT, name]}}
        for name, text in HOSTILE.items()
    ]
    outputs = [{"value": text + (" after" if after else " before")} for text in HOSTILE.values()]
    arguments = {"text": "$.output.value", "phrases": ["before", SCRIPT], "case_sensitive": True}
    return {
        "test_cases": cases,
        "outputs": outputs,
        "checks": [{"type": "contains", "arguments": arguments}],
    }


def evaluate(client: Any, request: dict[str, Any], name: str) -> str:
    body = request | {"experiment_metadata": {"name": name}}
    response = client.post("/v1/evaluate", json=body)
    assert response.status_code == 200, response.text
    return response.json()["evaluation_id"]


# verifier loops and promotions


def start_loop(client: Any, workflow: str, task: str = "What changed in 2.1?") -> str:
    """A loop that has ended, or that waits for a person."""
    response = client.post("/v1/runs", json={"workflowId": workflow, "inputs": {"task": task}})
    assert response.status_code == 201, response.text
    run = response.json()["runId"]
    while status_of(client, run) in ("pending", "running"):
        time.sleep(0.02)
    return run


def status_of(client: Any, run: str) -> str:
    return client.get(f"/v1/runs/{run}").json()["status"]


def sorter_run(client: Any, version: str) -> str:
    """An adversarial eval run of one version of an agent. Version 1.1.0 fails one of eight tasks."""
    tasks = [golden(f"sort-{number}", f"queue {number}", f"queue {number}") for number in range(8)]
    suite = {"suiteId": "local.shop.evals.queues", "version": "1.0.0", "modes": ["adversarial"]}
    return Runs(client).suite(suite | {"tasks": tasks}, "sorter-2", agentVersion=version)


def activate(client: Any, agent: str, run: str) -> None:
    """Make version 1.0.0 of an agent the active one, with this evidence."""
    waits = ask_promotion(client, agent, "1.0.0", run)
    answer = {"resumeValue": {"action": "accept"}}
    response = client.post(f"/v1/runs/{waits}/interrupts/approval", json=answer)
    assert response.status_code == 200, response.text
    while status_of(client, waits) != "completed":
        time.sleep(0.02)


def ask_promotion(
    client: Any, agent: str = "local.shop.sorter-0", version: str = "1.1.0", evidence: str = ""
) -> str:
    """A promotion to `active` that waits for an approval."""
    for state in ("test", "staged", "active"):
        body = {
            "version": version,
            "transition": "promote",
            "toState": state,
            "reason": "the queue is shorter",
        } | ({"evalRunId": evidence} if evidence else {})
        response = client.post(f"/v1/agents/{agent}/deployments", json=body)
        assert response.status_code in (200, 202), response.text
    assert response.status_code == 202, response.text
    return response.json()["runId"]


def make_decision_runs(client: Any) -> dict[str, str]:
    return {
        "before": evaluate(client, answers(1, 0.8), "returns"),
        "after": evaluate(client, answers(2, 0.93), "returns"),
        "third": evaluate(client, answers(3, 0.7), "returns"),
        "hostile-before": evaluate(client, hostile_pair(after=False), "hostile"),
        "hostile-after": evaluate(client, hostile_pair(after=True), "hostile"),
        "reached": start_loop(client, "release-note"),
        "waits": start_loop(client, "careful-note"),
        "gave-up": start_loop(client, "hopeless-note"),
        "hostile-waits": start_loop(client, "hostile-note"),
        "promotion": ask_promotion(client),
    }


def main() -> None:
    import json

    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    with decision_server(f"sqlite:///{folder}/runs.db") as server:
        key = server.key(scopes=EVERYTHING)
        with server.client(key) as client:
            made = make_decision_runs(client)
        made |= {
            "key": key,
            "reader": server.key(scopes={"runs:read", "evaluations:read"}),
            "url": server.url,
        }
        (folder / "runs.json").write_text(json.dumps(made, indent=1))
        sys.stdout.write(json.dumps(made, indent=1) + "\n")
        sys.stdout.flush()
        while True:
            time.sleep(60)


if __name__ == "__main__":
    main()
