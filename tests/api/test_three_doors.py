"""Twenty comparisons, gates and reports: the library, the command and REST give equal numbers and verdicts."""

import json
from functools import cache

import msgspec
import pytest

import assay
from support.report_file import report_data
from support.servers.rest_client import Server, sqlite

CHECKS = [
    {"type": "contains", "arguments": {"text": "$.output.value", "phrases": ["Paris"]}},
    {"type": "threshold", "arguments": {"value": "$.output.metadata.latency_ms", "max_value": 300}},
]


def request(passes, *, cases=32, lost=(), late=1, trials=1, other=""):
    """Cases of two topics. Those in `lost` have no latency, so that a check is not measured."""
    numbers = [at for at in range(cases) for _ in range(trials)]
    return {
        "test_cases": [
            {"id": f"c{at}", "input": f"q{at}{other}", "topic": "tax" if at % 3 else "law", "metadata": {"tags": [f"t{at % 2}"]}}
            for at in numbers
        ],
        "outputs": [
            {"value": "Paris" if at < passes else "Lyon", "metadata": {} if at in lost else {"latency_ms": late * (at + 1)}}
            for at in numbers
        ],
        "checks": CHECKS,
    }  # fmt: skip


REQUESTS = {
    "good": request(32), "fair": request(20), "bad": request(6), "lost": request(18, lost=(2, 3)),
    "late": request(32, late=11), "few": request(8, cases=12), "near": request(31), "other": request(32, other="!"),
    "often": request(12, cases=12, trials=3), "seldom": request(11, cases=12, trials=3), "none": request(0, cases=0),
}  # fmt: skip

# A baseline, a run, the options of the comparison, those of the gate, and the rules of its policy. A gate of a row
# with ALONE has no baseline.
ALONE = {"baseline": None}
ROWS = [
    ("good", "bad", {}, {}, {}),
    ("bad", "good", {}, {}, {"require": "improved"}),
    ("good", "fair", {}, {"preset": "strict"}, {}),
    ("good", "fair", {"margin": 0.3}, {"margin": 0.3}, {"require": "equivalent", "preset": "lenient"}),
    ("good", "lost", {}, {"preset": "strict"}, {}),
    ("lost", "bad", {"limit": 3}, {"preset": "lenient"}, {"max_unmeasured": 5}),
    ("good", "few", {}, {}, {}),
    ("few", "good", {}, {"preset": "lenient"}, {"allow_missing_cases": True}),
    ("good", "bad", {"by": "topic"}, {}, {"by": ["topic"]}),
    ("good", "bad", {"by": "tag", "metric": "score"}, {"metric": "score"}, {"by": ["tag"]}),
    ("good", "lost", {"by": "check"}, {}, {"by": ["check"], "max_unmeasured": 2}),
    ("good", "late", {"metric": "latency_ms"}, {"metric": "latency_ms"}, {}),
    ("good", "late", {"metric": "latency_ms:p95"}, {"min_mean": 0.95} | ALONE, {}),
    ("good", "late", {"metric": "threshold", "limit": 0}, {"metric": "threshold"}, {}),
    ("good", "near", {}, {"preset": "strict"}, {}),
    ("good", "near", {"margin": 0.2}, {}, {"max_drop": "off", "min_mean": 0.9, "decide_by": "lower"}),
    ("good", "other", {}, {}, {}),
    ("often", "seldom", {}, {}, {"max_newly_failing": 0}),
    ("often", "seldom", {"metric": "score"}, {"min_mean": 0.7, "preset": "lenient"} | ALONE, {"preset": "strict"}),
    ("fair", "good", {}, ALONE, {}),
]  # fmt: skip
PAIRS = list(dict.fromkeys(row[:2] for row in ROWS))  # a report depends on its runs alone
ENOUGH = 10  # cases that a report shows


@pytest.fixture(scope="module")
def doors(tmp_path_factory):
    """The ids of the runs, a client, and the folder with the database. A server answers until the last test."""
    folder = tmp_path_factory.mktemp("doors")
    with Server(sqlite(folder)) as server, server.client(tenant="local") as client:
        ids = {
            name: client.post("/v1/evaluate", json=body).json()["evaluation_id"]
            for name, body in REQUESTS.items()
        }
        yield ids, client, folder


@pytest.fixture(scope="module")
def printed(doors, zygote):
    """What the command prints and writes, from one process: of every row a comparison and a gate, then the reports."""
    from support.commands.command import Command

    ids, _, folder = doors
    jobs = []
    for at, (a, b, compared, gate, policy) in enumerate(ROWS):
        jobs.append(["compare", ids[a], ids[b], "--json", *_options(compared)])
        (folder / f"{at}.json").write_text(json.dumps(policy), "utf-8")
        beside = [] if "baseline" in gate else ["--baseline", ids[a]]
        jobs.append(["gate", ids[b], "--json", "--policy", f"{at}.json", *beside, *_options(gate)])
    jobs += [["report", ids[a], ids[b], "-o", f"{a}-{b}.html", "--limit", f"{ENOUGH}"] for a, b in PAIRS]
    (folder / "assay.toml").write_text(f'database_url = "{sqlite(folder)}"\n', "utf-8")
    return Command(zygote).batch([{"command": job} for job in jobs], folder=folder)


