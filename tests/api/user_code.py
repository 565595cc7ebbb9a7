# pyright: strict
"""A user's code with every public name of assay. It is not run: pyright and mypy check it, both strict."""

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars

import assay


class Polite(assay.Checker):
    type = "polite"

    text: assay.Text
    limit: assay.Number = 1
    found: assay.Nodes = assay.Nodes()
    prompt: assay.Template = ""
    shape: assay.Schema = {}  # noqa: RUF012
    settings: assay.Opaque = {}  # noqa: RUF012

    def run(self, services: assay.Services) -> assay.Answer:
        limits: assay.Limits = services.limits
        if limits.max_depth < 1:
            raise assay.ValueFault("too deep")
        return {"passed": "please" in self.text}


class Names(assay.Detector):
    type = "names"
    kind = "name-leak"

    def detect(self, services: assay.Services) -> Iterator[assay.Detection]:
        for where, text in assay.texts_in("value", "x"):
            yield assay.Detection(where, 0, len(text), "name")


def length(output: str) -> bool:
    return len(output) < 100


def agent(question: str, context: assay.AgentContext) -> str:
    if context.trial > 3:
        raise assay.AgentRefusal("enough")
    if not question:
        raise assay.NotMeasured("no question")
    try:
        return str(context.call("search", {"q": question}))
    except assay.ToolFailure as failure:
        return failure.code


registry: assay.Registry = assay.STANDARD.with_checks([Polite, Names])
cases = [assay.TestCase(id="a", input="?"), assay.TestCase(id="b", input="!")]
outputs = [assay.Output(value="yes"), assay.Output(value="no")]
checks = [assay.Check(type="contains", arguments={"text": "$.output.value", "phrases": ["yes"]})]
request = assay.EvaluationRequest(test_cases=cases, outputs=outputs, checks=[*checks])


def show(progress: assay.Progress) -> None:
    print(progress.done, progress.total, progress.errors)


def results() -> None:
    about = assay.ExperimentMetadata(name="first")
    result: assay.RunResult = assay.evaluate_sync(
        cases, outputs, checks, about, registry=registry, on_progress=show
    )
    rate: assay.PassRate | None = result.pass_rate
    if rate is not None:
        print(rate + 1.0, rate.low, rate.high, rate.method, rate.cases)
    slices: list[assay.Slice] = result.slices("topic")
    failing: list[assay.FailingCase] = result.failing
    print([one.case_pass_rate for one in slices], [one.checks[0].reason for one in failing])
    plain: assay.EvaluationRunResult = result
    summary: assay.EvaluationSummary = plain.summary
    case: assay.TestCaseResult = plain.results[0]
    counts: assay.TestCaseSummary = case.summary
    check: assay.CheckResult = case.check_results[0]
    if isinstance(check.error, assay.CheckError):
        print(check.error.message, summary.total_test_cases, counts.total_checks)


def forms() -> None:
    frame = polars.DataFrame({"question": ["?"], "answer": ["yes"], "human": [True]})
    short = [{"contains": "yes"}]
    result = assay.evaluate_sync(frame, checks=short, map={"input": "question", "output": "answer"})
    assay.evaluate_sync(frame, checks=["polite", length], registry=registry)
    assay.evaluate_sync([{"question": "?", "answer": "yes"}], checks=[short, [length]])
    compared: assay.Comparison = assay.compare(result, "before.jsonl", frame, by=["topic", "tag"])
    print(compared.verdict, compared.pair.result.low, compared.pair.changes[0].data.reason_after)
    decision: assay.GateDecision = assay.gate(Path("after.jsonl"), baseline=result, policy={"min_mean": 0.9})
    checked: assay.JudgeCheck = assay.judge_check(result, ["human", {"a": True}], check="polite")
    print(checked.agreement, decision.reasons)
    path: Path = assay.report(result, "latest", output="report.html", redact=True)
    text: str = assay.report(result)
    history: assay.SuiteHistory = assay.history("suite.yaml", agent="mine")
    print(path.name, text, [(row.score, row.low, row.high) for row in history.rows])
    sys.exit(decision.exit_code)


async def waiting(suite: assay.AgentEvalSuite) -> None:
    result = await assay.evaluate(cases, agent=agent, checks=checks, trials=3)
    async for one in assay.evaluate_stream(assay.load_cases("cases.csv"), checks, agent=agent):
        print(one.status)
    loaded, answers = assay.load_contexts("answers.csv", map={"input": "question"})
    recorded = assay.read_traces("traces.jsonl")
    print(result.case_pass_rate, len(loaded), len(answers), len(recorded))
    run: assay.SuiteRun = await assay.run_suite(suite, agent, free=True)
    summary: assay.EvalSummary | None = run.summary
    print(summary, run.pass_rate, run.findings)
    ended: assay.Verification = await assay.verify(agent, length, {"task": 1}, criteria=["kind"])
    print(ended.committed, ended.result)


def answered() -> assay.InvocationResult:
    return assay.InvocationResult(outcome="completed", result="yes")


def failures() -> Any:
    try:
        asyncio.run(waiting(assay.AgentEvalSuite(suite_id="a", version="1.0.0", modes=("golden",), tasks=())))
    except assay.BadLine as bad:
        return bad.location
    except (assay.UsageError, assay.EnvironmentFailure) as wrong:
        return wrong.lines
    except assay.InvalidRequest as invalid:
        return [problem.message for problem in invalid.problems]
    except assay.MalformedPath as malformed:
        return malformed
    except assay.Refusal as refusal:
        return str(refusal)
    except (assay.PathFault, assay.TimeFault, assay.ForeignFault, assay.Fault) as fault:
        return fault
    return assay.jsonpath.compile("$.output.value").values({})
