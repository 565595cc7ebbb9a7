"""The list of runs: what it shows, live, with filters in the address, by keyboard, on a phone, and after a restart of the server."""

import csv
import io
import json
import re

import pytest
from playwright.sync_api import expect

from support.page.page_runs import slow_suite
from support.page.page_site import SETTLED


@pytest.fixture(scope="module")
def runs(site):
    """Runs of two kinds; the first use of the site makes them."""
    return {name: site.run(name) for name in ("support", "offline", "broken")}


def row_of(page, text):
    return page.get_by_role("row").filter(has_text=text).first


@pytest.mark.new_tab
def test_the_list_shows_every_kind_with_scores_and_intervals(page, site, runs):
    page.goto(f"{site.url}/#/runs")
    row = row_of(page, "local.shop.evals.support")
    expect(row).to_contain_text("Agent eval")
    expect(row).to_contain_text("local.shop.support")
    expect(row).to_contain_text("acme:m-1")
    expect(row).to_contain_text(re.compile(r"0\.\d{3}.*0\.\d{3}–0\.\d{3}"))
    expect(row).to_contain_text(re.compile(r"\d passed, \d failed"))
    unmeasured = row_of(page, "orders as JSON")
    expect(unmeasured).to_contain_text("Evaluation")
    expect(row_of(page, "local.shop.evals.offline")).to_contain_text("not measured")
    site.check_accessibility(page)
    page.set_viewport_size({"width": 390, "height": 844})
    expect(row_of(page, "Agent eval")).to_be_visible()  # the oldest runs are further down
    site.check_accessibility(page)
    width = page.evaluate("document.documentElement.scrollWidth")
    assert width <= 390, "the page scrolls sideways on a phone"


def test_grouping_removes_a_search_and_an_order_and_a_search_shows_runs(page, site, runs):
    """The server makes no groups of runs that it has to look at, nor in another order."""
    grid = page.get_by_role("grid", name="Runs")
    groups = page.get_by_role("grid", name="Suites and experiments")
    page.goto(f"{site.url}/#/runs?q=offline&agent=nobody&sort=score")
    expect(page.get_by_role("heading", name="No run fits")).to_be_visible()
    page.keyboard.press("s")
    expect(row_of(groups, "local.shop.evals.offline")).to_be_visible()
    expect(page).to_have_url(f"{site.url}/#/runs?group=name")
    page.keyboard.press("/")
    page.keyboard.type("offline")
    expect(row_of(grid, "local.shop.evals.offline")).to_be_visible()
    expect(groups).to_have_count(0)
    page.get_by_role("button", name="Clear the search").click()
    expect(groups).to_be_visible()
    page.get_by_role("button", name="Group by suite", pressed=True).click()
    expect(page).to_have_url(f"{site.url}/#/runs")


def test_filters_are_in_the_address_and_are_restored_from_it(page, site, runs):
    page.goto(f"{site.url}/#/runs")
    page.get_by_label("Kind", exact=True).select_option("agent-eval")
    expect(row_of(page, "orders as JSON")).to_have_count(0)
    page.keyboard.press("/")
    page.keyboard.type("OFFLINE")
    expect(row_of(page, "local.shop.evals.support")).to_have_count(0)
    expect(row_of(page, "local.shop.evals.offline")).to_be_visible()
    expect(page).to_have_url(f"{site.url}/#/runs?kind=agent-eval&q=OFFLINE")
    expect(page.get_by_role("status").filter(has_text=re.compile(r"^1 of \d+$"))).to_be_visible()
    page.reload()
    expect(row_of(page, "local.shop.evals.offline")).to_be_visible()
    expect(row_of(page, "local.shop.evals.support")).to_have_count(0)
    page.get_by_role("button", name="Clear the search").click()
    expect(row_of(page, "local.shop.evals.support")).to_be_visible()
    page.get_by_role("button", name="Group by suite").click()
    expect(page.get_by_role("grid", name="Suites and experiments")).to_be_visible()
    row_of(page, "local.shop.evals.support").click()
    expect(page.get_by_role("grid", name="Runs over time")).to_be_visible()
    page.get_by_role("link", name="All runs").click()
    expect(row_of(page, "local.shop.evals.offline")).to_have_count(0)
    expect(row_of(page, "local.shop.evals.support")).to_be_visible()
    assert "name=local.shop.evals.support" in page.url
    page.goto(f"{site.url}/#/runs?q=nothing+has+this+name")
    expect(page.get_by_role("heading", name="No run fits")).to_be_visible()
    page.get_by_role("button", name="Clear the filters").click()
    expect(row_of(page, "orders as JSON")).to_be_visible()


