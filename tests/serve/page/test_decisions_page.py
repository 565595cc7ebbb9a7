"""Compare, verify and approve, and try, in a browser over a real server with real runs."""

import json
import os
import re
import subprocess

import httpx
import msgspec
import pytest

from assay.comparison.compare import RunComparison
from assay.comparison.wording import verdict_line
from support.page.decision_runs import (
    EVERYTHING,
    activate,
    answers,
    ask_promotion,
    decision_server,
    evaluate,
    hostile_pair,
    sorter_run,
    start_loop,
    status_of,
)
from support.page.page_site import Site, tab_to
from support.runner import forkserver
from support.servers.rest_client import sqlite


class DecisionSite(Site):
    """A server of this process, with verifier loops and a policy for promotions."""

    def __init__(self, server, full):
        self.server, self.url, self.full = server, server.url, full
        self.key = server.key(scopes=EVERYTHING)
        self.reader = server.key(scopes={"runs:read", "evaluations:read", "manifest:read"})
        self.client = httpx.Client(base_url=self.url, headers={"X-API-Key": self.key}, timeout=60)
        self.before = evaluate(self.client, answers(1, 0.8), "returns")
        self.after = evaluate(self.client, answers(2, 0.93), "returns")

    def open(self, page, address):
        page.goto(f"{self.url}/#{address}")


@pytest.fixture(scope="module")
def site(tmp_path_factory, series):
    with decision_server(sqlite(tmp_path_factory.mktemp("decisions"))) as server:
        site = DecisionSite(server, full=series(False, True))
        yield site
        site.client.close()


@pytest.fixture(scope="module")
def newcomer(site, browser):
    """A tab of a tenant without runs. Its tests share it: another fragment is not another document."""
    with site.tab(browser, key=site.server.key(tenant="new", scopes=EVERYTHING)) as page:
        yield page


@pytest.fixture
def expect():
    from playwright import sync_api  # deferred import: only these tests need it

    return sync_api.expect


# compare


def test_a_comparison_has_the_words_and_numbers_of_the_command(site, page, expect, tmp_path, screenshot):
    address = f"/compare?runs={site.before},{site.after}"  # without a choice the slices are by tag
    screenshot(
        "compare",
        f"{site.url}/#{address}",
        "adjusted for the number of metrics",
        variants=("1440-light", "1440-dark"),
    )
    site.open(page, address)
    document = site.client.get(
        f"/v1/evaluations/{site.after}/comparison?baseline={site.before}&by=tag"
    ).content
    (pair,) = msgspec.json.decode(document, type=RunComparison).comparisons
    verdict = page.get_by_role("region", name="Verdict")
    words, _, last = verdict_line(pair.result).partition(f" {pair.result.word}")
    expect(verdict).to_contain_text(words)
    expect(verdict).to_contain_text(pair.result.word)
    assert last == ""
    expect(verdict).to_contain_text(re.compile("(Worse in|The largest drop is in) tag|No slice fell"))
    line = verdict.locator(".compare-slice-line").bounding_box()
    assert line["y"] + line["height"] < 900  # in the first screen of 1440x900
    expect(verdict).to_contain_text(f"{pair.worse} worse, {pair.better} better, {pair.unchanged} unchanged")
    expect(page.get_by_role("region", name="By tag").get_by_role("row")).to_have_count(1 + len(pair.slices))
    grid = page.get_by_role("grid", name="Cases")
    expect(grid.get_by_role("row").nth(1)).to_contain_text(pair.changes[0].id)
    expect(grid.get_by_role("row").nth(1)).to_contain_text(pair.changes[0].data.reason_after[:60])
    strip = page.get_by_role("region", name="Passed and failed")
    expect(strip.get_by_role("button", name=str(pair.worse), exact=True).first).to_be_visible()
    site.check_accessibility(page)
    with page.expect_download() as download:
        page.get_by_role("button", name="Export", exact=True).click()
        page.get_by_role("menuitem", name="CSV").click()
    download.value.save_as(tmp_path / "cases.csv")
    assert len((tmp_path / "cases.csv").read_text().splitlines()) == 1 + pair.worse + pair.better
    page.get_by_role("combobox", name="Slices").select_option("none")
    expect(page.get_by_role("region", name="By tag")).to_have_count(0)


