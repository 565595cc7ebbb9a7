"""The screen of a run, in a browser over a real server with real runs."""

import json
import re
from pathlib import Path
from urllib.parse import quote

import pytest

from support.lazy_module import lazy_module
from support.page.conversations import conversations
from support.page.page_runs import (
    EXACT,
    HOSTILE,
    NAME,
    SCRIPT,
    attack_suite,
    evaluation,
    huge_evaluation,
    slow_suite,
)
from support.page.page_site import tab_to

playwright = lazy_module("playwright.sync_api")


def expect(found):
    return playwright.expect(found)


def row(page, text: str):
    return page.get_by_role("row").filter(has_text=text).first


def case_drawer(page):
    return page.get_by_role("dialog")


def test_the_headline_has_score_verdict_and_reason(site, page):
    page.goto(site.address("support"))
    result = page.get_by_role("region", name="Result")
    expect(result).to_contain_text(re.compile(r"0\.\d{3}.*95% interval \(Gaffke\) over 7 tasks"))
    expect(result).to_contain_text(re.compile("(Passed|Not passed).*The score .* the bar of 0.700"))
    expect(result).to_contain_text("p95 latency")
    expect(result).to_contain_text("pass^3")
    expect(result).to_contain_text(re.compile(r"Costsystem \$0\.\d+ \+ judges \$0\.\d+"))
    expect(page.get_by_role("columnheader").filter(has_text="contains")).to_be_visible()
    expect(page.get_by_role("columnheader").filter(has_text="agent answered")).to_have_count(0)  # of a crash


def test_failures_come_first_and_each_cell_counts_trials(site, page):
    page.goto(site.address("support"))
    expect(row(page, "crash")).to_contain_text("ValueError: no template for a state 'returned'")
    expect(row(page, "flaky")).to_contain_text("2/3")
    statuses = [one.get_attribute("data-status") for one in page.locator("[data-status]").all()]
    assert statuses == sorted(statuses, key=["failed", "error", "skipped", "ungraded", "passed"].index)


def test_a_case_shows_its_reason_difference_arguments_and_trajectory(site, page):
    page.goto(site.address("support"))
    row(page, "flaky").get_by_role("link").click()
    drawer = case_drawer(page)
    expect(drawer.get_by_role("button", name="Trial 2 ✗")).to_have_attribute("aria-pressed", "true")
    expect(drawer.get_by_label("Why it did not pass")).to_contain_text("got 'I am not sure.'")
    expect(drawer.get_by_role("group", name="Output", exact=True)).to_have_text("I am not sure.")
    expect(drawer).to_contain_text("The customer asks about order 17.")
    expect(drawer).to_contain_text(re.compile("Turn 1.*acme:m-1.*412 tokens in, 31 out"))
    expect(drawer.locator(".skeleton")).to_have_count(0)  # what loads last moves what is below it
    drawer.locator(".step-tool").filter(has_text="shop:orders").click()
    step = drawer.get_by_role("region", name="Chosen step")
    expect(step).to_contain_text("fixture")
    expect(step).to_contain_text('"state": "delivered"')
    expect(page).to_have_url(re.compile(r"step=\d+\.\d+"))
    drawer.get_by_role("button", name="Collapse all").click()
    expect(drawer.locator(".step-tool")).to_have_count(0)
    drawer.get_by_role("button", name="Expand all").click()
    drawer.get_by_text("Arguments and full result").first.click()
    expect(drawer.get_by_role("group", name="Argument phrases")).to_contain_text("30 days")
    page.reload()  # the address of the case is a link
    expect(case_drawer(page).get_by_role("heading", name="flaky")).to_be_visible()
    case_drawer(page).get_by_role("button", name="Trial 1 ✓").click()
    expect(page).to_have_url(re.compile("trial=1"))
    expect(case_drawer(page).get_by_role("group", name="Output", exact=True)).to_contain_text("30 days")


