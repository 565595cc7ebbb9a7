"""
The page in a browser: Chromium over a real server with real runs.

`site` is a server and `page` a tab that is signed in, for all of them. Tests here have the mark `together`: the tests of a
group share one process with its browser and server. Two groups leave a third of two cores idle.
"""

from pathlib import Path

import pytest

from support.page.page_site import Site, find_browser, open_browser
from support.page.png import shrink

GROUPS = {  # the other files are one more; each of the three takes about as long
    "page: run": ("test_run_page.py", "test_review_page.py", "test_layout_shift.py"),
    "page: decisions": (
        "test_decisions_page.py",
        "test_docs_page.py",
        "test_oidc_page.py",
        "test_decision_page.py",
    ),
    "page: pictures": ("test_screenshots.py",),  # their list of runs has no others
}
GROUP_OF = {file: group for group, files in GROUPS.items() for file in files}
PAGE = Path(__file__).parents[3] / "src/assay/serve/page/dist/index.html"


def pytest_collection_modifyitems(config, items):
    here = Path(__file__).parent
    if not config.getoption("--screenshots"):
        pictures = [item for item in items if item.path == here / "test_screenshots.py"]
        items[:] = [item for item in items if item not in pictures]
        config.hook.pytest_deselected(items=pictures)
    reason = ""
    if find_browser() is None:
        reason = "there is no chromium"
    elif not PAGE.exists():
        reason = "the page is not built: make web"
    for item in items:
        if here in item.path.parents and "browser" in item.fixturenames:
            item.add_marker(pytest.mark.together(GROUP_OF.get(item.path.name, "page")))
            if reason:
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="package")
def browser():
    with open_browser() as browser:
        yield browser


@pytest.fixture(scope="package")
def site(zygote, tmp_path_factory, series):
    """A server with the settings and agents of `support.page.page_runs`."""
    with Site(zygote, tmp_path_factory.mktemp("site"), full=series(False, True)) as site:
        yield site


@pytest.fixture
def page(request, browser, site):
    """
    A tab that is signed in, 1440 wide. A failure of a script fails the test.

    Tests share it, because a new tab takes most of the time of a short test. One that changes the tab has the mark
    `new_tab`.
    """
    before = request.session.testsfailed
    is_new = request.node.get_closest_marker("new_tab")
    with (
        site.tab(browser)
        if is_new
        else site.shared_tab(browser, lambda: request.session.testsfailed > before)
    ) as page:
        yield page


SHOTS = Path(__file__).parents[3] / "docs" / "screenshots"
HEIGHTS = {"1440": 860, "390": 844}


@pytest.fixture
def screenshot(request, browser, site):
    """
    `screenshot("runs", address)` takes pictures of a screen for the docs, if pytest has the option --screenshots.

    `ready` is a text of the screen to wait for. `act(page)` may open a drawer first. `key`: as in `site.tab`.
    """

    def take(name, address, ready, act=None, variants=("1440-light",), key=None):
        if not request.config.getoption("--screenshots"):
            return
        SHOTS.mkdir(exist_ok=True)
        for variant in variants:
            width, scheme = variant.split("-")
            with site.tab(browser, int(width), HEIGHTS[width], scheme, key) as page:
                page.goto(address)
                page.get_by_text(ready).first.wait_for()
                if act is not None:
                    act(page)
                page.wait_for_function("() => document.querySelector('.skeleton') === null")
                page.wait_for_timeout(500)  # fonts and charts
                (SHOTS / f"{name}-{variant}.png").write_bytes(shrink(page.screenshot(animations="disabled")))

    return take