def test_every_metric_is_in_a_table_that_chooses_one(site, page, expect, tmp_path):
    site.open(page, f"/compare?runs={site.before},{site.after}")
    query = f"runs={site.before},{site.after}&metrics=true"
    view = site.client.get(f"/v1/host/assay/comparison?{query}").json()
    metrics = view["pairs"][0]["metrics"]
    table = page.get_by_role("region", name="Every metric")
    expect(table.get_by_role("row")).to_have_count(1 + len(metrics))
    late = table.get_by_role("row").filter(has_text="Latency, p95")
    expect(late).to_contain_text(metrics[-1]["difference"])
    site.check_accessibility(page)
    tab_to(page, late.get_by_role("button"))
    page.keyboard.press("Enter")
    expect(late.get_by_role("button")).to_have_attribute("aria-pressed", "true")
    assert "metric=latency_ms:p95" in page.url
    page.get_by_role("combobox", name="Metric").select_option("latency_ms")
    page.get_by_role("button", name="Before and after: table and export").click()
    with page.expect_download() as download:
        page.get_by_role("menuitem", name="PNG").click()
    download.value.save_as(tmp_path / "chart.png")
    assert (tmp_path / "chart.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    page.get_by_role("button", name="Differences: table and export").click()
    page.get_by_role("menuitem", name="Show as a table").click()
    table = page.get_by_role("dialog").get_by_role("table")
    expect(table).to_contain_text("cases")
    page.keyboard.press("Escape")


def test_the_diff_and_the_grid_are_tabs_of_a_comparison(site, page, expect, screenshot):
    third = evaluate(site.client, answers(4, 0.6), "returns")
    runs = f"{site.before},{site.after},{third}"
    site.open(page, f"/compare?runs={runs}&view=grid")
    grid = page.get_by_role("grid", name="Cases and runs")
    expect(grid.get_by_role("columnheader")).to_have_count(4)
    answer = site.client.get(f"/v1/host/assay/comparison/grid?runs={runs}&different=true").json()
    expect(page.get_by_text(f"{answer['different']} cases with different values")).to_be_visible()
    expect(grid.get_by_role("row").nth(1)).to_contain_text(answer["rows"][0]["id"])
    site.check_accessibility(page)
    screenshot("compare-grid", page.url, "Only different")
    page.get_by_role("button", name="All cases").click()
    assert "only=all" in page.url
    page.get_by_role("button", name="Diff", exact=True).click()
    diff = page.get_by_role("grid", name="Where the runs part")
    expect(diff.get_by_role("row").nth(1)).to_contain_text("another answer")
    site.check_accessibility(page)
    diff.get_by_role("row").nth(1).click()
    expect(page.get_by_role("dialog")).to_contain_text("Side by side")
    assert "view=" not in page.url


def test_the_runs_of_an_experiment_are_shown_over_time(site, browser, page, expect, screenshot):
    for seed, share in ((5, 0.7), (6, 0.85)):
        evaluate(site.client, answers(seed, share), "weekly returns")
    address = "/history?name=weekly+returns&kind=evaluation"
    site.open(page, "/runs?group=name")
    row = page.get_by_role("row").filter(has_text="weekly returns")
    expect(row.get_by_role("img", name="Scores of 2 runs")).to_be_visible()
    row.click()
    expect(page).to_have_url(f"{site.url}/#{address}")
    expect(page.get_by_role("heading", name="weekly returns")).to_be_visible()
    rows = site.client.post(
        "/v1/host/assay/runs:history", json={"name": "weekly returns", "kind": "evaluation"}
    ).json()["rows"]
    chart = page.get_by_role("img", name="score of 2 runs")
    expect(chart).to_have_attribute(
        "aria-label", f"score of 2 runs, from {text(rows[1])} to {text(rows[0])}."
    )
    table = page.get_by_role("grid", name="Runs over time")
    expect(table.get_by_role("row").nth(1)).to_contain_text(rows[0]["text"])
    site.check_accessibility(page)
    screenshot("history", f"{site.url}/#/history?name=returns&kind=evaluation", "By time")
    page.get_by_role("button", name="By time").click()
    assert "x=time" in page.url
    page.keyboard.press("j")
    page.keyboard.press("x")
    page.keyboard.press("j")
    page.keyboard.press("x")
    page.keyboard.press("c")
    expect(page.get_by_role("region", name="Verdict")).to_be_visible()
    assert f"runs={rows[1]['runId']},{rows[0]['runId']}" in page.url
    with site.tab(browser, 390, 844, "dark") as phone:
        site.open(phone, address)
        expect(phone.get_by_role("grid", name="Runs over time")).to_be_visible()
        assert phone.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
        site.check_accessibility(phone)


def text(row):
    return f"{row['text']} ({row['range']})"


def test_cases_are_filtered_and_opened_by_keyboard_alone(site, page, expect, screenshot):
    site.open(page, f"/compare?runs={site.before},{site.after}&by=tag")
    grid = page.get_by_role("grid", name="Cases")
    expect(grid).to_be_visible()
    tab_to(page, page.get_by_role("button", name="Improved"))
    page.keyboard.press("Enter")
    expect(grid.get_by_role("row").nth(1)).to_contain_text("Improved")
    assert "change=better" in page.url
    slice = page.get_by_role("region", name="By tag").get_by_role("button", name="refund")
    page.keyboard.press("Shift+Tab")
    tab_to(page, page.get_by_role("link", name="Skip to the content"))
    tab_to(page, slice)
    page.keyboard.press("Space")
    expect(slice).to_have_attribute("aria-pressed", "true")
    expect(grid).to_be_visible()
    page.keyboard.press("n")
    drawer = page.get_by_role("dialog")
    expect(drawer).to_contain_text("0.000 → 1.000")
    expect(drawer.get_by_role("group", name="after")).to_contain_text("refund")  # nothing is common: apart
    screenshot("compare-case", page.url, "Side by side")
    first = drawer.get_by_role("heading", level=2).first.inner_text()
    page.keyboard.press("j")
    expect(drawer.get_by_role("heading", level=2).first).not_to_have_text(first)
    expect(drawer.locator("ins").first).to_contain_text("refund")
    site.check_accessibility(page)
    page.keyboard.press("Escape")
    expect(drawer).to_have_count(0)
    assert "case=" not in page.url
    expect(grid.locator(":focus")).to_have_count(1)  # the focus is in the list again, not on the body


def test_a_link_opens_a_case_that_the_list_does_not_have(site, page, expect):
    case = site.client.get(
        f"/v1/host/assay/comparison/cases?runs={site.before},{site.after}&of={site.after}&change=unchanged&limit=1"
    ).json()["cases"][0]
    site.open(page, f"/compare?runs={site.before},{site.after}&case={case['id']}")
    drawer = page.get_by_role("dialog")
    expect(drawer).to_contain_text("Same")
    expect(drawer.get_by_role("heading", name="Output")).to_be_visible()
    site.open(page, f"/compare?runs={site.before},{site.after}&case=nobody")
    expect(drawer).to_contain_text("Neither run has a case with this id.")


def test_three_runs_are_compared_with_the_first(site, page, expect):
    third = evaluate(site.client, answers(3, 0.7), "returns")
    site.open(page, f"/compare?runs={site.before},{site.after},{third}&metric=latency_ms")
    expect(page.get_by_role("listitem")).to_have_count(6)  # three runs, and three notes
    chosen = page.get_by_role("button", name=third[-6:])
    chosen.or_(page.locator("button.compare-choose").nth(1)).first.click()
    assert f"of={third}" in page.url
    expect(page.get_by_role("region", name="Verdict")).to_contain_text("97.5%")


def test_runs_that_cannot_be_compared_show_the_reason(site, page, expect):
    site.open(page, "/compare")
    expect(page.get_by_role("heading", name="Pick the runs to compare")).to_be_visible()
    site.open(page, f"/compare?runs={site.before},eval_unknown")
    expect(page.get_by_role("alert")).to_contain_text("there is no run 'eval_unknown'")
    site.open(page, f"/compare?runs={site.before},{site.after}&metric=nothing")
    expect(page.get_by_role("alert")).to_contain_text("no check is called 'nothing'")


def test_hostile_content_stays_text(site, browser, expect):
    runs = [evaluate(site.client, hostile_pair(after=after), "hostile") for after in (False, True)]
    waits = start_loop(site.client, "hostile-note")
    with site.tab(browser, 390, 844, "dark") as page:
        site.open(page, f"/compare?runs={runs[0]},{runs[1]}&by=tag&change=unchanged")
        expect(page.get_by_role("grid", name="Cases").get_by_role("row").first).to_contain_text("<script>")
        site.open(page, f"/verify/{waits}")
        expect(page.get_by_role("list", name="Turns")).to_contain_text("<script>window.hacked")
        expect(page.get_by_role("list", name="Turns")).to_contain_text("RLO")
        assert page.evaluate("window.hacked") is None
        site.check_accessibility(page)


@pytest.mark.parametrize(
    ("address", "text"),
    [
        ("/runs", "No runs yet"),
        ("/runs?q=nothing", "No run fits"),
        ("/runs/run-0000", "Not found"),
        ("/compare", "Pick the runs to compare"),
        ("/compare?runs=eval_a,eval_b", "there is no run 'eval_a'"),
        ("/compare?runs=eval_a,eval_b&view=grid", "there is no run 'eval_a'"),
        ("/compare?runs=eval_a,eval_b&view=diff", "there is no run 'eval_a'"),
        ("/history", "Choose a suite or an experiment"),
        ("/history?name=nothing&kind=evaluation", "There is no run here"),
        ("/verify", "Nothing waits for you"),
        ("/verify/run-0000", "Not found"),
        ("/nowhere", "This page does not exist"),
    ],
)
def test_empty_and_broken_screens_are_accessible(site, newcomer, expect, address, text):
    site.open(newcomer, address)
    expect(newcomer.get_by_text(text).first).to_be_visible()
    site.check_accessibility(newcomer)


# verify and approve


def test_a_loop_is_shown_turn_by_turn_with_its_give_up(site, page, expect, screenshot):
    site.open(page, f"/verify/{start_loop(site.client, 'release-note')}")
    turns = page.get_by_role("list", name="Turns").locator("> li")
    expect(turns).to_have_count(2)
    screenshot("verification", page.url, "Goal reached")
    expect(turns.nth(0)).to_contain_text("Withheld")
    expect(turns.nth(0)).to_contain_text("says-how-to-upgrade not met")
    expect(turns.nth(0)).to_contain_text("Say how to upgrade, and name the command.")
    expect(turns.nth(1)).to_contain_text("Committed")
    turns.nth(1).get_by_role("button", name="Changes since turn 1").click()
    expect(turns.nth(1).locator("ins").first).to_contain_text("To upgrade")
    expect(page.locator(".screen-head")).to_contain_text("Goal reached")
    site.check_accessibility(page)
    site.open(page, f"/verify/{start_loop(site.client, 'hopeless-note')}")
    expect(page.locator(".screen-head")).to_contain_text("Gave up")
    expect(page.get_by_text("The loop gave up")).to_contain_text("Not met: says-how-to-upgrade")
    expect(page.get_by_role("region", name="Task and result")).to_contain_text("Nothing was committed.")


def test_an_escalation_is_answered_by_keyboard_and_the_run_goes_on(site, page, expect, screenshot):
    run = start_loop(site.client, "careful-note")
    screenshot("approval", f"{site.url}/#/verify/{run}", "A critic rejects this result")
    screenshot("approvals", f"{site.url}/#/verify", "a critic rejects the result")
    site.open(page, "/verify")
    expect(page.get_by_role("link", name="Approvals")).to_have_text(re.compile(r"Approvals\d+ waiting"))
    tab_to(page, page.get_by_role("row", name="careful-note").first)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="A critic rejects this result")).to_be_visible()
    expect(page.get_by_role("button", name="Accept")).to_have_count(0)  # it would mean: try again
    tab_to(page, page.get_by_role("button", name="Let it try again"))
    page.keyboard.press("Enter")
    expect(page.locator(".screen-head")).to_contain_text("Goal reached")
    expect(page.get_by_role("list", name="Turns")).to_contain_text("Let it try again")
    assert status_of(site.client, run) == "completed"
    refused = start_loop(site.client, "careful-note")
    site.open(page, f"/verify/{refused}")
    page.get_by_role("button", name="End as failed").click()
    expect(page.locator(".screen-head")).to_contain_text("Failed")
    assert status_of(site.client, refused) == "failed"


