"""
The page in a browser: Chromium over a real server with real runs.

`site` is a server for all of them; `page` is a tab that is signed in. Tests here have the mark `together`, so that one process
has the one browser.
"""

import shutil
from pathlib import Path

import pytest

from support.page_site import BROWSER, Site, open_browser

PAGE = Path(__file__).parents[2] / "src/assay/serve/page/dist/index.html"


def pytest_collection_modifyitems(items):
    here = Path(__file__).parent
    reason = ""
    if shutil.which(BROWSER) is None:
        reason = "there is no chromium"
    elif not PAGE.exists():
        reason = "the page is not built: make web"
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.together("page"))
            if reason:
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="package")
def browser():
    with open_browser() as browser:
        yield browser


@pytest.fixture(scope="package")
def site(zygote, tmp_path_factory):
    """A server with the settings and agents of `support.page_runs`."""
    with Site(zygote, tmp_path_factory.mktemp("site")) as site:
        yield site


@pytest.fixture
def page(browser, site):
    """A tab that is signed in, 1440 wide. A failure of a script fails the test."""
    with site.tab(browser) as page:
        yield page
