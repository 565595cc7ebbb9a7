"""`kept:NAME`: the spans that a server keeps for `retention` are read again, for an evaluation and for a suite."""

import pytest
import yaml

from support.servers.rest_client import Server
from support.traces.received import CHECKS, model_call, new_trace, request, root, wait_for, windows

FAST = {"checks": CHECKS, "settle": "0s", "quiet": "1s"}


@pytest.fixture(scope="module")
def folder(database, tmp_path_factory):
    """A folder whose store has three kept traces of each of two tenants; two of three fail."""
    home = tmp_path_factory.mktemp("kept")
    (home / "assay.toml").write_text(f'database_url = "{database}"\n')
    (home / "checks.yaml").write_text(yaml.safe_dump(CHECKS))
    projects = {"support": FAST | {"retention": "1d"}, "gone": FAST}
    with Server(database, traces=projects) as server:
        for tenant in ("local", "acme"):
            with server.client(tenant=tenant) as client:
                for project in projects:
                    for at, answer in enumerate(("20 degrees", "no idea", "never")):
                        trace = new_trace()
                        talk = {"gen_ai__conversation__id": f"{tenant}-{at}"}
                        spans = request(model_call(trace, answer), root(trace, **talk))
                        sent = client.post("/v1/traces", json=spans, headers={"x-assay-project": project})
                        assert sent.status_code == 200, sent.text
                    wait_for(server, project, tenant, scored=3)
        home.joinpath("window").write_text(windows(server, "support", "local")[0].run.id)
    return home


def test_kept_traces_are_evaluated_again_by_tenant(folder, command):
    for name, first in (("kept:support", "local-1"), ("kept:acme/support", "acme-1")):
        done = command("evaluate", "--traces", name, "--checks", "checks.yaml", folder=folder)
        assert (done.code, "3 cases" in done.out, f"{first}: contains" in done.out) == (0, True, True), (
            done.err
        )


def test_what_failed_in_a_window_becomes_a_suite(folder, command):
    run = (folder / "window").read_text()
    done = command("suite", "from-traces", "kept:support", "--run", run, "--only", "failing", folder=folder)
    audited = command("admin", "audit", "show", "--tenant", "local", folder=folder)
    assert "traces.read" in audited.out, audited.err
    assert done.code == 0, done.err
    assert sorted(task["taskId"] for task in yaml.safe_load(done.out)["tasks"]) == ["local-1", "local-2"]


def test_kept_traces_are_a_window_to_compare(folder, command):
    given = (
        "evaluate",
        "--traces",
        "kept:support",
        "--traces",
        "kept:acme/support",
        "--checks",
        "checks.yaml",
    )
    done = command(*given, folder=folder)
    assert (done.code, "kept:support → kept:acme/support" in done.out) == (0, True), done.err


@pytest.mark.parametrize("name", ["kept:gone", "kept:no-such", "kept:globex/support", "kept:"])
def test_a_project_without_kept_spans_is_refused(folder, command, name):
    done = command("evaluate", "--traces", name, "--checks", "checks.yaml", folder=folder)
    assert (done.code, "expected spans of this project that a server keeps, got none" in done.err) == (
        2,
        True,
    )
    done = command("suite", "from-traces", name, folder=folder)
    assert (done.code, "expected spans of this project that a server keeps, got none" in done.err) == (
        2,
        True,
    )
