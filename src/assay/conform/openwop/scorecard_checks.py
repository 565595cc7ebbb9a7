"""Scorecards: shape, and every number recomputed from the events and the suite."""

import math
from typing import Any

from assay.conform.check import Host, NotOffered, document_of, expect, expect_status, refused_as
from assay.conform.json_values import Document, is_object, object_in, objects_in, same, shown
from assay.conform.openwop.runs import EvalRun, any_run, ran, snapshot, started_run, workflow
from assay.conform.openwop.surface import NO_RUN, advertises, fixture, need_mode, row, run_path

REQUIRED = ("suiteId", "suiteVersion", "aggregateScore", "passed", "taskCount", "passedCount", "tasks")
OPTIONAL = ("evaluatedModelClass", "totalCostUsd", "regression")
TASK = ("taskId", "score", "passed", "costUsd", "latencyMs", "schemaValid", "safetyFindings")
SEVERITIES = ("low", "medium", "high", "critical")
BARS = ("score-met", "score-missed", "score-default")
PASS_SCORE = 0.7  # of a suite that has none
GOLDEN = {"evalModes": ["golden"]}
MATCHES = {  # the suite `matching`
    "exact": 1, "exact-case": 0, "exact-space": 0, "contains": 1, "contains-case": 0, "contains-not": 0, "json-order": 1,
    "json-list-order": 0, "json-extra": 0, "json-boolean": 0, "json-text": 1, "json-no-json": 0, "json-null": 1,
}  # fmt: skip
WEIGHTS = (0.5, 0.25, 0.125)  # of the suite `judged`
SIZES = (1, 19, 20, 21)


def _close(one: Any, two: float) -> bool:
    return isinstance(one, int | float) and not isinstance(one, bool) and math.isclose(one, two, abs_tol=1e-9)


def summary_of(host: Host, run: EvalRun) -> Document:
    path = run_path(run.id, "/eval-summary")
    answer = host.send("GET", path)
    expect_status(answer, 200, f"GET {path}")
    return document_of(answer, f"GET {path}")


def _shape(host: Host) -> None:
    found = summary_of(host, any_run(host))
    expect(not {*REQUIRED} - found.keys(), f"the scorecard has no {sorted({*REQUIRED} - found.keys())}")
    more = found.keys() - {*REQUIRED, *OPTIONAL}
    expect(not more, f"the scorecard has members of its own: {sorted(more)}")
    for task in objects_in(found, "tasks"):
        expect(
            {"taskId", "score", "passed"} <= task.keys() <= {*TASK}, f"a task has the members {sorted(task)}"
        )
        expect(_is_share(task["score"]), f"a task: score: got {shown(task['score'])}")
        for finding in objects_in(task, "safetyFindings"):
            expect(
                finding.keys() == {"kind", "severity"} and finding["severity"] in SEVERITIES,
                f"a finding: expected kind and severity, got {sorted(finding)}",
            )
    expect(_is_share(found["aggregateScore"]), "aggregateScore: expected a number from 0 to 1")


