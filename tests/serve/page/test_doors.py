"""
Every door shows the same numbers of a run (ADR-0106).

The doors are the terminal, `--json`, slices, the library, REST, gRPC, the page, the reports as Markdown and as HTML in
a browser, the gate with its Markdown, JUnit and SARIF, and the summary of pytest.
"""

import json
import re
from xml.etree import ElementTree

import grpc
import pytest
from playwright.sync_api import expect

from assay.conform.grpc.messages import result_of
from assay.serve.grpc import fep_pb2 as fep
from assay.serve.overview.report_file import html, report_template
from assay.stats.number_text import value_text
from support.page.page_runs import (
    CONTAINS,
    EXACT,
    JUDGE,
    broken_evaluation,
    evaluation,
    golden,
    judged_evaluation,
    returns_evaluation,
)  # fmt: skip
from support.page.page_site import FILES
from support.report_file import report_data
from support.runner.forkserver import COMMAND
from support.servers.grpc_client import Client
from support.waiting import wait_until

MODULE = """
import time
from pathlib import Path

import assay


def length(text):
    return {"score": len(text) / 8}


def words(text):
    return {"words": len(text.split())}


def quiet(task):
    return "I am sorry, it is late." if task.get("kind") else "No."


def flaky(question, ctx):
    return "Paris" if question == "Paris" or ctx.trial == 0 else "Lyon"


def shaky(question, ctx):
    if question == "Rome" and ctx.trial == 1:
        raise assay.NotMeasured("the model answered 429")
    return "Paris" if ctx.trial < 2 else "Lyon"


def waits(question):
    while question > "case-2" and not Path("go").exists():
        time.sleep(0.02)
    return "Paris" if question != "case-1" else "Lyon"


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


REQUESTS = {  # over REST; the last is long enough to be a run of the executor
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
    "almost all of a thousand, repeated": exact([at > 1 for at in range(1_100)], [f"id-{at // 2}" for at in range(1_100)]),
}  # fmt: skip

CONTEXTS = "".join(
    json.dumps({"test_case": {"id": f"t{at}", "input": "?"}, "output": {"value": "word " * (at % 7)}}) + "\n"
    for at in range(40)
)
SUITE = {"suiteId": "local.doors.evals.suite", "version": "1.0.0", "modes": ["golden", "rubric"]}
SUITES = {
    "golden": [golden(f"g{at}", "yes", {"say": "yes" if at else "no"}) for at in range(5)],
    "unmeasured": [golden(f"g{at}", "yes", {"say": "yes", "down": at < 2}) for at in range(5)],
    "down": [golden(f"g{at}", "yes", {"say": "yes", "down": True}) for at in range(2)],
    "rubric": [{"taskId": f"r{at}", "input": {"kind": at > 0}, "expected": RUBRIC} for at in range(3)],
}
COMMANDS = {
    "number only, few": ("evaluate", "--contexts", "few.jsonl", "--checks", "length.json", "--check-module", "doors.py:length"),
    "number only, many": ("evaluate", "--contexts", "many.jsonl", "--checks", "words.json", "--check-module", "doors.py:words"),
    "stopped at a bad line": ("evaluate", "--contexts", "bad.jsonl", "--checks", "exact.json"),
    "an agent with trials": ("evaluate", "--cases", "cases.json", "--checks", "exact.json", "--agent", "doors:flaky", "--trials", "3"),
    "an agent with an unmeasured trial": ("evaluate", "--cases", "cases.json", "--checks", "exact.json", "--agent", "doors:shaky", "--trials", "3"),
    "golden": ("run", "golden.json", "--agent", "doors:busy"),
    "golden with trials": ("run", "golden.json", "--agent", "doors:busy", "--trials", "3"),
    "unmeasured": ("run", "unmeasured.json", "--agent", "doors:busy"),
    "no task measured": ("run", "down.json", "--agent", "doors:busy"),
    "rubric, partly unknown cost": ("run", "rubric.json", "--agent", "doors:quiet"),
    "rubric with trials": ("run", "rubric.json", "--agent", "doors:quiet", "--trials", "2"),
}  # fmt: skip

SESSION = """
import pytest

