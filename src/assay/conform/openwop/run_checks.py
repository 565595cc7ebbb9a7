"""Fixtures and isolation, content, replay, differences and annotations of eval runs."""

import secrets
from typing import Any

from assay.conform.check import (
    Failed,
    Host,
    NotOffered,
    NotTried,
    document_of,
    expect,
    expect_status,
    refused_as,
)
from assay.conform.json_values import Document, object_in, objects_in, same, shown
from assay.conform.openwop.runs import (
    EvalRun,
    any_run,
    created,
    log,
    ran,
    request,
    start,
    suite_ref,
    wait_for_end,
)
from assay.conform.openwop.scorecard_checks import GOLDEN, summary_of, task_scores
from assay.conform.openwop.surface import NO_RUN, capability, need_mode, row, run_path

CANARY = "conform-canary-"
CONTENT_FREE = ("eval.", "agent.invocation.", "agent.verified", "provider.usage", "memory.", "deployment.")
COUNTER = "conform:counter"
SECRET = "sk-" + "conform0123456789abcdef0123456789"


def _answers(host: Host) -> None:
    run = ran(host, "tools", **GOLDEN)
    scores = task_scores(run)
    for task in ("in-order", "no-response"):
        expect(scores.get(task) == 1, f"the task {task}: the tool did not answer as its fixtures say")
    returned = [one for one in run.payloads("agent.toolReturned") if one.get("toolName") == "conform:lookup"]
    expect(returned, "expected agent.toolReturned of the tool with fixtures")
    expect(
        all(one.get("status", "ok") == "ok" for one in returned),
        "a fixture: expected the status ok of its tool",
    )


def _missing(host: Host) -> None:
    """A tool without a fixture is an error, and is never called."""
    run = ran(host, "tools", **GOLDEN)
    found = [one for one in run.payloads("agent.toolReturned") if one.get("toolName") == COUNTER]
    expect(
        all("error" in one and "outcome" not in one for one in found), f"{COUNTER} answered without a fixture"
    )
    expect(
        task_scores(run).get("missing") == 1,
        "a tool without a fixture: expected that the agent sees an error",
    )


def _not_allowed(host: Host) -> None:
    run = ran(host, "tools", **GOLDEN)
    calls = [one.get("toolName") or one.get("tool") for one in run.payloads("agent.toolCalled")]
    expect("conform:forbidden" not in calls, "agent.toolCalled of a tool that the agent may not call")
    expect(task_scores(run).get("not-allowed") == 1, "a tool that is not allowed: expected an error")


def _memory(host: Host) -> None:
    scores = task_scores(ran(host, "memory", **GOLDEN))
    expect(scores.get("seeded") == 1, "a seed of memory is not visible in its trial")
    for task in ("alone", "plain"):
        expect(scores.get(task) == 1, f"the task {task} sees the memory of another trial")


def _isolation(host: Host) -> None:
    """A second run sees nothing of the first."""
    first, second = (
        start(host, request(host, suite_ref(host, "memory"), evalModes=["golden"])) for _ in range(2)
    )
    for run in (first, second):
        wait_for_end(host, run)
        scores = task_scores(EvalRun(run, {}, log(host, run), None))
        expect([*scores.values()] == [1, 1, 1], f"two runs with memory: expected the scores 1, got {scores}")


def _live(host: Host) -> tuple[int, str]:
    """What the tool that counts its calls answered in a new run with live tools, and that run."""
    need_mode(host, "live-shadow")
    answer = host.send("POST", "/v1/runs", request(host, suite_ref(host, "live"), evalModes=["live-shadow"]))
    if answer.status == 400:
        raise NotTried(f"the host has no tool {COUNTER}, which counts its calls")
    expect_status(answer, 201, "POST /v1/runs in the mode live-shadow")
    run = created(host, document_of(answer, "POST /v1/runs"))
    wait_for_end(host, run)
    found = _returned(log(host, run))
    if len(found) != 1 or not isinstance(found[0], int):
        raise Failed(f"{COUNTER}: expected the number of its calls, got {shown(found)}")
    return found[0], run


