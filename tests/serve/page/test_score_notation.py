"""
A score and a rate are each written in one way at every door: the terminal, reports, the page, comparisons and gates. A CSV
has the number itself.
"""

import csv
import json
import re

import pytest
from playwright.sync_api import expect

from assay.stats.number_text import score_text
from support.page.page_site import FILES

CHECK = "def length(text):\n    return {'score': len(text) / 16, 'passed': len(text) > 8}\n"
SAME = "66.7% → 66.7% (+0.0 points,"  # two of three cases pass in both runs
SIZES = {"before": (13, 5, 16), "after": (11, 3, 16)}  # 0.8125 and 0.3125 are ties of rounding
BEFORE, AFTER = (dict(enumerate(score_text(size / 16) for size in SIZES[name])) for name in SIZES)


@pytest.fixture(scope="module")
def printed(site, command):
    """What the commands print of two runs, and their ids: {name: text}."""
    (site.folder / "long.py").write_text(CHECK)
    checks = [{"type": "length", "name": "long", "arguments": {"text": "$.output.value"}}]
    (site.folder / "long.json").write_text(json.dumps(checks))
    jobs = []
    for name, sizes in SIZES.items():
        lines = [{"test_case": {"id": f"t{at}", "input": "?"}, "output": {"value": "x" * size}} for at, size in enumerate(sizes)]  # fmt: skip
        (site.folder / f"long-{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        files = (
            "--contexts",
            f"long-{name}.jsonl",
            "--checks",
            "long.json",
            "--check-module",
            "long.py:length",
        )
        jobs.append(["evaluate", *files, "--save", "--name", f"long-{name}", "-o", f"long-{name}.csv"])
    runs = ("long-before", "long-after")
    jobs += [["show", runs[0]], ["compare", *runs, "--metric", "score"]]
    jobs += [["compare", *runs], ["gate", runs[1], "--baseline", runs[0], "--min-mean", "0.6"]]
    jobs += [["report", runs[0], "-o", "long.md"], ["report", runs[0], "-o", "long.html"]]
    jobs += [["report", *runs, "-o", "pair.md"], ["list", "--json", "--limit", "2"]]
    done = command.batch([{"command": job} for job in jobs], folder=site.folder)
    assert {one.code for one in done} <= {0, 1, 3}, [one.err for one in done]
    after, before = (run["operation_id"] for run in json.loads(done[-1].out))  # the newest first
    names = ("evaluate", "second", "show", "compare", "passed", "gate")
    texts = dict(zip(names, (one.out for one in done), strict=False))
    return texts | {"before": before, "after": after}


def test_the_terminal_and_the_reports_write_a_score_alike(printed, site):
    assert f"t1: long {BEFORE[1]}: " in printed["evaluate"]
    assert [f"long {BEFORE[at]}: " in printed["show"] for at in (0, 1)] == [True, True]
    assert f"worse  {BEFORE[0]} → {AFTER[0]}  t0" in printed["compare"]
    assert f"| t1 | failed | {BEFORE[1]} | long {BEFORE[1]}: " in (site.folder / "long.md").read_text()
    assert f"**No change.** {SAME}" in (site.folder / "pair.md").read_text()
    assert printed["passed"].startswith(f"{SAME} 95% −70.8…70.8, 3 cases) no change\n")
    assert "the case pass rate is 66.7%, at least 60.0% (95% " in " ".join(printed["gate"].split())
    with (site.folder / "long-before.csv").open() as file:
        assert [score_text(float(row["score"])) for row in csv.DictReader(file)] == list(BEFORE.values())


def test_the_page_and_its_report_write_a_score_as_the_terminal(printed, site, page, browser):
    page.goto(f"{site.url}/#/runs/{printed['before']}?sort=position")
    assert_run(page, case_drawer=True)
    page.goto(f"{site.url}/#/compare?runs={printed['before']},{printed['after']}&metric=score&change=worse")
    row = page.get_by_role("row", name=re.compile("^t0, "))
    expect(row.get_by_role("gridcell", name=BEFORE[0], exact=True)).to_be_visible()
    expect(row.get_by_role("gridcell", name=AFTER[0], exact=True)).to_be_visible()
    headline = printed["compare"].splitlines()[0].rpartition(")")[0]
    expect(page.get_by_role("region", name="Verdict")).to_contain_text(headline)
    page.goto(f"{site.url}/#/compare?runs={printed['before']},{printed['after']}")
    verdict = page.get_by_role("region", name="Verdict")
    expect(verdict).to_contain_text(printed["passed"].splitlines()[0].removesuffix(" no change"))
    expect(verdict.get_by_text("no change", exact=True)).to_be_visible()
    report = browser.contexts[FILES].new_page()
    report.set_viewport_size({"width": 1440, "height": 900})
    report.goto(f"{(site.folder / 'long.html').as_uri()}#/runs/{printed['before']}?sort=position")
    assert_run(report, case_drawer=False)
    report.close()


def assert_run(page, *, case_drawer):
    for at, text in BEFORE.items():
        row = page.locator("[data-status]").filter(has_text=f"t{at}")
        expect(row.get_by_role("gridcell", name=text, exact=True).first).to_be_visible()
    failed = page.locator("[data-status=failed]")
    expect(failed).to_contain_text(f"long {BEFORE[1]}: ")
    if case_drawer:
        failed.get_by_role("link").click()
        expect(page.get_by_role("dialog").locator(".case-numbers")).to_contain_text(f"Score{BEFORE[1]}")