def _is_share(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1


def _counts(host: Host) -> None:
    run = any_run(host)
    found, scored = summary_of(host, run), run.payloads("eval.scored")
    tasks = {one.get("taskId"): one for one in objects_in(found, "tasks")}
    expect(
        found.get("taskCount") == len(tasks) == len(scored), "taskCount: expected the number of eval.scored"
    )
    passed = sum(one.get("passed") is True for one in scored)
    expect(
        found.get("passedCount") == passed, f"passedCount: expected {passed}, got {found.get('passedCount')}"
    )
    for one in scored:
        task = tasks.get(one.get("taskId")) or {}
        for name in ("score", "passed", "costUsd", "latencyMs"):
            expect(
                same(task.get(name), one.get(name)),
                f"the task {shown(one.get('taskId'))}: {name} differs from eval.scored",
            )
    (ended,) = run.payloads("eval.completed") or [{}]
    for name in ("aggregateScore", "passed", "taskCount", "passedCount"):
        expect(same(found.get(name), ended.get(name)), f"{name} differs from eval.completed")
    if run.suite is not None:
        order = [one["taskId"] for one in run.suite["tasks"]]
        expect([*tasks] == order, f"tasks: expected the order of the suite, got {shown([*tasks])}")


def _mean(host: Host) -> None:
    for run in (any_run(host), *_bars(host)):
        scores = [one.get("score", 0) for one in run.payloads("eval.scored")]
        found = summary_of(host, run).get("aggregateScore")
        wanted = sum(scores) / max(1, len(scores))
        expect(_close(found, wanted), f"aggregateScore: expected the mean {wanted:g}, got {shown(found)}")


def _bars(host: Host) -> list[EvalRun]:
    return [] if host.suite is not None else [ran(host, name, **GOLDEN) for name in BARS]


def _cost(host: Host) -> None:
    run = any_run(host)
    found = summary_of(host, run)
    calls = [one.get("costEstimateUsd") for one in run.payloads("provider.usage")]
    if not calls:
        raise NotOffered("the run has no provider.usage")
    if None in calls:
        expect("totalCostUsd" not in found, "totalCostUsd: expected none, because a call has no cost")
        return
    total = math.fsum(float(one or 0) for one in calls)
    got = found.get("totalCostUsd")
    expect(_close(got, total), f"totalCostUsd: expected the sum of the calls {total:g}, got {shown(got)}")
    tasks = math.fsum(one.get("costUsd", 0) for one in objects_in(found, "tasks"))
    expect(_close(tasks, total), f"the costs of the tasks: expected the sum {total:g}, got {tasks:g}")


def _cost_bar(host: Host) -> None:
    for name, wanted in (("cost-met", True), ("cost-missed", False)):
        run = ran(host, name, **GOLDEN)
        found = summary_of(host, run)
        if "totalCostUsd" not in found:
            expect(found.get("passed") is False, "an unknown cost: expected that maxCostUsd is not met")
        else:
            expect(found.get("passed") is wanted, f"the suite {name}: expected passed {wanted}")


def _pass_score(host: Host) -> None:
    for name, wanted in zip(BARS, (True, False, False), strict=True):
        run = ran(host, name, **GOLDEN)
        expect(run.snapshot["status"] == "completed", f"the suite {name}: expected a completed run")
        expect(summary_of(host, run).get("passed") is wanted, f"the suite {name}: expected passed {wanted}")


def nearest_rank(values: list[Any]) -> Any:
    """The 95th percentile by its nearest rank: the largest of up to 19 values, the second largest of 20 to 39."""
    return sorted(values)[math.ceil(0.95 * len(values)) - 1]


def _p95(host: Host) -> None:
    for many in SIZES:
        started_run(host, f"p95-{many}", **GOLDEN)
    for many in SIZES:
        run = ran(host, f"p95-{many}", **GOLDEN)
        latencies = [one.get("latencyMs") for one in run.payloads("eval.scored")]
        expect(
            len(latencies) == many and all(isinstance(one, int) for one in latencies),
            f"{many} tasks: expected a latencyMs of each in eval.scored",
        )
        p95 = nearest_rank(latencies)
        wanted = p95 <= object_in(run.suite, "thresholds")["maxP95LatencyMs"]
        found = summary_of(host, run).get("passed")
        expect(
            found is wanted, f"{many} tasks: p95 is {p95} ms: expected passed {wanted}, got {shown(found)}"
        )


def _matching(host: Host) -> None:
    run = ran(host, "matching", **GOLDEN)
    scores = {one.get("taskId"): one.get("score") for one in run.payloads("eval.scored")}
    wrong = [name for name, score in MATCHES.items() if not _close(scores.get(name), score)]
    expect(not wrong, f"matches: another score than expected for {', '.join(wrong)}")
    tasks = objects_in(summary_of(host, run), "tasks")
    passed = {one.get("taskId"): one.get("passed") for one in tasks}
    wrong = [name for name, score in MATCHES.items() if passed.get(name) is not (score == 1)]
    expect(not wrong, f"a golden task passes at 1: not so for {', '.join(wrong)}")


def _weights(host: Host) -> None:
    need_mode(host, "rubric")
    run = ran(host, "judged", evalModes=["rubric"])
    (task,) = objects_in(summary_of(host, run), "tasks") or [{}]
    sums = {
        sum(one for at, one in enumerate(WEIGHTS) if chosen >> at & 1) / sum(WEIGHTS) for chosen in range(8)
    }
    score = task.get("score")
    expect(
        any(_close(score, one) for one in sums),
        f"a rubric with the weights {WEIGHTS}: {shown(score)} is no share of them",
    )
    bar = task.get("passed") is (isinstance(score, int | float) and score >= PASS_SCORE)
    expect(
        bar, f"a rubric task passes at {PASS_SCORE}: it has {shown(score)} and passed {task.get('passed')}"
    )


def _regression(host: Host) -> None:
    need_mode(host, "regression")
    baseline = ran(host, "plain", **GOLDEN)
    run = ran(host, "plain", evalModes=["regression"], baselineRunId=baseline.id)
    found = summary_of(host, run)
    delta = found.get("aggregateScore", 0) - summary_of(host, baseline).get("aggregateScore", 0)
    block = object_in(found, "regression")
    expect(block.get("baselineRunId") == baseline.id, "regression.baselineRunId: expected the baseline")
    expect(_close(block.get("scoreDelta"), delta), f"regression.scoreDelta: expected {delta:g}")
    (started,), (ended,) = run.payloads("eval.started") or [{}], run.payloads("eval.completed") or [{}]
    expect(started.get("baselineRunId") == baseline.id, "eval.started.baselineRunId: expected the baseline")
    expect(_close(ended.get("regressionVsBaseline"), delta), f"eval.completed: expected {delta:g}")
    passed = found.get("aggregateScore", 0) >= 0.5
    expect(found.get("passed") is passed, "passed: the difference from the baseline does not change it")


def _findings(host: Host) -> None:
    """A canary that leaks is a finding; a high or critical one makes the score 0. Golden alone has no detectors."""
    need_mode(host, "adversarial")
    plain = ran(host, "leak", **GOLDEN)
    scores = [one.get("score") for one in plain.payloads("eval.scored")]
    expect(scores == [1], f"the suite leak in the mode golden: expected the score 1, got {scores}")
    run = ran(host, "leak", evalModes=["adversarial"])
    (task,) = objects_in(summary_of(host, run), "tasks") or [{}]
    findings = objects_in(task, "safetyFindings")
    severe = any(one.get("severity") in ("high", "critical") for one in findings)
    expect(
        task.get("score") == (0 if severe else 1),
        f"a task with the findings {shown(findings)} has the score {task.get('score')}",
    )
    (scored,) = run.payloads("eval.scored") or [{}]
    expect(
        scored.get("safetyFindingCount") == len(findings),
        f"safetyFindingCount: expected {len(findings)}, got {shown(scored.get('safetyFindingCount'))}",
    )


def _same_as_output(host: Host) -> None:
    run = any_run(host)
    found = summary_of(host, run)
    expect(same(run.snapshot.get("outputs"), found), "outputs of the snapshot differ from the scorecard")
    (ended,) = run.payloads("run.completed") or [{}]
    expect(same(ended.get("outputs"), found), "outputs of run.completed differ from the scorecard")


def _not_ready(host: Host) -> None:
    slow = started_run(host, "slow", **GOLDEN)
    path = run_path(slow, "/eval-summary")
    answer = host.send("GET", path)
    if snapshot(host, slow)["status"] not in ("completed", "failed", "cancelled"):
        refused_as(answer, 409, f"GET {path} of a run that goes on")
    host.send("POST", run_path(slow, "/cancel"), {})
    refused_as(host.send("GET", run_path(NO_RUN, "/eval-summary")), 404, "GET of an unknown scorecard")
    if advertises(host, "multiAgent.executionModel"):
        other = run_path(workflow(host, fixture(host, "noop")), "/eval-summary")
        refused_as(host.send("GET", other), 404, f"GET {other} of a workflow")


def task_scores(run: EvalRun) -> dict[Any, Any]:
    """The scores of `eval.scored`, by task."""
    return {one.get("taskId"): one.get("score") for one in run.payloads("eval.scored") if is_object(one)}


SCORECARD_CHECKS = [
    row("scorecard.shape", "6.4", "A scorecard is closed at every level.", "GET …/eval-summary.", "The required members, and no other than the optional ones.", _shape),
    row("scorecard.counts", "6.4", "Counts, scores, costs and times are those of the events; tasks have the order of the suite.", "A scorecard and its log.", "Equal values in eval.scored, eval.completed and the scorecard.", _counts),
    row("scorecard.mean", "6.3", "The score of a run is the mean of its tasks.", "Scorecards of four runs.", "The mean of eval.scored.", _mean),
    row("scorecard.cost", "6.3", "The cost is the sum of all calls; it is unknown if one is.", "A scorecard and provider.usage.", "totalCostUsd and the costs of the tasks are this sum.", _cost),
    row("scorecard.cost-bar", "6.3", "passed needs the cost to be at most maxCostUsd.", "Runs that cost 0.75, with the bars 0.75 and 0.7.", "passed true, then false.", _cost_bar),
    row("scorecard.pass-score", "6.3", "passed needs the pass score, 0.7 if there is none. A run that misses it is completed.", "Scores 0.5, 0.5 and 0.67 with the bars 0.5, 0.51 and none.", "true, false, false; completed runs.", _pass_score),
    row("scorecard.p95", "6.3", "The p95 latency is the nearest rank.", "Runs of 1, 19, 20 and 21 tasks, one of them slow.", "passed as the latencies of eval.scored say.", _p95),
    row("scorecard.matching", "6.3", "exact, contains and json-match compare as the contract says.", f"{len(MATCHES)} golden tasks.", "The scores 0 and 1 of the table in conformance/openwop/matching.json.", _matching),
    row("scorecard.weights", "6.3", "A rubric scores the share of the weights that are met.", "A rubric with the weights 0.5, 0.25 and 0.125.", "One of their eight shares.", _weights),
    row("scorecard.regression", "6.3", "A regression has the difference from its baseline, which does not change passed.", "A run with a baseline.", "scoreDelta, regressionVsBaseline and baselineRunId.", _regression),
    row("scorecard.findings", "6.3", "A finding that is high or critical makes the score 0.", "A task that repeats a canary, in golden and adversarial.", "1 in golden; the score and safetyFindingCount follow from the findings.", _findings),
    row("scorecard.outputs", "3.3", "The scorecard is the output of the run.", "The scorecard, the snapshot and run.completed.", "Equal documents.", _same_as_output),
    row("scorecard.not-ready", "3.4", "There is no scorecard of a run that goes on, of an unknown run and of a workflow.", "GET …/eval-summary of such runs.", "409, 404, 404.", _not_ready),
]  # fmt: skip
