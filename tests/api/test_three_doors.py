"""Twenty comparisons, gates and reports: the library, the command and REST give equal numbers and verdicts."""

import json
import re

import msgspec
import pytest

import assay
from support.servers.rest_client import Server, sqlite

CHECKS = [
    {"type": "contains", "arguments": {"text": "$.output.value", "phrases": ["Paris"]}},
    {"type": "threshold", "arguments": {"value": "$.output.metadata.latency_ms", "max_value": 300}},
]


def request(passes, *, cases=32, lost=(), late=1):
    """Cases of two topics. Those in `lost` have no latency, so that a check is not measured."""
    return {
        "test_cases": [
            {"id": f"c{at}", "input": f"q{at}", "topic": "tax" if at % 3 else "law", "metadata": {"tags": [f"t{at % 2}"]}}
            for at in range(cases)
        ],
        "outputs": [
            {"value": "Paris" if at < passes else "Lyon", "metadata": {} if at in lost else {"latency_ms": late * (at + 1)}}
            for at in range(cases)
        ],
        "checks": CHECKS,
    }  # fmt: skip


REQUESTS = {
    "good": request(32), "fair": request(20), "bad": request(6), "lost": request(18, lost=(2, 3)),
    "late": request(32, late=11), "few": request(8, cases=12),
}  # fmt: skip
COMPARISONS = [
    ("good", "bad", {}),
    ("bad", "good", {}),
    ("good", "fair", {}),
    ("good", "fair", {"margin": 0.3}),
    ("good", "lost", {}),
    ("lost", "bad", {"limit": 3}),
    ("good", "few", {}),
    ("good", "bad", {"by": "topic"}),
    ("good", "bad", {"by": "tag", "metric": "score"}),
    ("good", "lost", {"by": "check"}),
    ("good", "late", {"metric": "latency_ms"}),
    ("good", "late", {"metric": "latency_ms:p95"}),
    ("good", "late", {"metric": "threshold", "limit": 0}),
]
GATES = [
    ("good", {}),
    ("fair", {"min": 0.7}),
    ("bad", {"baseline": "good"}),
    ("lost", {"baseline": "good", "preset": "strict"}),
]
REPORTS = [("good",), ("lost",), ("good", "bad", "lost")]


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
def printed(doors, zygote, tmp_path_factory):
    """What the command prints and writes for every row, from one process."""
    from support.commands.command import Command

    ids, _, folder = doors
    jobs = [["compare", ids[a], ids[b], "--json", *_options(options)] for a, b, options in COMPARISONS]
    jobs += [["gate", ids[run], "--json", *_options(options, ids)] for run, options in GATES]
    jobs += [["report", *(ids[name] for name in names), "-o", f"{at}.md"] for at, names in enumerate(REPORTS)]
    (folder / "assay.toml").write_text(f'database_url = "{sqlite(folder)}"\n', "utf-8")
    return Command(zygote).batch([{"command": job} for job in jobs], folder=folder)


def _options(options, ids=None):
    return [
        part
        for name, value in options.items()
        for part in (f"--{name}", ids[value] if name == "baseline" else str(value))
    ]


@pytest.fixture
def library(doors, monkeypatch):
    monkeypatch.setenv("ASSAY_DATABASE_URL", sqlite(doors[2]))
    monkeypatch.chdir(doors[2])


def as_json(value):
    return json.loads(msgspec.json.encode(value))


@pytest.mark.parametrize("row", range(len(COMPARISONS)), ids=lambda at: "-".join(COMPARISONS[at][:2]))
def test_a_comparison_is_the_same_through_every_door(doors, printed, library, row):
    ids, client, _ = doors
    a, b, options = COMPARISONS[row]
    found = as_json(assay.compare(ids[a], ids[b], **options))
    asked = client.get(f"/v1/evaluations/{ids[b]}/comparison", params={"baseline": ids[a], **options})
    assert found == asked.json()
    assert found == json.loads(printed[row].out)
    assert found["comparisons"][0]["result"]["cases"] > 0


@pytest.mark.parametrize("row", range(len(GATES)), ids=lambda at: GATES[at][0])
def test_a_gate_is_the_same_through_every_door(doors, printed, library, row):
    ids, client, _ = doors
    run, options = GATES[row]
    given = options | ({"baseline": ids[options["baseline"]]} if "baseline" in options else {})
    decision = assay.gate(ids[run], **given)
    done = printed[len(COMPARISONS) + row]
    assert as_json(decision.result) == json.loads(done.out)
    assert decision.exit_code == done.code
    counts = client.get(f"/v1/host/assay/runs/{ids[run]}/overview").json()["run"]["counts"]
    outcomes = [one.outcome for one in decision.outcomes]
    assert (outcomes.count("passed"), outcomes.count("unmeasured")) == (counts["passed"], counts["error"])
    if "baseline" in given:
        params = {"baseline": given["baseline"], "limit": 100}
        asked = client.get(f"/v1/evaluations/{ids[run]}/comparison", params=params).json()
        assert as_json(decision.comparison) == asked["comparisons"][0]


@pytest.mark.parametrize("row", range(len(REPORTS)), ids=lambda at: "-".join(REPORTS[at]))
def test_a_report_is_the_same_through_every_door(doors, printed, library, row):
    ids, client, folder = doors
    names = REPORTS[row]
    assert printed[len(COMPARISONS) + len(GATES) + row].code in (0, None)
    text = assay.report(*(ids[name] for name in names))
    assert _untimed(text) == _untimed((folder / f"{row}.md").read_text("utf-8"))
    for name in names:
        score = client.get(f"/v1/host/assay/runs/{ids[name]}/overview").json()["run"]["score"]
        words = f"{score['text']}, 95% interval {score['range']}"
        assert words in text.replace("&#37;&#8203;", "%").replace("&#37;", "%")


def _untimed(text):
    return re.sub(r"Made by assay .*", "", text)


def test_there_are_twenty_rows():
    assert len(COMPARISONS) + len(GATES) + len(REPORTS) == 20
