"""Every door shows the same numbers of a run: the terminal, `--json`, REST, the page, and the reports (ADR-0106)."""

import json
import re

import pytest
from playwright.sync_api import expect

from support.page_runs import (
    CONTAINS,
    EXACT,
    JUDGE,
    broken_evaluation,
    evaluation,
    golden,
    judged_evaluation,
    returns_evaluation,
)  # fmt: skip

MODULE = """
import assay


def length(text):
    return {"score": len(text) / 8}


def words(text):
    return {"words": len(text.split())}


def quiet(task):
    return "I am sorry, it is late." if task.get("kind") else "No."


def flaky(question, ctx):
    return "Paris" if question == "Paris" or ctx.trial == 0 else "Lyon"


def busy(task):
    if task.get("down"):
        raise assay.NotMeasured("the model answered 429")
    return task["say"]
"""
RUBRIC = {
    "kind": "rubric",
    "rubric": [{"criterion": "is kind", "weight": 0.7}, {"criterion": "helps", "weight": 0.3}],
}


def exact(passed, ids=None, checks=(EXACT,)):
    """An evaluation in which case number i passes if `passed[i]`."""
    ids = ids or [f"case-{at:04}" for at in range(len(passed))]
    cases = [{"id": id, "input": id, "expected": "Paris"} for id in ids]
    return evaluation(cases, ["Paris" if one else "Lyon" for one in passed], list(checks))


def repeated(ids, results):
    """Half of the ids always pass, the others never: as many independent answers as ids."""
    names = [f"id-{at % ids}" for at in range(results)]
    return exact([at % ids < ids / 2 for at in range(results)], names)


def unequal():
    sizes = (1, 2, 3, 4, 10)
    ids = [f"id-{at}" for at, size in enumerate(sizes) for _ in range(size)]
    return exact([at % 3 > 0 for at in range(len(ids))], ids)


def costly():
    body = judged_evaluation()
    for at, output in enumerate(body["outputs"]):
        output["metadata"] = {"latency_ms": 100 + 37 * at, "cost_usd": 0.0004}
    return body


REQUESTS = {  # over REST; the last two are long enough to be runs of the executor
    "empty": exact([]),
    "plain": exact([True, True, False, True]),
    "a tie of rounding": exact([at > 2 for at in range(16)]),
    "all passed": exact([True] * 3),
    "none passed": exact([False] * 3),
    "ten ids, a hundred results": repeated(10, 100),
    "unequal repeats": unequal(),
    "two checks": exact([True, False, True], checks=(EXACT, CONTAINS)),
    "partly unmeasured": broken_evaluation(),
    "nothing measured": exact([True, False], checks=({"type": "exact_match", "arguments": {"actual": "$.output.value.no", "expected": "x"}},)),
    "judges with a cost": costly(),
    "judged alone": exact([True, False], checks=(JUDGE,)),
    "latencies": returns_evaluation("before"),
    "almost all": exact([at > 0 for at in range(1_100)]),
    "a thousand repeats": repeated(11, 1_100),
}  # fmt: skip

CONTEXTS = "".join(
    json.dumps({"test_case": {"id": f"t{at}", "input": "?"}, "output": {"value": "word " * (at % 7)}}) + "\n"
    for at in range(40)
)
SUITE = {"suiteId": "local.doors.evals.suite", "version": "1.0.0", "modes": ["golden", "rubric"]}
SUITES = {
    "golden": [golden(f"g{at}", "yes", {"say": "yes" if at else "no"}) for at in range(5)],
    "unmeasured": [golden(f"g{at}", "yes", {"say": "yes", "down": at < 2}) for at in range(5)],
    "rubric": [{"taskId": f"r{at}", "input": {"kind": at > 0}, "expected": RUBRIC} for at in range(3)],
}
COMMANDS = {
    "number only, few": ("evaluate", "--contexts", "few.jsonl", "--checks", "length.json", "--check-module", "doors.py:length"),
    "number only, many": ("evaluate", "--contexts", "many.jsonl", "--checks", "words.json", "--check-module", "doors.py:words"),
    "stopped at a bad line": ("evaluate", "--contexts", "bad.jsonl", "--checks", "exact.json"),
    "an agent with trials": ("evaluate", "--cases", "cases.json", "--checks", "exact.json", "--agent", "doors:flaky", "--trials", "3"),
    "golden": ("run", "golden.json", "--agent", "doors:busy"),
    "golden with trials": ("run", "golden.json", "--agent", "doors:busy", "--trials", "3"),
    "unmeasured": ("run", "unmeasured.json", "--agent", "doors:busy"),
    "rubric, partly unknown cost": ("run", "rubric.json", "--agent", "doors:quiet"),
    "rubric with trials": ("run", "rubric.json", "--agent", "doors:quiet", "--trials", "2"),
}  # fmt: skip


