"""`assay watch`: the windows of a project of traces, and an exit code for the newest complete one."""

import asyncio
import json
from datetime import UTC, datetime, timedelta

import pytest

from assay.backends.stores.open import open_store
from assay.cases.outcomes import RESULTS
from assay.fep.records.run_header import KIND, REQUEST
from assay.fep.trace_windows.window import WindowCounts, WindowPlan, title_of, window_metadata
from assay.ports import CreateRun, RunUpdate, Transaction
from assay.runs.find_run import find_run
from assay.runs.intake import new_id
from support.commands.result_lines import complete, result_line, write_jsonl
from support.servers.rest_client import Server

MONDAY = datetime(2026, 11, 16, tzinfo=UTC)
PLAN = {"filter": {}, "case": "trace", "settle": 5, "quiet": 60, "retention": 0, "digest": "d"}


def traces(prefix, passed, failed, unmeasured=0):
    """Contexts with an output each. One without a text is not measured."""
    values = [{"text": "x"}] * passed + [{"text": "y"}] * failed + [{}] * unmeasured
    return [
        {"test_case": {"id": f"{prefix}{at}", "input": "?"}, "output": {"value": value}}
        for at, value in enumerate(values)
    ]


async def mark(store, run, project, day, contexts, *, status="completed", sample=1.0):
    """Store a window as the receiver leaves it, with the results of an evaluation, or empty."""
    start = MONDAY + timedelta(days=day)
    end = start + timedelta(days=1)
    plan = WindowPlan(project=project, start=start, end=end, sample=sample, **PLAN)
    missing = sum(not one["output"]["value"] for one in contexts)
    cases = len(contexts)
    counts = WindowCounts(seen=cases * 2, sampled=cases, scored=cases, late_spans=min(1, cases))
    metadata = {"total": cases} | window_metadata(plan, counts, missing)
    metadata["tags"] = [f"name={title_of(project, start, end)}"]
    kinds = (REQUEST, RESULTS) if contexts else (REQUEST,)
    evidence = [one for kind in kinds for one in await store.chunks(run, kind)]
    receiver = "receiver" if status == "running" else None  # a server takes up a run that nobody holds
    entry = RunUpdate(
        run=new_id("eval_"),
        opens=CreateRun(tenant="local", kind=KIND, name=project, holder=receiver, seconds=3_600),
        metadata=metadata,
        status=status,
        evidence=evidence,
    )
    await store.commit(Transaction(entries=[entry]))


PROJECTS = {
    "steady": [traces("a", 90, 10), traces("b", 91, 9)],
    "worse": [traces("a", 90, 10), traces("b", 60, 40)],
    "first": [traces("a", 90, 10)],
    "unmeasured": [traces("a", 90, 10), traces("b", 90, 0, unmeasured=10)],
    "empty": [traces("a", 90, 10), []],
    "gap": [traces("a", 90, 10), [], traces("c", 60, 40)],
}


@pytest.fixture(scope="module")
def folder(database, command, tmp_path_factory):
    """A folder whose store has the windows of each project, and an open one at the end of `steady`."""
    home = tmp_path_factory.mktemp("watch")
    names = ("idle", "steady")
    settings = [
        f'database_url = "{database}"', *(f'[traces.{name}]\nchecks = "checks.yaml"' for name in names)
    ]  # fmt: skip
    (home / "assay.toml").write_text("\n".join(settings))
    (home / "checks.yaml").write_text(
        "- {type: contains, arguments: {text: $.output.value.text, phrases: [x]}}\n"
    )
    (home / "bar.yaml").write_text("min_mean: 0.8\n")
    (home / "allows.yaml").write_text("max_unmeasured: 20\n")
    write_jsonl(home / "good.jsonl", complete([result_line(f"z{at}", True) for at in range(100)]))
    days = [(name, day, lines) for name, every in PROJECTS.items() for day, lines in enumerate(every)]
    days.append(("steady", 2, traces("c", 10, 90)))
    calls = []
    for name, day, lines in days:
        if lines:
            write_jsonl(home / f"{name}{day}.jsonl", lines)
            calls.append(("evaluate", f"{name}{day}.jsonl", "--checks", "checks.yaml", "--save", "--experiment", name,
                          "--name", f"{name}{day}", "--allow-errors"))  # fmt: skip
    for result in command.each(calls, folder=home):
        assert result.code == 0, result.err

    async def fill():
        store = await open_store(database)
        for name, day, lines in days:
            found = await find_run(store, f"{name}{day if lines else 0}", tenant="local", latest_of={KIND})
            status = "running" if (name, day) == ("steady", 2) else "completed"
            sample = 0.5 if (name, day) == ("worse", 1) else 1.0
            await mark(store, found.id, name, day, lines, status=status, sample=sample)
        await store.close()

    asyncio.run(fill())
    return home