def _options(options):
    return [
        part
        for name, value in options.items()
        if value is not None
        for part in (f"--{name.replace('_', '-')}", str(value))
    ]  # fmt: skip


@pytest.fixture
def library(doors, monkeypatch):
    monkeypatch.setenv("ASSAY_DATABASE_URL", sqlite(doors[2]))
    monkeypatch.chdir(doors[2])


def as_json(value):
    return json.loads(msgspec.json.encode(value))


def each_row(test):
    return pytest.mark.parametrize("row", range(len(ROWS)), ids=lambda at: "-".join(ROWS[at][:2]))(test)


@each_row
def test_a_comparison_is_the_same_through_every_door(doors, printed, library, row):
    ids, client, _ = doors
    a, b, options, _, _ = ROWS[row]
    found = as_json(assay.compare(ids[a], ids[b], **options))
    asked = client.get(f"/v1/evaluations/{ids[b]}/comparison", params={"baseline": ids[a], **options})
    assert found == asked.json()
    assert found == json.loads(printed[2 * row].out)
    assert found["comparisons"][0]["result"]["cases"] > 0


@each_row
def test_a_gate_is_the_same_through_every_door(doors, printed, library, row):
    """Outcome, exit code, sentence, level with its interval, failing cases and the comparison with its reasons."""
    ids, client, _ = doors
    a, b, _, options, policy = ROWS[row]
    options = {"baseline": ids[a]} | options
    decision = assay.gate(ids[b], policy=policy, **options)
    done = printed[2 * row + 1]
    assert as_json(decision.result) == json.loads(done.out.replace("--max-unmeasured ", "max_unmeasured="))
    assert decision.exit_code == done.code
    rules = {name: value for name, value in options.items() if name != "baseline"}
    body = {"baseline": options["baseline"], "policy": policy | rules}
    asked = client.post(f"/v1/host/assay/runs/{ids[b]}:gate", json=body)
    assert asked.json() == as_json(decision.result), asked.text


@pytest.mark.parametrize("allow", [False, True])
def test_a_gate_of_an_empty_run_is_undecided_through_every_door(doors, library, allow):
    ids, client, _ = doors
    decision = assay.gate(ids["none"], baseline=ids["good"], allow_partial=allow)
    body = {"baseline": ids["good"], "allow_partial": allow}
    asked = client.post(f"/v1/host/assay/runs/{ids['none']}:gate", json=body).json()
    assert asked == as_json(decision.result)
    assert (asked["outcome"], asked["exit_code"]) == ("undecided", 1)


@pytest.fixture(scope="module")
def asked(doors):
    """What REST answers about a run, once for each run: its overview, its table, and a case at a position."""
    client = doors[1]

    @cache
    def ask(run):
        path = f"/v1/host/assay/runs/{run}"
        query = {"sort": {"by": "status"}, "limit": ENOUGH, "include": ["preview"]}
        table = client.post(f"{path}/cases:query", json=query).json()
        shown = [row["position"] for row in table["cases"][:2]]
        details = {str(at): client.get(f"{path}/cases/{at}").json() for at in shown}
        return client.get(f"{path}/overview").json(), table, details

    return ask


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_a_report_is_the_same_through_every_door(doors, printed, library, asked, pair):
    """Its data are the answers of REST: overviews, tables with previews, cases, and the comparison with its lists."""
    ids, client, folder = doors
    runs = [ids[name] for name in pair]
    written = printed[2 * len(ROWS) + PAIRS.index(pair)]
    assert written.code == 0, written.err
    data = report_data(folder / f"{'-'.join(pair)}.html")
    here = assay.report(*runs, output="library.html", limit=ENOUGH)
    assert data | {"createdAt": ""} == report_data(here) | {"createdAt": ""}
    for run, shown in zip(runs, data["runs"], strict=True):
        overview, table, details = asked(run)
        assert shown["overview"] == overview
        assert (shown["rows"], shown["total"], shown["counts"]) == (
            table["cases"], table["matching"], table["counts"],
        )  # fmt: skip
        assert [one["name"] for one in shown["slices"]] == ["t0", "t1"]
        assert details.items() <= shown["details"].items()
    params = {"runs": ",".join(runs), "limit": ENOUGH}
    asked_for = {"runs": ",".join(runs), "by": "tag", "metrics": "true"}
    view = client.get("/v1/host/assay/comparison", params=asked_for).json()
    menus = {"groupings": [], "checks": []}  # a file cannot be asked for another slice or metric
    assert data["comparison"]["view"] == view | menus
    for change, lists in data["comparison"]["cases"][runs[1]].items():
        cases = client.get("/v1/host/assay/comparison/cases", params=params | {"change": change}).json()
        assert lists == cases


def test_a_report_in_markdown_has_the_scores_of_rest(doors, library):
    ids, client, _ = doors
    names = ("good", "bad", "lost")
    text = assay.report(*(ids[name] for name in names))
    for name in names:
        score = client.get(f"/v1/host/assay/runs/{ids[name]}/overview").json()["run"]["score"]
        words = f"{score['text']}, 95% interval {score['range']}"
        assert words in text


def test_there_are_twenty_rows_with_every_outcome(printed):
    assert len(ROWS) == 20
    assert {json.loads(done.out)["outcome"] for done in printed[1 : 2 * len(ROWS) : 2]} == {
        "passed",
        "failed",
        "undecided",
    }