def test_a_promotion_shows_score_verdict_and_findings_beside_approve(site, page, expect, screenshot):
    agent = "local.shop.sorter-2"
    activate(site.client, agent, sorter_run(site.client, "1.0.0"))
    run = ask_promotion(site.client, agent, evidence=sorter_run(site.client, "1.1.0"))
    screenshot("promotion", f"{site.url}/#/verify/{run}", "1.000 → 0.875")
    site.open(page, f"/verify/{run}")
    question = page.get_by_role("region", name="Question")
    evidence = question.get_by_label("Evidence")
    expect(evidence).to_contain_text(re.compile(r"Score0\.875\d\.\d+–\d\.\d+"))
    expect(evidence).to_contain_text("not enough data")
    expect(evidence.get_by_role("link", name="compare with 1.0.0")).to_be_visible()
    expect(evidence).to_contain_text("Findingsnoneattack success 0.0%")
    expect(question.get_by_role("button", name="Approve")).to_be_visible()
    site.check_accessibility(page)


def test_a_promotion_is_approved_or_refused_in_words(site, page, expect, browser):
    ask_promotion(site.client, "local.shop.sorter-1")
    site.open(page, "/verify")
    waits = page.get_by_role("row", name="promote local.shop.sorter-1 1.1.0 to active")
    expect(waits).to_contain_text("a promotion needs an approval")
    site.check_accessibility(page)
    waits.click()
    expect(page.get_by_role("heading", name="promote local.shop.sorter-1 1.1.0 to active")).to_be_visible()
    site.check_accessibility(page)
    page.get_by_role("button", name="Approve").click()
    expect(page.get_by_text("The transition is done.")).to_be_visible()
    (record,) = site.client.get("/v1/agents/local.shop.sorter-1/deployments").json()
    assert record["state"] == "active"
    strict = ask_promotion(site.client, "local.strict.sorter")
    site.open(page, f"/verify/{strict}")
    page.get_by_role("button", name="Approve").click()
    expect(page.get_by_role("alert")).to_contain_text("requested the transition and may not approve it")
    assert status_of(site.client, strict) == "waiting-approval"
    other, site.key = site.key, site.reader
    try:
        with site.tab(browser) as second:
            site.open(second, f"/verify/{strict}")
            expect(second.get_by_text("An answer needs the scope approvals:respond")).to_be_visible()
            expect(second.get_by_role("button", name="Approve")).to_be_disabled()
    finally:
        site.key = other


