"""Pictures of the screens for the docs: only with the option --screenshots. Those of decisions are in test_decisions_page."""

import time
from pathlib import Path

from support.page.conversations import conversations
from support.page.page_runs import slow_suite
from support.page.png import shrink

SHOTS = Path(__file__).parents[3] / "docs" / "screenshots"


def open_case(name):
    def act(page):
        page.get_by_role("link", name=name).first.click()
        page.get_by_role("dialog").get_by_text("Output").first.wait_for()

    return act


def open_trajectory(page):
    open_case("flaky")(page)
    page.locator("[data-item=trajectory]").scroll_into_view_if_needed()
    page.locator("[data-item=correction] textarea").scroll_into_view_if_needed()


def test_pictures_of_runs_and_of_a_run(site, screenshot, browser, command, tmp_path):
    for kind in ("before", "after", "loop", "offline", "judged", "broken", "attack", "support"):
        site.run(kind)
    both = ("1440-light", "1440-dark", "390-light")
    live = site.runs.start_suite(slow_suite(400, 1.0, "nightly"), "slow")
    screenshot("run-live", site.address(live), "about")
    screenshot("runs", f"{site.url}/#/runs", "local.shop.evals.support", variants=both)
    site.client.post(f"/v1/runs/{live}/cancel", json={})
    screenshot("run", site.address("support"), "return-window", variants=both)
    screenshot("case", site.address("support"), "return-window", open_case("flaky"))
    screenshot("trajectory", site.address("support"), "return-window", open_trajectory)
    for version in ("before", "after"):
        talk = site.runs.evaluate(conversations(version), "support conversations")
    screenshot("slices", site.address(talk), "What fails")
    screenshot("conversation", site.address(talk), "What fails", open_case("conversation-000"))
    screenshot("findings", site.address("attack"), "attack-1")
    screenshot("sign-in", f"{site.url}/#/runs", "API key", key="")
    screenshot("rest", f"{site.url}/v1/docs", "Run an evaluation and wait for its result")
    file = tmp_path / "report.html"
    done = command("report", site.run("before"), site.run("after"), "-o", str(file), folder=site.folder)
    assert done.code == 0, done.err
    page = browser.new_page(viewport={"width": 1440, "height": 860}, offline=True)
    page.goto(file.as_uri())
    page.get_by_role("region", name="Passed and failed").wait_for()
    time.sleep(0.5)
    (SHOTS / "report-1440-light.png").write_bytes(shrink(page.screenshot(animations="disabled")))
    page.close()
