"""The last look of a run with `--until decided`: while it goes on and after it, in every door (ADR-0241)."""

import json
import re

import pytest

from support.evals import golden
from support.lazy_module import lazy_module
from support.waiting import wait_until

playwright = lazy_module("playwright.sync_api")
MODULE = """
import asyncio, time
from pathlib import Path

calls = []

def waits(gate):
    calls.append(gate)
    return len(calls) >= 12 and not Path(gate).exists()

def agent(task):
    while waits("go-run"):
        time.sleep(0.05)
    return "yes"

def half(task):
    calls.append(task)
    return "yes" if len(calls) % 2 else "no"

async def check(output):
    while waits("go-evaluate"):
        await asyncio.sleep(0.05)
    return output == "yes"
"""
UNTIL = ("--until", "decided", "--json")
BAR = (*UNTIL, "--min-pass-rate", "0.8")
RUN = ("run", "deciding.json", "--concurrency", "1", "--agent")
COMMANDS = {
    "run": (*RUN, "deciding:agent", *BAR),
    "run --baseline": (*RUN, "deciding:agent", *UNTIL, "--baseline", "half"),
    "evaluate": ("evaluate", "--contexts", "deciding.jsonl", "--check-module", "deciding.py:check", *BAR),
}


def write(folder):
    (folder / "deciding.py").write_text(MODULE)
    tasks = [golden(f"t{at}", "yes") for at in range(100)]
    suite = {"suiteId": "local.shop.evals.deciding", "version": "1.0.0", "modes": ["golden"], "tasks": tasks}
    (folder / "deciding.json").write_text(json.dumps(suite))
    cases = ({"test_case": {"id": f"c{at}", "input": at}, "output": {"value": "yes"}} for at in range(100))
    (folder / "deciding.jsonl").write_text("".join(f"{json.dumps(case)}\n" for case in cases))


def running(site, kind, name):
    rows = site.client.post("/v1/host/assay/runs:query", json={}).json()["runs"]
    live = [row for row in rows if (row["kind"], row["status"]) == (kind, "running")]
    return next((row["runId"] for row in live if f"name={name}" in row.get("tags", ())), None)


@pytest.mark.parametrize(
    ("command", "kind", "decision"),
    [
        ("run", "agent-eval", "above the bar"),
        ("run --baseline", "agent-eval", "improved"),
        ("evaluate", "evaluation", "above the bar"),
    ],
)
def test_the_page_shows_the_last_look_and_every_door_has_its_numbers(
    site, page, zygote, command, kind, decision
):
    write(site.folder)
    verb, name = command.split()[0], f"early-{command.replace(' --', '-')}"
    (site.folder / f"go-{verb}").unlink(missing_ok=True)
    if "--baseline" in command:
        before = zygote.start(*RUN, "deciding:half", "--name", "half", folder=site.folder)
        before.communicate()
        assert before.returncode == 3
    process = zygote.start(*COMMANDS[command], "--name", name, folder=site.folder, pipe=True)
    run = wait_until(lambda: running(site, kind, name))

    def look():
        overview = site.client.get(f"/v1/host/assay/runs/{run}/overview")
        assert overview.status_code == 200, overview.text
        return overview.json().get("until")

    first = wait_until(look)
    assert (first["decision"], first["rounds"]) == ("not enough data", 1)
    assert (first["cases"], first["total"]) == (10, 100)
    page.goto(site.address(run))
    shown = page.get_by_role("region", name="Decision")
    expect = playwright.expect
    expect(shown).to_contain_text("not decided yet")
    expect(shown).to_contain_text(first["text"])
    expect(shown).to_contain_text("last look after 1 round, 10 of 100")
    compared = "Difference to the baseline" if "--baseline" in command else "Against a bar of 80.0%"
    expect(shown).to_contain_text(compared)
    site.check_accessibility(page, "[aria-label=Decision]")
    (site.folder / f"go-{verb}").touch()
    out, err = process.communicate()
    assert process.returncode == 0, err
    until, last = json.loads(out)["until"], look()
    for name in ("decision", "metric", "estimate", "low", "high", "measured", "unmeasured", "rounds"):
        assert last[name] == until[name], name
    assert (last["cases"], last["total"] - last["cases"]) == (until["run"], until["not_run"])
    assert last["low"] > first["low"]
    expect(shown).to_contain_text(decision)
    expect(shown).to_contain_text(last["text"])
    stopped = (
        rf"stopped after {last['rounds']} rounds, {last['cases']} of 100 .*so {until['not_run']} \w+s did not"
    )
    expect(shown).to_contain_text(re.compile(stopped))