def _returned(events: list[Document]) -> list[Any]:
    return [
        object_in(one, "payload").get("outcome") for one in events if one.get("type") == "agent.toolReturned"
    ]


def _live_calls(host: Host) -> None:
    """The tool counts its calls: none in golden, one in each live run."""
    before, _ = _live(host)
    plain = ran(host, "live", **GOLDEN)
    expect(_returned(plain.events) == ["a fixture"], "golden: expected the answer of the fixture")
    after, _ = _live(host)
    expect(
        after == before + 1, f"a golden run between two live ones called the tool {after - before - 1} times"
    )


def _canaries(host: Host) -> None:
    body = request(host, suite_ref(host, "canaries"), evalModes=["golden"]) | {
        "tags": [CANARY + "tag"],
        "metadata": {"note": CANARY + "metadata"},
    }
    run = start(host, body)
    shot = wait_for_end(host, run)
    for event in log(host, run):
        if str(event.get("type")).startswith(CONTENT_FREE):
            expect(
                CANARY not in shown(event, None), f"{event.get('type')} has content of the task or the agent"
            )
    found = summary_of(host, EvalRun(run, shot, [], None))
    expect(CANARY not in shown(found, None), "the scorecard has content")
    other = host.send("GET", run_path(run), key="")
    expect(CANARY.encode() not in other.body, "an answer without a key has content")


def _canary_in_refusal(host: Host) -> None:
    text = CANARY + secrets.token_hex(4)
    bad_suite: Document = {"suiteId": "x", "tasks": [{"taskId": text, "input": text, "expected": {}}]}
    bad_run: Document = {"inputs": {"x": text}, "what": 1}
    for path, body in (("/v1/host/assay/suites", bad_suite), ("/v1/runs", bad_run)):
        capability(host, "agents.evalSuite")
        answer = host.send("POST", path, body)
        expect(answer.status >= 400, f"POST {path}: expected a refusal")
        expect(text.encode() not in answer.body, f"POST {path}: the refusal quotes content")


def _hides_key(host: Host) -> None:
    any_run(host)
    host.send("GET", run_path(NO_RUN))
    host.expect_no_key()


def _fork(host: Host, run: str, body: Document) -> EvalRun:
    answer = host.send("POST", run_path(run, ":fork"), body)
    expect_status(answer, 201, f"POST {run_path(run, ':fork')}")
    copy = created(host, document_of(answer, "the answer to a fork"))
    shot = wait_for_end(host, copy)
    return EvalRun(copy, shot, log(host, copy), None)


def _replay(host: Host) -> None:
    capability(host, "replay")
    source = ran(host, "tools", **GOLDEN) if host.suite is None else any_run(host)
    copy = host.once("replay", lambda: _fork(host, source.id, {"mode": "replay"}))
    expect(len(copy.events) == len(source.events), "a replay has another number of events than its source")
    ids = {
        one.get("eventId"): two.get("eventId") for one, two in zip(source.events, copy.events, strict=True)
    }
    for one, two in zip(source.events, copy.events, strict=True):
        what = f"event {one.get('sequence')} ({one.get('type')}) of a replay"
        expect(one.get("type") == two.get("type"), f"{what} has another type")
        expect(one.get("eventId") != two.get("eventId"), f"{what} has the eventId of its source")
        cause = one.get("causationId")
        expect(
            two.get("causationId") == (None if cause is None else ids.get(cause, cause)),
            f"{what}: causationId",
        )
        if not str(one.get("type")).startswith("run."):
            expect(same(one.get("payload"), two.get("payload")), f"{what} has another payload")
    expect(same(summary_of(host, copy), summary_of(host, source)), "a replay has another scorecard")


def _replay_calls_nothing(host: Host) -> None:
    capability(host, "replay")
    before, run = _live(host)
    _fork(host, run, {"mode": "replay"})
    after, _ = _live(host)
    expect(after == before + 1, "a replay called the tool of its source")