WATCHED = [
    ("steady", (), 0, "passed: steady 2026-11-17: no regression was shown against steady 2026-11-16: 90.0% → 91.0%"),
    ("worse", (), 3, "failed: worse 2026-11-17: it regressed against worse 2026-11-16: 90.0% → 60.0%"),
    ("first", (), 1, "undecided: no complete window before first 2026-11-16 has a scored trace"),
    ("first", ("--policy", "bar.yaml"), 0, "passed: first 2026-11-16: the case pass rate is 90.0%, at least 80.0%"),
    ("first", ("--baseline", "good.jsonl"), 3, "failed: first 2026-11-16: it regressed against good.jsonl"),
    ("unmeasured", (), 1, "undecided: unmeasured 2026-11-17: 10 cases not measured"),
    ("unmeasured", ("--policy", "allows.yaml"), 0, "passed: unmeasured 2026-11-17"),
    ("empty", (), 1, "undecided: empty 2026-11-17: empty 2026-11-17 is empty"),
    ("gap", ("--policy", "lenient"), 3, "failed: gap 2026-11-18: it regressed against gap 2026-11-16"),
    ("idle", (), 1, "undecided: no window of idle is stored for the tenant local: nothing was measured"),
    ("stedy", (), 2, "'stedy': no project of traces has this name; the settings have [traces.NAME] for idle, steady; did"),
    ("steady", ("--policy", "none.yaml"), 2, "none.yaml: "),
]  # fmt: skip


def test_the_newest_complete_window_decides(command, folder):
    results = command.each([("watch", name, *options) for name, options, _, _ in WATCHED], folder=folder)
    for result, (name, options, code, text) in zip(results, WATCHED, strict=True):
        output = " ".join((result.out + result.err).split())
        assert (result.code, text in output) == (code, True), (name, options, result.code, output)


def test_the_table_has_each_window_with_its_counts_and_its_rate(command, folder):
    steady, worse, two = command.each(
        [("watch", "steady"), ("watch", "worse"), ("watch", "steady", "--windows", "1", "--json")],
        folder=folder,
    )
    lines = steady.out.splitlines()
    assert lines[0] == "steady: 3 windows, the newest last"
    assert [line.split()[:2] for line in lines[2:5]] == [["steady", f"2026-11-{day}"] for day in (16, 17, 18)]
    assert lines[2].split()[2:] == ["200", "100", "0", "1", "90.0%", "(82.6–94.5%)"]
    assert lines[4].split()[2:] == ["open", "200", "100", "0", "1", "–"]
    assert "sampling rates" not in steady.out
    assert "200 (0.5 of them)" in worse.out
    found = json.loads(two.out)
    assert [one["state"] for one in found["windows"]] == ["open"]
    assert (found["outcome"], found["exit_code"], found["gate"]["comparison"]["unpaired"]) == (
        "passed",
        0,
        True,
    )


@pytest.fixture(scope="module")
def server(database, folder):
    """A server on the store of these windows; `key` is a file with a key of the tenant."""
    with Server(database) as host:
        for name, members in {
            "key": {},
            "other": {"tenant": "globex"},
            "few": {"scopes": {"runs:read"}},
        }.items():
            (folder / name).write_text(host.key(**{"tenant": "local"} | members))
        yield host


@pytest.mark.parametrize(
    ("project", "arguments", "code"),
    [
        ("steady", (), 0),
        ("worse", (), 3),
        ("worse", ("--policy", "lenient"), 3),
        ("first", (), 1),
        ("first", ("--policy", "bar.yaml"), 0),
        ("unmeasured", (), 1),
        ("unmeasured", ("--policy", "allows.yaml"), 0),
        ("gap", ("--baseline", "gap0"), 3),
        ("idle", (), 1),
    ],
)
def test_a_watch_of_a_server_decides_as_one_of_its_store(server, folder, command, project, arguments, code):
    own = command("watch", project, *arguments, "--json", folder=folder)
    there = command(
        *("watch", project, *arguments, "--json", "--server", server.url, "--key-file", "key"), folder=folder
    )
    assert (there.code, own.code) == (code, code), there.err
    mine, its = json.loads(own.out), json.loads(there.out)
    for name in ("outcome", "run", "baseline", "exit_code"):
        assert its[name] == mine[name], name
    assert [one["run"] for one in its["windows"]] == [one["run"] for one in mine["windows"]]
    for mine_one, its_one in zip(mine["windows"], its["windows"], strict=True):
        for name in ("name", "state", "seen", "scored", "late_spans", "not_measured", "sample"):
            assert its_one[name] == mine_one[name], name
    shown = command("watch", project, *arguments, "--server", server.url, "--key-file", "key", folder=folder)
    assert (shown.code, f"{mine['outcome']}: " in shown.out) == (code, True)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("--key-file", "few"), 2, "evaluations:read"),
        (("--key-file", "key", "--tenant", "local"), 2, "--tenant and --server: expected one of them"),
        (("--key-file", "key", "--baseline", "good.jsonl"), 2, "expected a run of the server, got a file"),
        (("--key-file", "key", "--policy", "no-such"), 2, "no-such"),
        (("--key-file", "other"), 1, "no window of steady is stored for the tenant of the key"),
    ],
)
def test_a_watch_of_a_server_refuses_and_shows_nothing_of_another_tenant(
    server, folder, command, arguments, code, message
):
    done = command("watch", "steady", "--server", server.url, *arguments, folder=folder)
    assert (done.code, message in done.out + done.err) == (code, True), done.out + done.err


@pytest.mark.parametrize("limit", ["0", "101", "x", "-1", "9" * 30])
def test_a_wrong_number_of_windows_is_refused(server, limit):
    with server.client(tenant="local") as client:
        answer = client.get("/v1/host/assay/traces/steady/windows", params={"limit": limit})
    assert answer.status_code == 400, answer.text
    assert "from 1 to 100" in answer.text