@pytest.mark.new_tab
def test_an_answer_without_the_scope_is_refused_in_words(site, page, expect):
    """The page does not know the scopes here, so the server refuses."""
    run = start_loop(site.client, "careful-note")
    page.route("**/v1/host/assay/session", lambda route: route.abort())
    page.add_init_script(f"sessionStorage.setItem('assay.key', {json.dumps(site.reader)})")
    site.open(page, f"/verify/{run}")
    page.get_by_role("button", name="Let it try again").click()
    expect(page.get_by_role("alert")).to_contain_text(
        "An answer needs the scope approvals:respond. Nothing has changed."
    )
    assert status_of(site.client, run) == "waiting-approval"


# try


def stored(site):
    return site.client.get("/v1/evaluations?page_size=1").json()["operations"][0]["operation_id"]


@pytest.mark.new_tab
def test_a_result_is_there_at_once_and_a_problem_at_its_line(site, page, expect, screenshot):
    screenshot("try", f"{site.url}/#/try", "2 of 2 passed")
    newest = stored(site)
    site.open(page, "/try")
    result = page.get_by_role("region", name="Result")
    expect(result).to_contain_text("2 of 2 passed")
    tab_to(page, page.get_by_label("Output", exact=True))
    page.keyboard.press("Control+a")
    page.keyboard.insert_text("Nothing about order 17.")
    expect(result).to_contain_text("1 of 2 passed")
    checks = page.get_by_label("Checks", exact=True)
    checks.fill("- type: contains\n  arguments:\n    txt: $.output.value\n    phrases: [a]\n")
    expect(page.get_by_role("button", name="line 3").first).to_be_visible()
    expect(result).to_contain_text("Not valid yet")
    expect(checks).to_have_attribute("aria-invalid", "true")
    checks.fill("- type: contains\n  arguments: [\n")
    expect(page.get_by_role("button", name="line ").first).to_be_visible()
    site.check_accessibility(page)
    checks.fill("")
    page.get_by_role("button", name="All checks").click()
    page.get_by_role("searchbox", name="Search the checks").fill("exact")
    page.get_by_role("button", name="Add exact_match").click()
    expect(checks).to_have_value(
        "- type: exact_match\n  arguments:\n    actual: $.output.value\n    expected: $.test_case.expected\n"
    )
    expect(result).to_contain_text("0 of 1 passed")
    assert "order" not in page.url
    page.reload()
    expect(page.get_by_label("Output", exact=True)).to_have_value("Nothing about order 17.")
    assert stored(site) == newest
    page.keyboard.press("Control+Enter")
    page.wait_for_url("**/#/runs/eval_*")
    assert stored(site) != newest