def write_files(folder):
    (folder / "doors.py").write_text(MODULE)
    (folder / "few.jsonl").write_text("".join(CONTEXTS.splitlines(keepends=True)[:5]))
    (folder / "many.jsonl").write_text(CONTEXTS)
    (folder / "length.json").write_text(
        json.dumps([{"type": "length", "arguments": {"text": "$.output.value"}}])
    )
    (folder / "words.json").write_text(
        json.dumps([{"type": "words", "arguments": {"text": "$.output.value"}}])
    )
    (folder / "exact.json").write_text(json.dumps([EXACT]))
    good = {"test_case": {"id": "a", "input": "?", "expected": "x"}, "output": {"value": "x"}}
    bad = {"test_case": {"id": "b", "input": "?", "expected": "x"}, "output": {"value": "y"}}
    (folder / "bad.jsonl").write_text(f"{json.dumps(good)}\n{json.dumps(bad)}\nnonsense\n")
    questions = [{"id": name, "input": name, "expected": "Paris"} for name in ("Paris", "Rome", "Lima")]
    (folder / "cases.json").write_text(json.dumps({"test_cases": questions}))
    for name, tasks in SUITES.items():
        (folder / f"{name}.json").write_text(json.dumps({**SUITE, "tasks": tasks}))


@pytest.fixture(scope="module")
def doors(site, command):
    """Every run with what the command printed when it made it: {name: (run, text)}."""
    write_files(site.folder)
    found = {name: (site.runs.evaluate(body, name), "") for name, body in REQUESTS.items()}
    for name, arguments in COMMANDS.items():
        save = ("--save", "--experiment", name) if arguments[0] == "evaluate" else ()
        done = command(*arguments, *save, folder=site.folder)
        run = listed(command, site, 1)[0]
        assert done.code in (0, 1, 3), done.err
        found[name] = (run.get("operation_id") or run["runId"], done.out)
    return found


def listed(command, site, limit):
    return json.loads(command("list", "--json", "--limit", str(limit), folder=site.folder).out)


@pytest.fixture(scope="module")
def documents(doors, command, site):
    """The recorded statistics of each run, by its id."""
    return {
        run.get("operation_id") or run["runId"]: run["statistics"]
        for run in listed(command, site, 100)
        if "statistics" in run
    }


@pytest.fixture(scope="module")
def overviews(doors, site):
    return {run: site.client.get(f"/v1/host/assay/runs/{run}/overview").json() for run, _ in doors.values()}


@pytest.fixture(scope="module")
def lists(doors, command, site):
    """The rows of `assay list`, by the id of the run."""
    lines = command("list", "--limit", "100", folder=site.folder).out.splitlines()
    return {line.split()[0]: line for line in lines if line.startswith(("run-", "eval_"))}


@pytest.fixture(scope="module")
def tab(browser, site):
    with site.tab(browser) as page:
        yield page


NAMES = [*REQUESTS, *COMMANDS]


@pytest.mark.parametrize("name", NAMES)
def test_every_door_shows_the_same_numbers(name, doors, documents, overviews, lists, tab, site, command):
    run, printed = doors[name]
    document, overview = documents[run], overviews[run]
    score, cost = document.get("score"), document.get("cost")
    shown = overview["run"]["score"]
    assert (score is None) == (shown is None)
    counts = {"passed": 0, "failed": 0, "ungraded": 0, "error": 0, "skipped": 0} | document.get("counts", {})
    assert overview["run"]["counts"] == counts
    texts = [] if shown is None else [shown["text"], *([] if shown["low"] is None else [shown["range"]])]
    texts += [] if overview["cost"] is None else [overview["cost"]["text"]]
    if score is not None:
        assert [shown[part] for part in ("value", "low", "high", "cases")] == [score.get(part) for part in ("value", "low", "high", "cases")]  # fmt: skip
        assert shown["text"] in lists[run]
    assert (overview["cost"] and overview["cost"]["knownUsd"]) == (cost and cost["known_usd"])
    if cost is not None:
        assert overview["cost"]["text"] in lists[run]
    assert_command(run, printed, document, overview, site, command)
    assert_rest(run, document, overview, site)
    assert_report(run, overview, texts, site, command)
    tab.goto(f"{site.url}/#/runs/{run}")
    result = tab.get_by_role("region", name="Result")
    for text in texts or ["not measured"]:
        expect(result).to_contain_text(text)
    if overview["latency"] is not None:
        expect(result).to_contain_text(overview["latency"]["p95Text"])
    for repeat in overview.get("passK", [])[-1:]:
        expect(result).to_contain_text(repeat["text"])


