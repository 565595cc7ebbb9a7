"""`assay report`: a file that opens from disk with the views of the page, and sends no request."""

import re

import pytest
from playwright.sync_api import expect

from support.page.page_runs import CONTAINS, EXACT, SCRIPT, evaluation
from support.page.page_site import FILES


@pytest.fixture
def report(command, site, browser, tmp_path):
    """`report(run, …)` writes a report and opens it. A request, or a failure of a script, fails the test."""
    pages, seen = [], []

    def write(*arguments, width=1440, height=900):
        file = tmp_path / "report.html"
        done = command("report", *arguments, "-o", str(file), folder=site.folder)
        assert done.code == 0, done.err
        page = browser.contexts[FILES].new_page()
        pages.append(page)
        page.set_viewport_size({"width": width, "height": height})
        page.on("request", lambda request: seen.append(request.url))
        page.on("pageerror", lambda error: seen.append(str(error)))
        page.on("console", lambda line: seen.append(line.text) if "Content Security" in line.text else None)
        page.goto(file.as_uri())
        assert seen == [file.as_uri()]
        seen.clear()
        return page

    yield write
    for page in pages:
        page.close()
    assert [one for one in seen if not one.startswith(("data:", "blob:"))] == []


def capitals(right):
    cases = [
        {"id": f"capital-{number}", "input": f"Capital {number}?", "expected": "Paris"}
        for number in range(20)
    ]
    outputs = ["Paris" if right(number) else f"Lyon {number}" for number in range(20)]
    return evaluation(cases, outputs, [EXACT, CONTAINS])


def test_a_run_opens_from_disk_with_its_headline_its_failures_and_a_case(report, site):
    page = report(site.run("support"))
    expect(page.get_by_role("heading", level=1)).to_contain_text("local.shop.evals.support")
    expect(page.get_by_role("region", name="Result")).to_contain_text(re.compile(r"0\.\d{3}–0\.\d{3}"))
    rows = page.get_by_role("row")
    expect(rows.nth(1)).to_contain_text("Failed")
    rows.filter(has_text="flaky").get_by_role("link").first.click()
    drawer = page.get_by_role("dialog")
    expect(drawer).to_contain_text("contains: expected a text that contains '30 days'")
    expect(drawer).to_contain_text("Trajectory")
    expect(drawer.get_by_role("button", name="Should pass")).to_have_count(0)
    site.check_accessibility(page)
    page.keyboard.press("Escape")
    page.get_by_role("searchbox").or_(page.get_by_label("Search tasks")).first.fill("FRIDAY")
    expect(rows.filter(has_text="third-time")).to_be_visible()
    expect(rows.filter(has_text="flaky")).to_have_count(0)


def test_a_sandboxed_preview_shows_the_report(report, site, tmp_path):
    """A sandbox refuses storage and gives no origin."""
    (tmp_path / "preview.html").write_text('<iframe sandbox="allow-scripts" src="report.html"></iframe>')
    with report(site.run("broken")).context.new_page() as page:
        page.goto((tmp_path / "preview.html").as_uri())
        expect(page.frame_locator("iframe").get_by_role("heading", level=1)).to_contain_text("orders as JSON")


def test_hostile_content_is_text_and_a_limit_is_named(report, site):
    page = report(site.run("hostile"), "--limit", "10", width=390, height=844)
    expect(page.get_by_text("This report has 10 of 11 cases, failures first.")).to_be_visible()
    page.get_by_role("link").filter(has_text="hostile-script").first.click()
    expect(page.get_by_role("dialog")).to_contain_text(SCRIPT)
    assert page.evaluate("window.hacked") is None
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    site.check_accessibility(page)
    policy = page.locator("meta[http-equiv]").get_attribute("content")
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy
    assert "connect-src" not in policy


def test_a_report_has_the_corrections_of_an_evaluation(report, site):
    run = site.runs.evaluate(capitals(lambda number: number != 7))
    signal = {"kind": "correction", "correction": '{"passed": true}'}
    body = {"target": {"nodeId": "capital-7"}, "signal": signal, "note": "Lyon is fine."}
    assert site.runs.client.post(f"/v1/evaluations/{run}/annotations", json=body).status_code == 201
    page = report(run)
    expect(page.get_by_role("region", name="Result")).to_contain_text(
        re.compile(r"Effective.*100\.0%.*1 corrected case")
    )
    page.get_by_role("row").filter(has_text="capital-7").get_by_role("link").first.click()
    drawer = page.get_by_role("dialog")
    expect(drawer).to_contain_text("Lyon is fine.")
    expect(drawer.get_by_role("button", name="Should pass")).to_have_count(0)


def test_a_report_shows_the_slices_of_a_run_and_of_a_comparison(report, site):
    cases = [{"id": f"c{n}", "input": n, "expected": "Paris", "tags": ["odd" if n % 2 else "<b>even"]} for n in range(20)]  # fmt: skip
    runs = [
        site.runs.evaluate(evaluation(cases, ["Paris" if n < right else "Lyon" for n in range(20)], [EXACT]))
        for right in (10, 20)
    ]
    page = report(runs[0])
    slices = page.get_by_role("region", name="By tag")
    expect(slices.get_by_role("row").nth(1)).to_contain_text(re.compile(r"<b>even.*10.*50\.0%"))
    expect(slices.get_by_role("row").nth(2)).to_be_in_viewport(ratio=0.9)
    site.check_accessibility(page)
    both = report(*runs, "--by", "tag", "--by", "check", width=390, height=844)
    slices = both.get_by_role("region", name="By tag")
    expect(slices.get_by_role("row").nth(2)).to_contain_text(re.compile(r"odd.*10.*50\.0%.*100\.0%"))
    expect(slices.get_by_role("button")).to_have_count(0)  # the file has no list of cases by slice
    expect(both.get_by_role("region", name="By check").get_by_role("row")).to_have_count(2)
    assert both.evaluate("document.documentElement.scrollWidth") <= 390
    site.check_accessibility(both)


def test_a_comparison_opens_a_case_side_by_side(report, site):
    before = site.runs.evaluate(capitals(lambda number: number % 2), "before")
    after = site.runs.evaluate(capitals(lambda number: number != 3), "after")
    page = report(before, after)
    expect(page.get_by_role("region", name="Verdict")).to_contain_text("50.0% → 95.0%")
    row = page.get_by_role("row").filter(has_text="capital-3")
    expect(row).to_contain_text("Regressed")
    row.click()
    expect(page.get_by_role("dialog")).to_contain_text("Lyon 3")
    page.keyboard.press("Escape")
    site.check_accessibility(page)
    page.get_by_role("link", name="Baseline", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("before")
    redacted = report(before, after, "--redact")
    expect(redacted.get_by_text("reasons and tags were left out of this report.")).to_be_visible()
    redacted.get_by_role("row").filter(has_text="Regressed").first.click()
    expect(redacted.get_by_role("dialog")).to_contain_text("The content of the cases was left out")
    assert "capital-" not in redacted.content()