from doors import busy

EXACT = {"type": "exact_match", "arguments": {"actual": "$.output.value", "expected": "$.test_case.expected"}}
CASES = [{"id": id, "input": id, "expected": "Paris"} for id in ("Paris", "Rome", "down")]
CALLS = []


def answer(id):
    if id == "down":
        raise RuntimeError("no model")
    return id


@pytest.mark.assay(test_cases=CASES, checks=[EXACT])
def test_cases(test_case):
    return answer(test_case.id)


@pytest.mark.assay(test_cases=CASES[:2], checks=[EXACT], samples=3, min_pass_rate=0)
def test_samples(test_case):
    CALLS.append(test_case.id)
    return answer("down" if len(CALLS) == 2 else test_case.id)


@pytest.mark.assay(test_cases=CASES[2:], checks=[EXACT])
def test_nothing(test_case):
    return answer(test_case.id)


@pytest.mark.assay(suite="golden.json")
def test_golden(task):
    return busy(task)


@pytest.mark.assay(suite="down.json")
def test_down(task):
    return busy(task)
"""
SESSIONS = ("test_cases", "test_samples", "test_nothing", "test_golden", "test_down")


def write_files(folder):
    (folder / "test_session.py").write_text(SESSION)
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
    waiting = [{"id": f"case-{at}", "input": f"case-{at}", "expected": "Paris"} for at in range(5)]
    (folder / "waiting.json").write_text(json.dumps({"test_cases": waiting}))
    (folder / "answered.json").write_text(json.dumps({"test_cases": waiting[:3]}))
    for name, tasks in SUITES.items():
        (folder / f"{name}.json").write_text(json.dumps({**SUITE, "tasks": tasks}))


@pytest.fixture(scope="module")
def doors(site, command):
    """Every run with what the command or pytest printed when it made it: {name: (run, text)}."""
    write_files(site.folder)
    found = {name: (site.runs.evaluate(body, name), "") for name, body in REQUESTS.items()}
    jobs = []
    for name, arguments in COMMANDS.items():
        save = ("--by", "nothing", "--save", "--experiment", name) if arguments[0] == "evaluate" else ()
        jobs += [{"command": [*arguments, *save]}, {"command": ["list", "--json", "--limit", "1"]}]
    done = command.batch(jobs, folder=site.folder)
    for name, made, listed in zip(COMMANDS, done[::2], done[1::2], strict=True):
        assert made.code in (0, 1, 3), made.err
        (run,) = json.loads(listed.out)
        found[name] = (run.get("operation_id") or run["runId"], made.out)
    return found | session(site)


def session(site):
    """The runs of a session of pytest, each with its line of the summary."""
    plugins = ("-p", "assay.pytest_plugin", "-p", "no:cacheprovider")
    options = (*plugins, "-c", "none.ini", "--rootdir", ".", "-q", "test_session.py")
    (site.folder / "none.ini").write_text("")
    process = site.start_process("support.runner.interpreter:main", "-m", "pytest", *options)
    out, err = process.communicate()
    assert process.returncode in (0, 1), out + err
    lines = {
        name: re.search(rf"^test_session.py::{name}: .*assay show (\S+)$", out, re.MULTILINE)
        for name in SESSIONS
    }
    assert None not in lines.values(), out
    return {f"pytest {name}": (line[1], line[0]) for name, line in lines.items()}


@pytest.fixture(scope="module")
def command_output(doors, command, site):
    """What the commands say of each run: {run: (show, show --json, gate --json)}, and both lists."""
    jobs = []
    for run, _ in doors.values():
        files = [f"--{kind}={run}.{kind}" for kind in ("markdown", "junit", "sarif")]
        jobs += [["show", run], ["show", run, "--json"], ["gate", run, "--allow-partial", "--json", *files]]
    jobs += [["list", "--limit", "100"], ["list", "--json", "--limit", "100"]]
    done = command.batch([{"command": job} for job in jobs], folder=site.folder)
    outputs = {run: done[3 * at : 3 * at + 3] for at, (run, _) in enumerate(doors.values())}
    return outputs | {"list": done[-2].out, "json": done[-1].out}


@pytest.fixture(scope="module")
def library(doors, command, site):
    """What the library says of the same cases: {name: answer}."""
    jobs = {name: {"evaluate": body} for name, body in REQUESTS.items()}
    for name, (verb, file, *options) in COMMANDS.items():
        if verb == "run":
            trials = int(options[options.index("--trials") + 1]) if "--trials" in options else 1
            jobs[name] = {"suite": file, "agent": options[1], "trials": trials}
    return dict(zip(jobs, command.batch(list(jobs.values()), folder=site.folder), strict=True))


@pytest.fixture(scope="module")
def documents(command_output):
    """The recorded statistics of each run, by its id."""
    rows = json.loads(command_output["json"])
    return {run.get("operation_id") or run["runId"]: run["statistics"] for run in rows if "statistics" in run}


@pytest.fixture(scope="module")
def overviews(doors, site):
    return {run: site.client.get(f"/v1/host/assay/runs/{run}/overview").json() for run, _ in doors.values()}


@pytest.fixture(scope="module")
def rows(doors, site):
    """The rows of the list of the page, by the id of the run."""
    found = site.client.post("/v1/host/assay/runs:query", json={"limit": 100}).json()["runs"]
    return {row["runId"]: row for row in found}


@pytest.fixture(scope="module")
def lists(command_output):
    """The rows of `assay list`, by the id of the run."""
    lines = command_output["list"].splitlines()
    return {line.split()[0]: line for line in lines if line.startswith(("run-", "eval_"))}


@pytest.fixture(scope="module")
def reports(doors, command, site):
    """The reports of all runs as Markdown, by the id of the run, and the HTML report of all of them."""
    runs = [run for run, _ in doors.values()]
    jobs = [["report", run, "--limit=9", "-o", f"{run}.{end}"] for run in runs for end in ("md", "html")]
    for done in command.batch([{"command": job} for job in jobs], folder=site.folder):
        assert done.code == 0, done.err
    found = {run: text_of(site.folder / f"{run}.md") for run in runs}
    return found | {"html": together([site.folder / f"{run}.html" for run in runs])}


def text_of(file):
    """What a reader of this Markdown sees."""
    return re.sub(r"\\(?=[^a-zA-Z0-9\s])", "", file.read_text().replace("\u200b", ""))


def together(files):
    """One HTML report with the runs of these: its scripts take longer to load than everything else."""
    found = [report_data(file) for file in files]
    page = files[0].with_name("together.html")
    both = found[0] | {"runs": [run for one in found for run in one["runs"]]}
    page.write_bytes(html(report_template(), both, "together"))
    return page


LOW = 200  # points: the headline is enough, and rows of the table below it cost time


@pytest.fixture(scope="module")
def tab(browser, site):
    with site.tab(browser, height=LOW) as page:
        yield page


@pytest.fixture(scope="module")
def reader(browser):
    """A tab without a server, for reports."""
    page = browser.contexts[FILES].new_page()
    page.set_viewport_size({"width": 1440, "height": LOW})
    yield page
    page.close()


@pytest.fixture(scope="module")
def client(site):
    with grpc.insecure_channel(site.grpc) as channel:
        yield Client(channel, site.key)


NAMES = [*REQUESTS, *COMMANDS, *(f"pytest {name}" for name in SESSIONS)]
ENDS = ("value", "low", "high", "cases")


@pytest.mark.parametrize("name", NAMES)
def test_every_door_shows_the_same_numbers(
    name,
    doors,
    documents,
    overviews,
    lists,
    rows,
    command_output,
    library,
    reports,
    tab,
    reader,
    client,
    site,
):
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
        assert [shown[part] for part in ENDS] == [score.get(part) for part in ENDS]
        assert shown["text"] in lists[run]
        if shown["scale"] != "number":
            assert shown["cases"] == counts["passed"] + counts["failed"]
    assert (overview["cost"] and overview["cost"]["knownUsd"]) == (cost and cost["known_usd"])
    if cost is not None:
        assert overview["run"]["costText"] in lists[run]  # of the outputs and of their judges
    row = rows[run]
    assert (row["score"], row["counts"], row["costUsd"]) == (shown, counts, overview["run"]["costUsd"])
    show, numbers, gate = command_output[run]
    assert_show(show.out, overview)
    numbers = json.loads(numbers.out)
    if overview["run"]["kind"] == "agent-eval":
        assert_eval(numbers, printed, overview, name, library.get(name))
        assert_eval_report(run, overview, site)
    else:
        assert_evaluation(numbers, printed, document, overview)
        assert_results(run, numbers, name, library.get(name), client, site)
    if name == "number only, many":
        assert (gate.code, "--metric CHECK:NUMBER" in gate.err) == (2, True)
    else:
        assert_gate(run, json.loads(gate.out), overview, site)
    assert_page(run, overview, texts, reports, tab, reader, site)


def assert_show(text, overview):
    counts, total = overview["run"]["counts"], overview["run"]["total"]
    unmeasured = total - counts["passed"] - counts["failed"] - counts["ungraded"]
    line = next(line for line in text.splitlines() if " passed, " in line and " not measured" in line)
    assert line.startswith((f"{total:,} case", f"{total:,} task")), line
    assert f"{counts['passed']:,} passed, {counts['failed']:,} failed," in line
    assert line.endswith(f" {unmeasured:,} not measured"), line


def assert_eval(numbers, printed, overview, name, returned):
    """`show --json`, the headline of the command or of pytest, and the library."""
    report, score = numbers["report"], overview["run"]["score"]
    assert report["costUsd"] == overview["cost"]["totalUsd"]
    assert report["knownCostUsd"] == overview["cost"]["knownUsd"]
    assert report["p95LatencyMs"] == (overview["latency"] and overview["latency"]["p95Ms"])
    ends = [None] * 3 if score is None else [score[part] for part in ("value", "low", "high")]
    assert [report[part] for part in ("score", "low", "high")] == ends
    text = "not measured" if score is None else score["text"]
    if returned is not None:
        assert [returned[part] for part in ("score", "low", "high")] == ends
        assert f"  score {text}, " in returned["text"]
    if name.startswith("pytest"):
        assert f", score {text}; " in printed
    elif score is None:
        assert "no task was measured" in printed
    else:
        assert f"score {text} ({score['range']})" in printed
        assert f"cost {overview['cost']['text']}" in printed


def assert_eval_report(run, overview, site):
    report, score = (
        site.client.get(f"/v1/host/assay/runs/{run}/eval-report").json()["report"],
        overview["run"]["score"],
    )
    assert report["knownCostUsd"] == overview["cost"]["knownUsd"]
    ends = [None] * 3 if score is None else [score[part] for part in ("value", "low", "high")]
    assert [report[part] for part in ("score", "low", "high")] == ends


def assert_evaluation(numbers, printed, document, overview):
    """`show --json`, and the table of the command with the slice of all cases."""
    score, rate = overview["run"]["score"], numbers["case_pass_rate"]
    means = [one for check in numbers["checks"].values() for one in check.get("means", {}).values()]
    if score is None:
        assert (rate, means) == (None, [])
    elif score["scale"] == "rate":
        assert [rate[part] for part in ("rate", *ENDS[1:])] == [score[part] for part in ENDS]
    else:
        assert rate is None
        assert score["value"] in [mean["mean"] for mean in means]
        assert f"mean {score['text']} (" in printed
    if printed.startswith("test_session"):
        results, unmeasured = document["results"], numbers["summary"]["error_test_cases"]
        aside = f", {unmeasured:,} not measured" if unmeasured else ""
        assert f": {results:,} result{'' if results == 1 else 's'}{aside}; " in printed
    elif printed:
        assert counts_of(document) in printed
        (line,) = [line for line in printed.splitlines() if line.lstrip("│ ").startswith("(none)")]
        if score is not None and score["scale"] == "rate":
            assert f"{score['text']} ({score['range']})" in line
        else:
            assert "%" not in line


def counts_of(document):
    """The first words of the table: cases, and trials if they are repeated."""
    cases, results = document["cases"], document["results"]
    return f"{cases:,} case{'' if cases == 1 else 's'}" + (f", {results:,} trials" if results > cases else "")


def assert_results(run, numbers, name, returned, client, site):
    """The result of an evaluation over REST, over gRPC and in the library. What was not measured is absent, and never 0."""
    rest = site.client.get(f"/v1/evaluations/{run}").json()
    rpc = result_of(client.GetEvaluation(fep.GetEvaluationRequest(evaluation_id=run)))
    for result in (rest, rpc):
        statistics = result.get("metadata", {}).get("statistics", {})
        for part in ("pass_rate", "case_pass_rate"):
            assert statistics.get(part) == numbers[part]
        assert result["summary"] == numbers["summary"]
    if returned is not None:
        for part in ("pass_rate", "case_pass_rate"):
            assert returned["metadata"].get("statistics", {}).get(part) == numbers[part]
            assert returned[part] == (numbers[part] and numbers[part]["rate"])


def assert_gate(run, gate, overview, site):
    """The gate by the score, and its reports. A run without a score is undecided."""
    score, level = overview["run"]["score"], gate["level"]
    files = [(site.folder / f"{run}.{kind}").read_text() for kind in ("markdown", "junit", "sarif")]
    markdown, suite = text_of(site.folder / f"{run}.markdown"), ElementTree.fromstring(files[1])
    cases = suite.findall(".//testcase[@classname='assay.case']")
    counts = overview["run"]["counts"]
    assert len(cases) == sum(counts.values())
    if score is None:
        assert (level["mean"], gate["outcome"], level["cases"]) == (None, "undecided", 0)
        assert "no case was measured" in markdown
    elif score["scale"] != "number":
        assert [level[part] for part in ENDS[1:]] == [score[part] for part in ENDS[1:]]
        assert abs(level["mean"] - score["value"]) < 1e-12  # a scorecard has twelve digits
        number = value_text(score["value"], "rate" if level["metric"] == "passed" else "score")
        words = {"passed": "the case pass rate", "score": "the mean score"}[level["metric"]]
        assert f"{words} is {number}, 95% " in markdown
    assert suite.find(".//testcase[@classname='assay']/*[@message]") is None or gate["reason"] == (
        suite.find(".//testcase[@classname='assay']/*[@message]").get("message")
    )
    assert json.loads(files[2])["runs"][0]["invocations"][0]["exitCodeDescription"] == gate["outcome"]


WITHOUT_DISTRIBUTIONS = """one => {
  const copy = one.cloneNode(true)
  copy.querySelectorAll(".distributions").forEach(part => part.remove())
  return copy.textContent
}"""  # a server counts them; the file of a report does not have them


def assert_page(run, overview, texts, reports, tab, reader, site):
    """The page, the same screen in the HTML report, and the report as Markdown."""
    tab.goto(f"{site.url}/#/runs/{run}")
    result = tab.get_by_role("region", name="Result")
    for text in texts or ["not measured"]:
        expect(result).to_contain_text(text)
    if overview["latency"] is not None:
        expect(result).to_contain_text(overview["latency"]["p95Text"])
    for repeat in overview.get("passK", [])[-1:]:
        expect(result).to_contain_text(repeat["text"])
    for text in texts if overview["run"]["score"] else [*texts, "The score was not measured."]:
        assert text in reports[run]
    reader.goto(f"{reports['html'].as_uri()}#/runs/{run}")
    expect(reader.get_by_role("region", name="Result")).to_have_text(result.evaluate(WITHOUT_DISTRIBUTIONS))


LIVE = {
    "evaluation": ("evaluate", "--cases", "{}.json", "--checks", "exact.json", "--agent", "doors:waits", "--save", "--experiment", "{}"),
    "agent-eval": ("run", "{}-suite.json", "--agent", "doors:waits"),
}  # fmt: skip


@pytest.mark.parametrize("kind", LIVE)
def test_a_run_in_flight_has_the_numbers_of_a_completed_run_of_the_same_cases(
    kind, doors, command, site, tab
):
    """Three of five cases are there. The two others wait for a file."""
    for name, many in (("waiting", 5), ("answered", 3)):
        tasks = [golden(f"case-{at}", "Paris", f"case-{at}") for at in range(many)]
        suite = SUITE | {"suiteId": f"local.doors.evals.{name}", "modes": ["golden"], "tasks": tasks}
        (site.folder / f"{name}-suite.json").write_text(json.dumps(suite))
    site.folder.joinpath("go").unlink(missing_ok=True)
    process = site.start_process(COMMAND, *(part.format("waiting") for part in LIVE[kind]))
    try:
        live = wait_until(lambda: in_flight(site, kind))
        tab.goto(f"{site.url}/#/runs/{live['run']['runId']}")
        result = tab.get_by_role("region", name="Result")
        expect(result).to_contain_text(f"{live['run']['score']['name']} so far")
        expect(result).to_contain_text(live["run"]["score"]["text"])
    finally:
        site.folder.joinpath("go").write_text("")
        process.communicate()
    done = command(*(part.format("answered") for part in LIVE[kind]), folder=site.folder)
    assert done.code in (0, 3), done.err
    (row,) = site.client.post("/v1/host/assay/runs:query", json={"limit": 1}).json()["runs"]
    assert (row["status"], row["counts"]) == ("completed", live["run"]["counts"])
    assert row["score"] == live["run"]["score"]
    assert (live["progress"]["done"], live["progress"]["total"], live["run"]["total"]) == (3, 5, 5)


def in_flight(site, kind):
    """The overview of the newest run, if it is in progress and three of its cases are there."""
    (row,) = site.client.post("/v1/host/assay/runs:query", json={"limit": 1}).json()["runs"]
    if row["kind"] != kind or row["status"] != "running":
        return None
    found = site.client.get(f"/v1/host/assay/runs/{row['runId']}/overview").json()
    return found if found["progress"] and found["progress"]["done"] == 3 else None


def test_a_very_long_evaluation_in_progress_says_that_its_score_comes_at_the_end(
    doors, overviews, browser, site
):
    """The server answers so above 20,000 results (`test_overview.py`). A run of that length would take long."""
    run, _ = doors["plain"]
    live = overviews[run] | {
        "progress": {"done": 30_000, "total": 40_000, "perSecond": 50.0, "secondsLeft": 200.0}
    }
    live["run"] = live["run"] | {
        "status": "running",
        "score": None,
        "counts": live["run"]["counts"] | {"passed": 29_999},
    }
    with site.tab(browser) as page:
        page.route(f"**/runs/{run}/overview", lambda route: route.fulfill(json=live))
        page.goto(f"{site.url}/#/runs/{run}")
        score = page.locator(".score-card")
        expect(score).to_contain_text("at the end")
        expect(score).to_contain_text(
            "The score of so many results is computed when the run ends. 29,999 passed"
        )
        expect(score).not_to_contain_text("not measured")