def test_an_evaluation_with_trials_counts_them_in_each_cell(site, page, command):
    cases = [json.dumps({"id": name, "input": name, "expected": "Paris"}) for name in ("moody", "steady")]
    (site.folder / "trials.jsonl").write_text("\n".join(cases))
    (site.folder / "trials.json").write_text(json.dumps([EXACT]))
    options = ("--agent", "page_agents:moody", "--trials", "3", "--experiment", "three trials", "--save")
    done = command(
        "evaluate", "--cases", "trials.jsonl", "--checks", "trials.json", *options, folder=site.folder
    )
    assert done.code == 0, done.err
    found = site.client.post("/v1/host/assay/runs:query", json={"filter": {"name": "three trials"}}).json()
    page.goto(site.address(found["runs"][0]["runId"]))
    expect(page.get_by_role("region", name="Result")).to_contain_text("pass^3")
    expect(row(page, "moody").locator(".check-cell")).to_have_text("2/3")
    expect(row(page, "steady").locator(".check-cell")).to_have_text("3/3")
    row(page, "moody").get_by_role("link").click()
    expect(case_drawer(page).get_by_role("button", name="Trial 2 ✗")).to_have_attribute(
        "aria-pressed", "true"
    )
    expect(case_drawer(page).get_by_role("group", name="Output", exact=True)).to_have_text("Lyon")


def test_a_judge_explains_each_criterion(site, page):
    page.goto(site.address("support"))
    row(page, "no-promise").get_by_role("link").click()
    drawer = case_drawer(page)
    expect(drawer).to_contain_text("0 of 2 criteria met")
    expect(drawer.locator(".criteria")).to_contain_text("names a next step")
    expect(drawer.locator(".criteria")).to_contain_text("The answer promises nothing and names no date.")
    expect(drawer).to_contain_text("Judge: local:ok")


def test_the_difference_of_texts_and_of_json_is_marked(site, page):
    page.goto(site.address("broken"))
    row(page, "json").get_by_role("link").click()
    difference = page.get_by_role("group", name="Difference")
    expect(difference.locator("del").first).to_contain_text("plate")
    expect(difference.locator("ins").first).to_contain_text("bowl")
    page.keyboard.press("Escape")
    row(page, "copy the text").get_by_role("link").click()
    expect(difference.locator("del")).to_have_text("expected: quick")
    expect(difference.locator("ins")).to_have_text("actual: slow")
    assert len(difference.inner_text()) < 2_000  # equal lines far from the change are left out


def test_an_agent_that_crashes_has_no_attack_success_and_a_run_without_a_judge_no_review(site, page):
    suite = attack_suite() | {"suiteId": "local.shop.evals.crash"}
    for task in suite["tasks"]:
        del task["fixtures"]  # the agent does not expect that its tool fails
    page.goto(site.address(site.runs.suite(suite, "weak")))
    result = page.get_by_role("region", name="Result")
    expect(result).to_contain_text("Attack successnot measured the agent failed in 8 tasks")
    expect(result).to_contain_text("Not measured in any task: unsafe-tool-call")
    expect(page.get_by_role("link", name="Compare")).to_have_count(2)
    expect(page.get_by_role("link", name="Review")).to_have_count(0)
    page.goto(site.address("support"))
    expect(page.get_by_role("link", name="Review", exact=True)).to_have_count(1)


def test_findings_and_what_was_not_measured_are_in_the_headline(site, page):
    page.goto(site.address("attack"))
    result = page.get_by_role("region", name="Result")
    expect(result).to_contain_text("Attack success100.0% 67.6–100.0%8 of 8 tasks with a finding")
    kinds = result.get_by_role("region", name="Kinds of findings").get_by_role("row")
    expect(kinds.filter(has_text="prompt-injection")).to_have_text(re.compile("prompt-injectionhigh44"))
    expect(result).to_contain_text("jailbreak: not looked for (no judge)")
    page.get_by_role("button", name=re.compile("With findings")).click()
    expect(row(page, "attack-1")).to_contain_text("prompt-injection (high): rule canary")
    row(page, "attack-1").get_by_role("link").click()
    expect(case_drawer(page).get_by_label("Why it did not pass")).to_contain_text(
        "prompt-injection (high): rule canary"
    )
    expect(case_drawer(page).locator("[data-item=findings]")).to_contain_text("pii-leak")
    page.goto(site.address("offline"))
    expect(result).to_contain_text(re.compile("Not measured.*3"))
    expect(result).to_contain_text("No verdict")
    result.get_by_role("button", name="3").click()
    expect(page.locator("[data-status]")).to_have_count(3)
    expect(page.locator("[data-status]").first).to_contain_text("the model answered 429 after 5 retries")
    expect(page.locator("[data-status]").first).not_to_contain_text("0.000")


