"""The site, built strictly and opened from disk in a browser without a network. It needs a package registry."""

import re
import subprocess

import pytest

from support.documents import ROOT
from support.page.page_site import ARGUMENTS, find_browser
from support.site import build

PAGES = (
    "index.html",
    "docs/getting-started.html",
    "docs/python-api.html",
    "docs/rest.html",
    "docs/compare.html",
)


@pytest.fixture(scope="module")
def site():
    done = subprocess.run(["make", "site"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "No issues found" in done.stdout + done.stderr
    return build.SITE


def test_every_page_is_there_and_asks_no_other_host(site):
    for page in build.pages():
        name = page.relative_to(ROOT).with_suffix(".html")
        file = site / (name.with_name("index.html") if page.name == "README.md" else name)
        text = file.read_text("utf-8")
        assert re.findall(r'<(?:script|link|img)[^>]+(?:src|href)="?(https?:[^" >]+)', text) == [], name


def test_the_lists_for_models_have_every_page(site):
    short, full = ((site / name).read_text("utf-8") for name in ("llms.txt", "llms-full.txt"))
    for _, title, name in build.navigation():
        assert f"- [{title}]({name}): " in short
        assert (site / name).read_text("utf-8") == (ROOT / name).read_text("utf-8")
    assert "# Getting started" in full


@pytest.mark.parametrize(("width", "height"), [(1440, 900), (390, 844)])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_open_from_disk_and_the_search_finds(site, width, height, scheme):
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_browser(), args=ARGUMENTS)
        context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme, offline=True
        )
        page = context.new_page()
        wrong: list[str] = []
        page.on(
            "console",
            lambda message: wrong.append(message.text) if message.type in ("error", "warning") else None,
        )
        page.on(
            "request", lambda request: wrong.append(request.url) if request.url.startswith("http") else None
        )
        for name in PAGES:
            page.goto((site / name).as_uri())
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), name
        page.keyboard.press("Control+k")
        page.keyboard.type("confidence interval")
        page.get_by_text("Runs that stop when they have decided").first.wait_for()
        assert wrong == []
        browser.close()