def _replay_asks_nobody(host: Host) -> None:
    """The agent answers otherwise each time, so a replay that asked it would have another log."""
    capability(host, "replay")
    source, other = ran(host, "random", **GOLDEN), ran(host, "random", **GOLDEN, trials=1)
    first, second = (
        [one.get("decision") for one in run.payloads("agent.decided")] for run in (source, other)
    )
    if not first or same(first, second):
        raise NotTried("the log does not show that the agent answers otherwise each time")
    copy = _fork(host, source.id, {"mode": "replay"})
    found = [one.get("decision") for one in copy.payloads("agent.decided")]
    expect(same(found, first), f"a replay: agent.decided: expected {shown(first)}, got {shown(found)}")


def _fork_refusals(host: Host) -> None:
    capability(host, "replay")
    run = any_run(host)
    end = len(run.events)
    for body, status in (
        ({"mode": "branch"}, 400),
        ({"mode": "replay", "runOptionsOverlay": {"x": 1}}, 400),
        ({"mode": "copy"}, 400),
        ({"mode": "replay", "fromSeq": -1}, 400),
        ({"mode": "replay", "fromSeq": end + 5}, 422),
    ):
        answer = host.send("POST", run_path(run.id, ":fork"), body)
        refused_as(answer, status, f"POST {run_path(run.id, ':fork')} with {shown(body)}")


def _diff(host: Host) -> None:
    run = any_run(host).id
    path = run_path(run, f":diff?against={run}")
    answer = host.send("GET", path)
    if answer.status in (404, 405, 501):
        raise NotOffered(f"GET {path} is {answer.status}")
    expect_status(answer, 200, f"GET {path}")
    found = document_of(answer, f"GET {path}")
    expect(
        found.get("divergedAtSeq", 0) is None and found.get("eventDiffs") == [],
        "a run and itself: expected no difference",
    )
    refused_as(host.send("GET", run_path(run, ":diff")), 400, "a difference without against")
    refused_as(
        host.send("GET", run_path(run, f":diff?against={NO_RUN}")), 404, "a difference with an unknown run"
    )


def _diff_of_two(host: Host) -> None:
    one, two = ran(host, "plain", **GOLDEN).id, ran(host, "other", **GOLDEN).id
    answer = host.send("GET", run_path(one, f":diff?against={two}"))
    if answer.status in (404, 405, 501):
        raise NotOffered(f"GET …:diff is {answer.status}")
    found = document_of(answer, "GET …:diff")
    rows = objects_in(found, "eventDiffs")
    expect(
        rows and rows[0].get("seq") == found.get("divergedAtSeq"),
        "divergedAtSeq: expected the first difference",
    )
    expect(
        all(one.get("op") in ("added", "removed", "changed") for one in rows),
        "eventDiffs: op: expected added, removed or changed",
    )


def _annotation(host: Host, run: str, body: Document) -> Any:
    capability(host, "feedback")
    return host.send("POST", run_path(run, "/annotations"), body)


def _annotate(host: Host) -> None:
    run = any_run(host)
    target = run.events[-1].get("eventId")
    body = {
        "target": {"eventId": target},
        "signal": {"kind": "rating", "rating": 4},
        "note": f"conform {SECRET}",
    }
    answer = _annotation(host, run.id, body)
    expect_status(answer, 201, "POST …/annotations")
    made = document_of(answer, "POST …/annotations")
    for name in ("annotationId", "target", "signal", "actor", "createdAt"):
        expect(name in made, f"an annotation has no {name}")
    found = document_of(host.send("GET", run_path(run.id, "/annotations")), "GET …/annotations")
    ids = [one.get("annotationId") for one in objects_in(found, "annotations")]
    expect(made["annotationId"] in ids, "GET …/annotations: expected the one that was just made")
    expect(SECRET not in shown([made, found], None), "an annotation shows a secret")
    expect(same(log(host, run.id), run.events), "an annotation changed the log")
    expect(same(summary_of(host, run), run.summary), "an annotation changed the scorecard")