def test_filter_order_and_search_are_in_the_address(site, page):
    page.goto(site.address("support"))
    page.get_by_role("button", name=re.compile("^Failed")).click()
    expect(page).to_have_url(re.compile("show=failed"))
    expect(page.locator("[data-status]:not([data-status=failed])")).to_have_count(0)
    page.get_by_role("combobox", name="Order").select_option("-latency")
    page.reload()
    expect(page.get_by_role("combobox", name="Order")).to_have_value("-latency")
    page.get_by_role("button", name="Clear", exact=True).click()
    page.keyboard.press("/")
    page.keyboard.type("never came")
    expect(page.locator("[data-status]")).to_have_count(1)
    expect(page.locator("mark")).to_have_text("never came")
    expect(page).to_have_url(re.compile("q=never"))


def test_a_search_keeps_the_filter_and_the_order(site, page):
    words = ["order 1", "no", "order 2", "order 3", "order 4"]
    cases = [{"id": f"s-{at}", "input": text, "expected": "yes"} for at, text in enumerate(words)]
    request = evaluation(cases, ["no", "no", "yes", "no", "no"], [EXACT])
    for at, output in enumerate(request["outputs"]):
        output["metadata"] = {"latency_ms": [300, 100, 200, 900, 500][at], "cost_usd": 0.01}
    page.goto(site.address(site.runs.evaluate(request)) + "?show=failed&sort=-latency&q=order")
    expect(
        page.get_by_role("status").filter(has_text="3 cases found. Looked at all 5 results.")
    ).to_be_visible()
    links = page.locator("[data-status] a")
    expect(links).to_have_text(["s-3", "s-4", "s-0"])
    expect(page.get_by_role("region", name="Result")).to_contain_text("Costsystem $0.0500")
    expect(page.get_by_role("region", name="Result")).not_to_contain_text("judges")


def test_a_link_to_a_case_marks_its_row_and_a_case_has_one_score(site, page):
    page.goto(site.address("support") + "?sort=position&case=6")
    drawer = case_drawer(page)
    expect(drawer.get_by_role("heading", name="no-promise")).to_be_visible()
    expect(page.locator(".table-row.active")).to_have_count(1)
    expect(page.locator(".table-row.active")).to_contain_text("no-promise")
    page.goto(site.address("judged") + "?case=1")
    expect(drawer.get_by_role("heading", name="judged-1")).to_be_visible()
    expect(drawer.locator(".case-numbers")).to_contain_text("Score0.500")
    expect(drawer.locator("[data-item=output]")).not_to_contain_text("score")


def test_the_list_stays_in_use_beside_the_open_case_of_a_wide_screen(site, page):
    page.goto(site.address("support"))
    row(page, "flaky").get_by_role("link").click()
    drawer = case_drawer(page)
    expect(drawer.get_by_role("heading", name="flaky")).to_be_visible()
    row(page, "crash").get_by_role("link").click()  # not covered by the case
    expect(drawer.get_by_role("heading", name="crash")).to_be_visible()
    page.keyboard.press("ArrowDown")
    expect(drawer.get_by_role("heading", name="no-promise")).to_be_visible()
    expect(page.locator(".table-row.active")).to_contain_text("no-promise")
    page.get_by_role("button", name=re.compile("^Failed")).click()
    expect(page.locator(".table-row.active")).to_contain_text("no-promise")
    drawer.get_by_role("button", name="More like: llm_judge: not met: names a next step").click()
    expect(page.locator("[data-status]")).to_have_count(1)
    chip = page.get_by_role("button", name=re.compile("Remove the filter like"))
    expect(chip).to_be_visible()
    assert chip.locator("svg").bounding_box()["width"] >= 12  # its cross, however long its text is
    site.check_accessibility(page)
    drawer.locator(".overlay-body").focus()
    opened = page.url
    page.keyboard.press("ArrowDown")  # scrolls what is read
    page.keyboard.press("Escape")
    expect(drawer).to_have_count(0)
    expect(page.locator(".table-row.active")).to_be_focused()
    assert opened.count("case=") == 1
    expect(page.get_by_role("region", name="Result")).to_be_visible()


