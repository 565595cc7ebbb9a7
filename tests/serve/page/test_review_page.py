"""Review of a judge, and corrections of cases, in a browser over a real server with real runs."""

import json
import re

from support.lazy_module import lazy_module
from support.page.page_runs import EXACT, evaluation, judged_evaluation

playwright = lazy_module("playwright.sync_api")


def expect(found):
    return playwright.expect(found)


def test_a_judge_is_reviewed_by_keyboard_with_live_numbers(site, page, screenshot):
    run = site.runs.evaluate(judged_evaluation(), "reviewed")
    page.goto(site.address(run))
    failing = page.get_by_role("region", name="What fails")
    expect(failing.get_by_role("note")).to_have_text(
        "llm_judge asks a judge. Nobody has checked it in this run. Check the judge"
    )
    failing.get_by_role("link", name="Check the judge").click()
    expect(page.get_by_text("The judge answered for 4 cases.")).to_be_visible()
    site.check_accessibility(page)
    page.get_by_role("button", name="Draw").click()
    numbers = page.get_by_label("What the answers say")
    expect(page.get_by_text("Case 1 of 4")).to_be_visible()
    expect(numbers).to_contain_text("no answer yet")
    content = page.get_by_role("group", name="Content of the case")
    expect(content).to_contain_text("Output")
    expect(content).not_to_contain_text("The reply avoids the question.")  # what the judge says comes later
    expect(page.get_by_role("button", name="Pass")).to_be_enabled()
    page.keyboard.press("n")
    page.keyboard.type("not kind at all")
    page.keyboard.press("Escape")
    page.keyboard.press("2")
    expect(page.get_by_text("Case 2 of 4")).to_be_visible()
    expect(page).to_have_url(re.compile(r"review\?at=2"))
    page.keyboard.press("s")
    expect(page.get_by_text("Case 3 of 4")).to_be_visible()
    expect(page.get_by_role("button", name="Pass")).to_be_enabled()
    page.keyboard.press("1")
    expect(numbers).to_contain_text("over 2 cases")
    expect(numbers).to_contain_text(re.compile(r"by the first 1 drawn"))  # the second was skipped
    page.goto(f"{site.address(run)}/review?at=1")
    answers = page.get_by_role("group", name="Answers")
    expect(answers).to_contain_text("The judge")
    expect(answers).to_contain_text("not kind at all")
    site.check_accessibility(page)
    screenshot("review", page.url, "Agreement with the judge")
    page.goto(site.address(run))
    expect(failing.get_by_role("note")).to_contain_text("% of 2 cases (")
    label = site.client.get(f"/v1/evaluations/{run}/annotations").json()["annotations"][1]
    assert (label["signal"], label["note"]) == (
        {"kind": "label", "label": "llm_judge: fail"},
        "not kind at all",
    )
    page.goto(f"{site.address('support')}/review")  # the rubrics of an agent eval
    expect(page.get_by_text(re.compile("The judge answered for . tasks"))).to_be_visible()
    page.goto(f"{site.address('broken')}/review")
    expect(page.get_by_text("there is no check in these results that asks a judge")).to_be_visible()


def test_a_check_of_a_case_is_corrected_and_the_list_says_so(site, page):
    cases = [{"id": name, "input": name, "expected": "yes"} for name in ("good", "bad", "worse")]
    run = site.runs.evaluate(evaluation(cases, ["yes", "no", "no"], [EXACT]), "corrected")
    page.goto(site.address(run) + "?case=1")
    drawer = page.get_by_role("dialog")
    drawer.get_by_role("button", name="exact_match should pass").click()
    expect(drawer.locator(".case-head")).to_have_text(re.compile("FailedPassedcorrected"))
    expect(drawer.locator(".case-numbers")).to_contain_text("Recorded score0.000Effective score1.000")
    expect(drawer.get_by_label("Annotations")).to_contain_text("Corrected exact_match: should pass")
    site.check_accessibility(page)
    page.keyboard.press("Escape")
    row = page.get_by_role("row").filter(has_text="bad")
    expect(row).to_contain_text("corrected")
    expect(page.get_by_role("region", name="Result")).to_contain_text(
        "2 passed, 1 failed, with 1 corrected case"
    )
    page.get_by_label("Add a filter").fill("corrected")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("corrected=true"))
    expect(page.locator("[data-status]")).to_have_count(1)
    expect(page.get_by_role("button", name="Corrected 1")).to_have_attribute("aria-pressed", "true")
    site.check_accessibility(page)
    page.get_by_role("button", name="Remove the filter corrected").click()
    expect(page.locator("[data-status]")).to_have_count(3)
    page.goto(site.address(run) + "?case=1")
    drawer.get_by_role("button", name="Restore", exact=True).click()
    expect(drawer.locator(".case-head")).not_to_contain_text("corrected")
    last = site.client.get(f"/v1/evaluations/{run}/annotations").json()["annotations"][-1]
    assert json.loads(last["signal"]["correction"]) == {"check": "exact_match", "withdrawn": True}


def test_quick_keys_answer_each_for_the_case_that_was_shown(site, page):
    """Keys faster than the server. The first answer waits; none is lost, and none goes to another case."""
    run = site.runs.evaluate(judged_evaluation(), "quickly reviewed")
    site.client.post(f"/v1/host/assay/runs/{run}/review", json={"count": 4})
    page.goto(f"{site.address(run)}/review")
    expect(page.get_by_text("Case 1 of 4")).to_be_visible()
    held = []
    page.route("**/annotations", lambda route: held.append(route) if not held else route.continue_())
    shown = []
    for at, key in enumerate("1221"):
        shown.append(page.locator(".review-case").get_attribute("aria-label").removeprefix("Case "))
        page.keyboard.press(key)
        if at < 3:
            expect(page.get_by_text(f"Case {at + 2} of 4")).to_be_visible()  # the server has no answer yet
    expect(page.get_by_text("You have answered for every drawn case.")).to_be_visible()
    assert len(held) == 1
    held[0].continue_()
    numbers = page.get_by_label("What the answers say")
    expect(numbers).to_contain_text("over 4 cases")
    page.unroute("**/annotations")
    notes = site.client.get(f"/v1/evaluations/{run}/annotations").json()["annotations"]
    labels = [(note["target"].get("nodeId"), note["signal"].get("label")) for note in notes]
    words = ["pass", "fail", "fail", "pass"]
    expected = [(case, f"llm_judge: {word}") for case, word in zip(shown, words, strict=True)]
    assert [label for label in labels if label[0]] == expected


def test_an_answer_that_the_server_refuses_is_named_and_sent_again(site, page):
    run = site.runs.evaluate(judged_evaluation(), "reviewed offline")
    site.client.post(f"/v1/host/assay/runs/{run}/review", json={"count": 4})
    page.goto(f"{site.address(run)}/review")
    expect(page.get_by_text("Case 1 of 4")).to_be_visible()
    page.route("**/annotations", lambda route: route.abort())
    expect(page.get_by_role("button", name="Pass")).to_be_enabled()
    page.keyboard.press("1")
    problem = page.get_by_role("alert").filter(has_text="is not stored")
    expect(problem).to_be_visible()
    expect(page.get_by_label("0 of 4 answered")).to_be_visible()
    page.unroute("**/annotations")
    problem.get_by_role("button", name="Send it again").click()
    expect(page.get_by_label("What the answers say")).to_contain_text("over 1 case")
    expect(problem).to_have_count(0)