@pytest.mark.new_tab
def test_everything_works_with_the_keyboard_alone(page, site, runs):
    page.goto(f"{site.url}/#/runs?kind=agent-eval")
    expect(row_of(page, "local.shop.evals.support")).to_be_visible()
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    for _ in range(20):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.dataset.line !== undefined"):
            break
    page.keyboard.press("x")
    page.keyboard.press("j")
    page.keyboard.press("Space")
    expect(page.get_by_text("2 picked")).to_be_visible()
    page.keyboard.press("c")
    expect(page.get_by_role("heading", name="Compare").first).to_be_visible()
    assert re.search(r"#/compare\?runs=run-\w+,run-\w+$", page.url)
    page.keyboard.press("g")
    page.keyboard.press("r")
    expect(page.get_by_role("grid", name="Runs")).to_be_visible()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    site.check_accessibility(page, "dialog, [role=dialog]")
    page.keyboard.press("s")  # a dialog owns the keyboard
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.get_by_role("grid", name="Runs")).to_be_visible()
    page.keyboard.press("Control+k")
    page.keyboard.type("support")
    expect(page.get_by_role("dialog").get_by_role("option").first).to_contain_text("local.shop.evals.support")
    site.check_accessibility(page, "dialog, [role=dialog]")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"#/runs/run-\w+"))


def test_the_export_has_the_shown_runs(page, site, runs):
    page.goto(f"{site.url}/#/runs?kind=agent-eval")
    expect(row_of(page, "local.shop.evals.support")).to_be_visible()
    texts = {}
    for name in ("CSV", "JSON", "Markdown"):
        page.get_by_role("button", name="Export").click()
        with page.expect_download() as download:
            page.get_by_role("menuitem", name=name, exact=True).click()
        texts[name] = download.value.path().read_text("utf-8")
    table = list(csv.DictReader(io.StringIO(texts["CSV"])))
    documents = json.loads(texts["JSON"])
    shown = {runs["support"], runs["offline"]}
    assert shown <= {row["run"] for row in table} == {one["run"] for one in documents}
    assert {row["kind"] for row in table} == {"agent-eval"}
    assert texts["Markdown"].count("\n") == len(table) + 2


def test_runs_appear_and_go_on_also_after_the_server_was_killed(page, site, runs, browser, tmp_path):
    page.goto(f"{site.url}/#/runs")
    expect(row_of(page, "orders as JSON")).to_be_visible()
    gate = tmp_path / "the server is back"
    run = site.runs.start_suite(slow_suite(12, 0, "killed", gate), "slow")
    listed = row_of(page, "local.shop.evals.killed")
    expect(listed).to_be_visible()
    with site.tab(browser) as watcher:
        watcher.goto(site.address(run))
        expect(watcher.locator("[data-status]").nth(2)).to_be_visible()
        site.restart(lambda: look_at_a_server_that_is_away(page, watcher))
        gate.touch()
        expect(page.get_by_text("The server does not answer")).to_have_count(0)
        site.runs.evaluate(
            {"test_cases": [{"id": "a", "input": "x"}], "outputs": [{"value": "x"}], "checks": []},
            "after the restart",
        )
        expect(row_of(page, "after the restart")).to_be_visible()
        expect(watcher.get_by_role("progressbar")).to_have_count(0)
        expect(watcher.get_by_role("region", name="Result")).to_contain_text("9 passed, 3 failed")
        expect(watcher.get_by_role("grid")).to_have_attribute("aria-rowcount", "13")
        watcher.set_viewport_size({"width": 1440, "height": 2_000})
        expect(watcher.locator("[data-status]")).to_have_count(12)
        links = watcher.locator("[data-status] a").all_inner_texts()
        assert sorted(links) == [f"slow-{number:03}" for number in range(12)]  # each once
    expect(listed).to_contain_text("9 passed, 3 failed")


HELD_ANSWERS = """const real = window.fetch;
window.held = window.given = 0;
window.fetch = async (...asked) => {
  const answer = await real(...asked);
  if (window.away && String(asked[0]).endsWith("/runs:changes")) throw new TypeError("away");
  if (window.hold && String(asked[0]).endsWith("/runs:query")) {
    window.held += 1;
    await window.hold;
    window.given += 1;
  }
  return answer;
};"""


@pytest.mark.new_tab
def test_a_new_run_stays_though_an_older_answer_about_the_list_comes_later(page, site, runs):
    request = {"test_cases": [{"id": "a", "input": "x"}], "outputs": [{"value": "x"}], "checks": []}
    site.runs.evaluate(request, "older than the answer")
    page.add_init_script(HELD_ANSWERS)
    page.goto(f"{site.url}/#/runs")
    expect(row_of(page, "older than the answer")).to_be_visible()
    page.evaluate("window.away = true")
    site.runs.evaluate(request, "wakes the page")
    expect(page.get_by_text("The server does not answer")).to_be_visible()
    page.evaluate("void (window.hold = new Promise((resolve) => { window.release = resolve; }))")
    page.evaluate("window.away = false")  # the page asks for the list again
    page.wait_for_function("() => window.held >= 2")  # the list and its counts
    site.runs.evaluate(request, "newer than the answer")
    expect(row_of(page, "newer than the answer")).to_be_visible()
    page.evaluate("void (window.hold = undefined, window.release())")
    page.wait_for_function("() => window.given === window.held")
    page.evaluate(SETTLED)
    expect(row_of(page, "newer than the answer")).to_be_visible()


def look_at_a_server_that_is_away(page, watcher):
    expect(page.get_by_text("The server does not answer")).to_be_visible()
    expect(watcher.get_by_text("The connection was lost.")).to_be_visible()
    expect(watcher.locator("[data-status]").first).to_be_visible()  # what it has stays