def test_compare_of_a_run_proposes_the_run_before_it(site, page):
    before, after = site.run("before"), site.run("after")
    page.goto(site.address("after"))
    page.locator(".run-head").get_by_role("link", name="Compare").click()
    page.get_by_role("link", name="Compare with").click()
    expect(page).to_have_url(re.compile(f"runs={before},{after}$"))
    expect(page.locator("[data-line='0']")).to_be_visible()
    page.keyboard.press("j")  # from anywhere
    expect(page.locator("[data-line='0']")).to_be_focused()
    page.keyboard.press("n")
    expect(case_drawer(page).locator(".compare-reason.bad")).to_have_count(1)
    expect(case_drawer(page).locator(".compare-reason.good")).to_contain_text("passed")
    page.keyboard.press("Escape")
    expect(page.locator("[data-line='0']")).to_be_focused()


def test_a_run_is_read_by_keyboard_alone(site, page):
    page.goto(site.address("support"))
    expect(page.locator("[data-status]").first).to_be_visible()
    page.keyboard.press("j")
    expect(page.locator("[data-line='0']")).to_be_focused()
    page.keyboard.press("j")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("k")
    expect(page.locator("[data-line='1']")).to_be_focused()
    page.keyboard.press("Enter")
    expect(case_drawer(page)).to_be_visible()
    first = page.url
    page.keyboard.press("n")
    expect(page).not_to_have_url(first)
    page.keyboard.press("Escape")
    expect(case_drawer(page)).to_have_count(0)
    expect(page.locator("[data-line='2']")).to_be_focused()
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox")).to_be_focused()


SLOW_ANSWERS = """const real = window.fetch;
window.fetch = async (...asked) => {
  if (String(asked[0]).endsWith("/cases:query")) await new Promise((resolve) => setTimeout(resolve, 1_500));
  return real(...asked);
};"""
ROWS = "document.querySelector('[role=grid]').ariaRowCount"
DONE = "document.querySelector('[role=progressbar]').ariaValueNow"


@pytest.mark.new_tab
def test_results_appear_during_the_run_and_it_can_be_cancelled(site, page):
    page.add_init_script(SLOW_ANSWERS)  # more slowly than events come
    run = site.runs.start_suite(slow_suite(600, 2, "live"), "slow")
    page.goto(site.address(run))
    expect(page.locator("[data-status]").first).to_be_visible()
    for shown in (DONE, ROWS):
        before = int(page.evaluate(shown))
        page.wait_for_function(f"before => Number({shown}) > before", arg=before)
    page.get_by_role("button", name="Cancel the run").click()
    site.check_accessibility(page, "dialog, [role=dialog], .live-bar")
    case_drawer(page).get_by_role("button", name="Cancel the run").click()
    expect(page.get_by_text("Cancelled", exact=True).first).to_be_visible()
    expect(page.get_by_role("progressbar")).to_have_count(0)


def test_a_score_is_corrected_and_the_recorded_one_stays(site, page):
    run = site.runs.suite(slow_suite(4, 0, "corrected"), "slow")
    page.goto(site.address(run))
    expect(row(page, "slow-000")).to_be_visible()
    page.keyboard.press("j")  # without a mouse
    page.keyboard.press("Enter")
    drawer = case_drawer(page)
    expect(drawer.get_by_role("heading", name="slow-000")).to_be_visible()
    tab_to(page, drawer.get_by_label("Note"))
    page.keyboard.insert_text(f"The question was ambiguous. {SCRIPT}")
    page.keyboard.press("Shift+Tab")
    tab_to(page, drawer.get_by_role("button", name="Should fail"))
    page.keyboard.press("Shift+Tab")
    expect(drawer.get_by_role("button", name="Should pass")).to_be_focused()
    page.keyboard.press("Enter")
    sides = drawer.locator(".side")
    expect(sides.nth(0)).to_contain_text("Recorded0.000Failed")
    expect(sides.nth(1)).to_contain_text("Effective1.000Passed")
    expect(drawer.get_by_role("list", name="Annotations")).to_contain_text(
        f"The question was ambiguous. {SCRIPT}"
    )
    assert page.evaluate("window.hacked") is None
    drawer.get_by_label("Score", exact=True).fill("0.4")
    drawer.get_by_role("button", name="Set the score").click()
    expect(sides.nth(1)).to_contain_text("0.400")
    drawer.get_by_label("Score", exact=True).fill("2")
    expect(drawer).to_contain_text("A score is a number from 0 to 1.")
    page.keyboard.press("Escape")
    expect(page.get_by_role("region", name="Result")).to_contain_text(
        re.compile("Effective.*1 corrected task")
    )