def _bad_annotations(host: Host) -> None:
    run = any_run(host).id
    for signal in ({"kind": "rating", "rating": 6}, {"kind": "rating"}, {"kind": "vibes"}, {"kind": "label"}):  # fmt: skip
        refused_as(_annotation(host, run, {"signal": signal}), 400, f"an annotation {shown(signal)}")
    answer = _annotation(host, run, {"signal": {"kind": "flag"}, "what": 1})
    refused_as(answer, 400, "an annotation with an unknown member")


def _not_copied(host: Host) -> None:
    capability(host, "replay")
    run = any_run(host).id
    _annotation(host, run, {"signal": {"kind": "flag"}})
    copy = _fork(host, run, {"mode": "replay"}).id
    answer = host.send("GET", run_path(copy, "/annotations"))
    expect_status(answer, 200, "GET …/annotations")
    found = objects_in(document_of(answer, "GET …/annotations"), "annotations")
    expect(not found, "a fork has the annotations of its source")


RUN_CHECKS = [
    row("fixtures.answers", "6.2", "Fixtures answer a tool in their order, and the last one repeats.", "A task that calls a tool three times with two fixtures; a fixture without a response.", "first, second, second; null.", _answers),
    row("fixtures.missing", "6.2", "A tool without a fixture fails, and is never called live.", "A task that calls such a tool.", "An error in agent.toolReturned.", _missing),
    row("fixtures.not-allowed", "6.2", "A tool that the agent may not call is refused without agent.toolCalled.", "A task that calls such a tool, which has a fixture.", "No event of it; an error for the agent.", _not_allowed),
    row("fixtures.memory", "6.2", "Seeds of memory are visible in their trial alone.", "Three tasks that read their memory, one with a seed.", "The seed in its task, nothing in the others.", _memory),
    row("fixtures.isolation", "6.2", "A run sees nothing of the memory of another.", "The same suite twice.", "The same scores.", _isolation),
    row("fixtures.live-calls", "6.2", "With fixtures a tool is never called live, except in live-shadow.", "A golden run between two in live-shadow, with a tool that counts its calls.", "One call more in each live run.", _live_calls),
    row("content.canaries", "5", "Content stays out of events about evals, out of scorecards and out of refusals.", "A run with canaries in inputs, expectations, tools, memory, tags and metadata.", "None of them in these reads.", _canaries),
    row("content.refusals", "6.1", "A refusal has places, and no content.", "A suite and a run that are refused, with a canary.", "A body without it.", _canary_in_refusal),
    row("content.hides-the-key", "2.1", "No answer shows the key.", "Every request of the checks so far.", "Bodies without the key.", _hides_key)._replace(last=True),
    row("replay.copies", "3.7", "A replay of an eval run copies every event.", "A fork in the mode replay.", "The same types, payloads and scorecard; ids and causes of its own.", _replay),
    row("replay.calls-nothing", "3.7", "A replay calls nothing.", "A replay between two runs with a tool that counts its calls.", "No call.", _replay_calls_nothing),
    row("replay.asks-nobody", "3.7", "A replay does not ask the agent again.", "A replay of a run whose agent answers otherwise each time.", "The answer of its source.", _replay_asks_nobody),
    row("replay.refusals", "3.7", "A branch needs fromSeq, a replay takes no options, and fromSeq is in the log.", "Five forks that are refused.", "400; 422 behind the end.", _fork_refusals),
    row("diff.self", "9.1", "A run does not differ from itself.", "GET …:diff against itself, against nothing and against an unknown run.", "No difference; 400; 404.", _diff),
    row("diff.two", "9.1", "divergedAtSeq is the first difference.", "GET …:diff of two runs.", "The sequence of the first row.", _diff_of_two),
    row("annotations.add", "9.2", "An annotation stands beside the log, and changes neither it nor a score.", "An annotation with a secret in its note.", "201; it is listed; no secret; the same log and scorecard.", _annotate),
    row("annotations.bad", "9.2", "An annotation that says nothing is refused.", "Five annotations with wrong signals.", "400.", _bad_annotations),
    row("annotations.not-copied", "9.2", "A fork does not copy annotations.", "A replay of a run with an annotation.", "No annotation.", _not_copied),
]  # fmt: skip