@pytest.mark.new_tab
def test_a_copied_command_and_request_run(site, page, expect, command, tmp_path):
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    site.open(page, "/try")
    text = 'It\'s "30 days" – ünïcode\n\ttab, $HOME `date` \\d and\nJSON\n<script>x</script> 😀'
    page.get_by_label("Output", exact=True).fill(text)
    expect(page.get_by_role("region", name="Result")).to_contain_text("1 of 2 passed")

    def copied(name):
        page.get_by_role("button", name="Copy as").click()
        page.get_by_role("menuitem", name=name).click()
        expect(page.get_by_text(f"Copied as {name}")).to_be_attached()
        return page.evaluate("navigator.clipboard.readText()")

    (tmp_path / "request.yaml").write_text(copied("YAML for assay evaluate"), "utf-8")
    ended = command("evaluate", "request.yaml", "-o", "results.jsonl", folder=tmp_path)
    assert ended.code == 0, ended.err
    line = json.loads((tmp_path / "results.jsonl").read_text("utf-8"))
    assert line["execution_context"]["output"]["value"] == text
    curl = copied("curl")
    assert site.key not in curl
    environ = {**os.environ, "ASSAY_API_KEY": site.key}
    answer = subprocess.run(["sh", "-c", curl], capture_output=True, check=True, env=environ, timeout=60)
    (case,) = json.loads(answer.stdout)["results"]
    assert case["execution_context"]["output"]["value"] == text
    assert [one["results"]["passed"] for one in case["check_results"]] == [True, False]
    (tmp_path / "copied.py").write_text(copied("Python"), "utf-8")
    program = [forkserver.python(), "copied.py"]
    ran = subprocess.run(program, capture_output=True, check=True, cwd=tmp_path, timeout=60, text=True)
    assert ran.stdout.splitlines() == [
        "contains completed {'passed': True}",
        "regex completed {'passed': False}",
    ]