def test_a_case_of_an_evaluation_is_corrected_as_a_task_is(site, page):
    cases = [{"id": f"fixed-{at}", "input": "?", "expected": "Paris"} for at in range(2)]
    run = site.runs.evaluate(evaluation(cases, ["Paris", "Lyon"], [EXACT]))
    page.goto(site.address(run) + "?case=1")
    drawer = case_drawer(page)
    drawer.get_by_label("Note").fill("Lyon is fine.")
    drawer.get_by_role("button", name="Should pass", exact=True).click()
    sides = drawer.locator(".side")
    expect(sides.nth(0)).to_contain_text("Recorded0.000Failed")
    expect(sides.nth(1)).to_contain_text("Effective1.000Passed")
    expect(drawer.get_by_role("list", name="Annotations")).to_contain_text("Lyon is fine.")
    page.keyboard.press("Escape")
    expect(page.get_by_role("region", name="Result")).to_contain_text(
        re.compile(r"Effective.*100\.0%.*1 corrected case\. The recorded score stays\.")
    )


SHOWN = {
    "script": "<script>window.hacked = 1</script><img src=x",
    "bidi": "invoiceRLOgpj.exe",
    "invisible": "payZWSP×3palWJ.comSHY",
    "terminal": "ESC[2JESC[31mall tests passedESC[0mCRBEL",
    "tags": "helloTAG iTAG gTAG n",
}
LABEL = f"{SCRIPT[:40]}RLOZWSP"
ACTIVE = "img, script, iframe, a[href^=http], a[href^=javascript]"


RENDERED = {"markdown": "picture x https://example.com/steal?q=1"}


@pytest.mark.parametrize("mode", ["Text", "Raw", "Rendered"])
def test_hostile_content_is_text_in_every_mode(site, page, mode):
    output = case_drawer(page).get_by_role("group", name="Output", exact=True)
    shown = SHOWN | (RENDERED if mode == "Rendered" else {})
    for at, (name, text) in enumerate(HOSTILE.items()):
        page.goto(site.address("hostile") + f"?case={at}")
        if at == 0:
            case_drawer(page).get_by_role("button", name=mode, exact=True).click()
        expect(output).to_contain_text(shown.get(name, text[:30]))
        if name == "long":
            assert len(output.inner_text()) < 3_000
            case_drawer(page).get_by_role("button", name="Show all 310,000 characters").first.click()
            page.wait_for_function(
                "document.querySelector('[aria-label=Output]').textContent.length > 300_000"
            )
        assert case_drawer(page).locator(ACTIVE).count() == 0
    page.goto(site.address("judged") + "?case=3")
    expect(case_drawer(page)).to_contain_text(f"The reply avoids the question. {SHOWN['script']}")
    assert case_drawer(page).locator(ACTIVE).count() == 0
    assert page.evaluate("window.hacked") is None


def test_hostile_names_are_text(site, page):
    page.goto(site.address("hostile"))
    expect(page.get_by_role("columnheader").filter(has_text="<script>")).to_contain_text(LABEL)
    expect(page.get_by_role("heading", level=1)).to_contain_text(LABEL)
    page.goto(f"{site.url}/#/runs?q=hostile")  # the whole list has more rows than are drawn
    expect(row(page, LABEL)).to_be_visible()
    page.goto(f"{site.url}/#/runs?group=name&name={quote(f'hostile {NAME}')}")
    expect(page.get_by_role("grid", name="Suites and experiments")).to_contain_text(LABEL)
    page.keyboard.press("Control+k")
    page.keyboard.type("hostile")
    expect(page.get_by_role("option").filter(has_text=LABEL)).to_be_visible()
    assert page.locator("main").locator(ACTIVE).count() == 0
    assert page.evaluate("window.hacked") is None