def assert_command(run, printed, document, overview, site, command):
    """`assay show`, `--json`, and what the command printed when it made the run."""
    text = command("show", run, folder=site.folder).out
    numbers = json.loads(command("show", run, "--json", folder=site.folder).out)
    counts, total = overview["run"]["counts"], overview["run"]["total"]
    unmeasured = total - counts["passed"] - counts["failed"] - counts["ungraded"]
    line = next(line for line in text.splitlines() if " passed, " in line and " not measured" in line)
    assert line.startswith((f"{total:,} case", f"{total:,} task")), line
    assert f"{counts['passed']:,} passed, {counts['failed']:,} failed," in line
    assert line.endswith(f" {unmeasured:,} not measured"), line
    score = overview["run"]["score"]
    if overview["run"]["kind"] == "agent-eval":
        report = numbers["report"]
        assert report["costUsd"] == overview["cost"]["totalUsd"]
        assert report["knownCostUsd"] == overview["cost"]["knownUsd"]
        assert report["p95LatencyMs"] == (overview["latency"] and overview["latency"]["p95Ms"])
        if score is not None:
            assert [report[part] for part in ("score", "low", "high", "cases")] == [score[part] for part in ("value", "low", "high", "cases")]  # fmt: skip
            assert f"score {score['text']} ({score['range']}, {score['method']})" in printed
            assert f"cost {overview['cost']['text']}" in printed
        return
    rate, means = numbers["case_pass_rate"], [one for check in numbers["checks"].values() for one in check.get("means", {}).values()]  # fmt: skip
    if score is not None and score["scale"] == "rate":
        assert [rate[part] for part in ("rate", "low", "high", "cases")] == [score[part] for part in ("value", "low", "high", "cases")]  # fmt: skip
    elif score is not None:
        assert score["value"] in [mean["mean"] for mean in means]
        assert f"mean {score['text']} (" in printed
    if printed:
        assert counts_of(document) in printed


def counts_of(document):
    """The first words of the table: cases, and trials if they are repeated."""
    cases, results = document["cases"], document["results"]
    return f"{cases:,} case{'' if cases == 1 else 's'}" + (f", {results:,} trials" if results > cases else "")


def assert_rest(run, document, overview, site):
    """The result of an evaluation, or the report of an eval; and the row of the list of the page."""
    score = overview["run"]["score"]
    if overview["run"]["kind"] == "evaluation":
        answer = site.client.get(f"/v1/evaluations/{run}")
        statistics = answer.json().get("metadata", {}).get("statistics", {})
        rate = statistics.get("case_pass_rate")
        if score is not None and score["scale"] == "rate":
            assert (rate["rate"], rate["low"], rate["high"]) == (score["value"], score["low"], score["high"])
    else:
        report = site.client.get(f"/v1/host/assay/runs/{run}/eval-report").json()["report"]
        assert report["knownCostUsd"] == overview["cost"]["knownUsd"]
        if score is not None:
            assert (report["score"], report["low"], report["high"]) == (score["value"], score["low"], score["high"])  # fmt: skip
    rows = site.client.post("/v1/host/assay/runs:query", json={"limit": 100}).json()["runs"]
    (row,) = [row for row in rows if row["runId"] == run]
    assert (row["score"], row["counts"], row["costUsd"]) == (score, overview["run"]["counts"], overview["run"]["costUsd"])  # fmt: skip


def assert_report(run, overview, texts, site, command):
    """report.md and the data of report.html."""
    file = site.folder / f"{run}.md"
    done = command("report", run, "-o", str(file), folder=site.folder)
    assert done.code == 0, done.err
    shown = re.sub(r"&#8203;", "", file.read_text()).replace("&#37;", "%").replace("&#36;", "$")
    shown = re.sub(r"&#(\d+);", lambda match: chr(int(match[1])), shown)
    for text in texts:
        assert text in shown
    page = site.folder / f"{run}.html"
    assert command("report", run, "-o", str(page), folder=site.folder).code == 0
    data = re.search(r'<script[^>]*type="application/json"[^>]*>(.*?)</script>', page.read_text(), re.DOTALL)
    assert data is not None
    (copy,) = json.loads(data[1])["runs"]
    for part in ("latency", "cost"):
        assert copy["overview"][part] == overview[part]
    assert copy["overview"]["run"]["score"] == overview["run"]["score"]
    counts = site.client.post(f"/v1/host/assay/runs/{run}/cases:query", json={}).json()["counts"]
    assert copy["counts"] == counts
