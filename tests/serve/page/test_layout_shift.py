"""What a screen shows stays in its place while the rest of it loads, so that a click never meets something else."""

import time

import pytest
from playwright.sync_api import expect

from support.page.conversations import conversations
from support.page.page_runs import EXACT, evaluation

MOST = 0.02  # a hundredth of what a reader calls steady is 0.1
SHIFTS = """window.shifts = [];
new PerformanceObserver((list) => window.shifts.push(...list.getEntries().filter((one) => !one.hadRecentInput)))
  .observe({ type: "layout-shift", buffered: true });
const real = window.fetch, frame = () => new Promise(requestAnimationFrame);
let turn = Promise.resolve();
window.waiting = 0;
window.fetch = (...asked) => {  // each answer comes alone, and some frames after the one before it
  const answer = real(...asked);
  if (String(asked[0]).endsWith("/runs:changes") || String(asked[0]).endsWith("/events")) return answer;
  window.waiting += 1;
  turn = turn.then(async () => {
    await answer.catch(() => undefined);
    for (let left = 4; left > 0; left -= 1) await frame();
    window.waiting -= 1;
  });
  return turn.then(() => answer);
};"""
QUIET = "() => window.waiting === 0 && document.querySelector('.skeleton') === null"
MOVED = """() => window.shifts.map((one) => [one.value.toFixed(4), ...one.sources.map(({ node, previousRect, currentRect }) =>
  `${node?.nodeName} ${node?.className ?? ''} ${node?.textContent?.slice(0, 40)}: ` +
  `${previousRect.x},${previousRect.y} to ${currentRect.x},${currentRect.y}`)])"""


@pytest.fixture(scope="module")
def addresses(site):
    """Screens by name: runs of conversations with tags and failures, and a case. `make soak` looks at others too."""
    talks = [site.runs.evaluate(conversations(version, 30), "talks") for version in ("before", "after")]
    case = {"id": "a", "input": "How?", "expected": "Use a *list*:\n\n1. one\n2. two\n"}
    answer = "Use a *list*:\n\n1. one\n3. three\n"
    other = site.runs.evaluate(evaluation([case], [answer], [EXACT]), "lists")
    found = {"run": f"runs/{talks[1]}", "compare": f"compare?runs={talks[0]},{talks[1]}"}
    if site.full:
        fine = site.runs.evaluate(evaluation([{"id": "a", "input": "x"}], ["x"], []), "fine")
        scores = f"compare?runs={talks[0]},{talks[1]}&metric=score"
        found |= {"fine": f"runs/{fine}", "agent": f"runs/{site.run('support')}", "scores": scores}
    return found | {"list": "runs", "case": f"runs/{other}?case=0"}


def after(seconds):
    """A route whose answer comes so late."""

    def late(route):
        time.sleep(seconds)
        route.continue_()

    return late


@pytest.mark.new_tab
@pytest.mark.parametrize("width", [1440, 390])
def test_nothing_moves_while_a_screen_loads(site, page, addresses, width):
    page.set_viewport_size({"width": width, "height": 900})
    page.add_init_script(SHIFTS)
    found = {}
    for name, address in addresses.items():
        if name == "list" and width < 800:
            continue  # its rows have one height
        if name == "case":
            page.route("**/assets/*.js", after(0.02))  # some frames after what asks for it
            page.route("**/assets/*.woff2", after(0.3))  # when the screen is there
        page.goto(f"{site.url}/?{name}#/{address}")  # another document for each
        expect(page.locator("[role=grid]").first).to_be_visible()
        page.wait_for_function(QUIET)
        moved = page.evaluate(MOVED)
        if sum(float(one[0]) for one in moved) >= MOST:
            found[name] = moved
    assert found == {}