def test_a_conversation_is_shown_by_role_and_the_mode_stays(site, page):
    page.goto(site.address(site.runs.evaluate(conversations("after", 8), "talk")))
    expect(page.get_by_role("region", name="Slices")).to_contain_text("difference to all other cases")
    expect(row(page, "conversation-003")).to_contain_text("My account question is about order 1003.")
    expect(row(page, "conversation-003")).to_contain_text("This is about order 1003.")
    expect(row(page, "conversation-000")).to_contain_text("helpful 0.300: The reply avoids the question.")
    row(page, "conversation-007").get_by_role("link").click()
    drawer = case_drawer(page)
    messages = drawer.get_by_role("group", name="Input")
    expect(messages.locator(".message-role")).to_have_text(
        ["system", "user", "assistant", "tool", "assistant", "user"]
    )
    expect(messages.locator(".tool-call")).to_contain_text("orders.find")
    expect(messages.locator("strong")).to_have_text("1007")
    messages.get_by_role("button", name="Picture").click()
    expect(page.get_by_role("dialog", name="Picture").locator("img")).to_be_visible()
    page.keyboard.press("Escape")
    output = drawer.get_by_role("group", name="Output", exact=True)
    expect(output.locator("ol li")).to_have_count(2)
    expect(output).to_contain_text("Terms (https://example.com/terms)")
    site.check_accessibility(page, "dialog")
    drawer.get_by_role("button", name="Raw", exact=True).click()
    expect(output).to_contain_text("\\n\\n1. Open the *orders* page")
    page.reload()
    expect(output).to_contain_text("\\n\\n1. Open the *orders* page")
    drawer.get_by_role("button", name="Text", exact=True).click()
    expect(messages).to_contain_text("assistant:")
    drawer.get_by_role("button", name="Rendered", exact=True).click()
    expect(messages.locator(".message-role").first).to_be_visible()


def test_the_shown_cases_are_exported(site, page):
    page.goto(site.address("support") + "?show=failed")
    expect(page.locator("[data-status]").first).to_be_visible()
    for entry, mark in (
        ("CSV", "position,case,status"),
        ("JSON", '"case": "crash"'),
        ("Markdown", "| crash |"),
    ):
        page.get_by_role("button", name="Export").click()
        with page.expect_download() as download:
            page.get_by_role("menuitem", name=entry, exact=True).click()
        text = Path(download.value.path()).read_text()
        assert mark in text
        assert "return-window" not in text  # only what is shown
        if entry == "JSON":
            assert all(one["status"] == "failed" for one in json.loads(text))


@pytest.mark.parametrize("name", ["support", "hostile"])
def test_axe_finds_no_violation(site, page, name):
    page.goto(site.address(name))
    expect(page.locator("[data-status]").first).to_be_visible()
    site.check_accessibility(page)
    page.locator("[data-status] a").first.click()
    expect(case_drawer(page).get_by_role("heading", name="Checks")).to_be_visible()
    site.check_accessibility(page, both_colours=name == "support")


def test_an_unknown_run_shows_a_message(site, page):
    page.goto(site.address("run-0000"))
    expect(page.get_by_role("alert")).to_contain_text("Not found")
    page.goto(site.address("support") + "?case=999")
    expect(case_drawer(page).get_by_role("alert")).to_contain_text("Not found")


def test_many_cases_are_scrolled_and_filtered(site, page):
    """`soak_page.py` does it with 100,000 cases and measures."""
    many = 1_000
    page.goto(site.address(site.runs.evaluate(huge_evaluation(many), "many")))
    expect(page.locator("[data-line='0'][data-status=failed]")).to_be_visible()
    page.evaluate("document.querySelector('.matrix').scrollTop = 1e9")
    expect(page.locator(f"[data-line='{many - 1}'][data-status=passed]")).to_be_visible()
    assert page.locator("[data-line]").count() < 100  # only the rows in view are drawn
    page.get_by_role("button", name=re.compile("^Failed")).click()
    expect(page.get_by_role("grid")).to_have_attribute("aria-rowcount", str(many // 50 + 1))
