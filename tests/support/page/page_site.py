"""A server for tests of the page, and tabs of a browser that are signed in."""

import contextlib
import json
import os
import shutil
from pathlib import Path

import httpx

from support.models.provider_server import ProviderServer
from support.page.page_runs import Runs, judge_answer, make_run, write_folder
from support.waiting import PATIENCE

BROWSERS = ("chromium-headless-shell", "chromium")  # the first has no windows, and takes half of the CPU time
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--enable-precise-memory-info",
    "--renderer-process-limit=1",  # a new process for each tab takes most of the time of a short test
    "--disable-features=IsolateOrigins,site-per-process,Translate,MediaRouter,OptimizationHints",
    "--disable-extensions",
    "--in-process-gpu",
    "--js-flags=--no-opt --no-maglev",  # no script runs long enough to pay for its second and third compilation
)
# The contexts of the browser, for tabs over a server and for files without one. A tab takes the process of its context, and its scripts.
SERVED, FILES = 0, 1
AXE = Path(__file__).parents[3] / "web/node_modules/axe-core/axe.min.js"
SETTLED = """async () => {
  const frame = () => new Promise(requestAnimationFrame);
  await frame();
  for (let left = 20; left > 0 && (await frame(), document.getAnimations().length > 0); left -= 1) {
    document.getAnimations().forEach((one) => one.finish());
  }
}"""
FOUND = """async ([within, only]) => (await axe.run({include: [within]},
  {runOnly: only, resultTypes: ['violations'], preload: false})).violations
  .map((one) => [one.id, one.help, one.nodes.slice(0, 3).map((node) => node.html.slice(0, 200) + ' ' + node.failureSummary)])"""


def find_browser():
    """The path of a browser, or None."""
    return next(filter(None, map(shutil.which, BROWSERS)), None)


def launched(launch, failure, tries=3):
    """What `launch` returns. Chromium itself may crash as it starts on a busy machine, and its many tests share one."""
    for _ in range(tries - 1):
        with contextlib.suppress(failure):
            return launch()
    return launch()


@contextlib.contextmanager
def open_browser():
    from playwright.sync_api import (  # deferred import: only these tests need it
        Error,
        expect,
        sync_playwright,
    )

    expect.set_options(timeout=1_000 * PATIENCE)
    with sync_playwright() as playwright, started(playwright.chromium, Error) as browser:
        yield browser


@contextlib.contextmanager
def started(chromium, failure):
    """A browser of this kind, with its contexts. A second one has processes of its own."""
    browser = launched(lambda: chromium.launch(executable_path=find_browser(), args=ARGUMENTS), failure)
    for offline in (False, True):  # `SERVED` and `FILES`
        context = browser.new_context(reduced_motion="reduce", offline=offline)
        context.set_default_timeout(1_000 * PATIENCE)
        context.new_page()  # it stays, and with it the process
    yield browser
    browser.close()


def tab_to(page, found, most=80):
    """Press Tab until the element has the focus, as a person without a mouse does."""
    for _ in range(most):
        if found.evaluate("element => element === document.activeElement"):
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"Tab does not reach {found}")


class Site:
    """`with Site(zygote, folder) as site:` a real server. Its runs are made when a test first asks for them."""

    def __init__(self, zygote, folder, full=False):
        """`full`: checks of accessibility look at every screen in both colours, which takes a third of the time of these tests."""
        self._zygote, self.folder, self.full = zygote, folder, full
        self._made = {}

    def __enter__(self):
        self._exits = contextlib.ExitStack()
        provider = self._exits.enter_context(ProviderServer(judge_answer))
        write_folder(self.folder, provider.base_url)
        self.start("0")
        self.key = (self.folder / ".assay/local-key").read_text().strip()
        self.client = self._exits.enter_context(
            httpx.Client(base_url=self.url, headers={"X-API-Key": self.key}, timeout=PATIENCE)
        )
        self.runs = Runs(self.client)
        return self

    def __exit__(self, *_):
        self.process.close()
        self._exits.close()

    def start(self, port):
        """Start the server; after a restart on the same port, the page reconnects."""
        environ = {**os.environ, "PYTHONUNBUFFERED": "1", "ASSAY_WORKERS_LEASE": "3"}
        self.process = self._zygote.start(
            "serve", "--port", port, "--grpc-port", "0", folder=self.folder, pipe=True, environ=environ
        )
        line = self.process.stdout.readline()
        assert "assay serves http://127.0.0.1:" in line, self.process.communicate()
        self.url = line.split()[2]
        self.grpc = self.process.stdout.readline().split("://")[1].split()[0]

    def start_process(self, target, *arguments):
        """A process of its own in the folder of the server. A session of pytest in it has no plugin but those that it names."""
        environ = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        return self._zygote.start(*arguments, folder=self.folder, target=target, environ=environ)

    def restart(self, while_down):
        """Kill the server, look at the page, and start it on the same port. Its runs go on when their lease has ended."""
        port = self.url.rpartition(":")[2]
        self.process.close()
        while_down()
        self.start(port)

    def run(self, name):
        """The run of a kind of `support.page.page_runs`; any other text is the id of a run."""
        if name.startswith(("run-", "eval_")):
            return name
        if name not in self._made:
            self._made[name] = make_run(self.runs, name)
        return self._made[name]

    def address(self, name):
        """The address of a run in the page."""
        return f"{self.url}/#/runs/{self.run(name)}"

    def new_key(self, command, tenant, *scopes):
        """An API key of a tenant, made by the command."""
        options = [part for scope in scopes for part in ("--scope", scope)]
        done = command("admin", "key", "create", "--tenant", tenant, *options, folder=self.folder)
        assert done.code == 0, done.err
        return done.out.strip()

    @contextlib.contextmanager
    def tab(self, browser, width=1440, height=900, scheme="light", key=None):
        """A tab that is signed in with the local key, or another; with "" it is not signed in."""
        key = self.key if key is None else key
        page, failures = self._open(browser, key, width, height, scheme)
        yield page
        page.close()
        assert failures == []

    @contextlib.contextmanager
    def shared_tab(self, browser, has_failed):
        """
        The tab of all tests that leave it as it was. It has loaded the page: another fragment is another screen of it.

        After a test for which `has_failed()`, the next one gets a new tab.
        """
        if not hasattr(self, "_shared"):
            self._shared = self._open(browser, self.key)
        page, failures = self._shared
        yield page
        if has_failed():
            del self._shared
            page.close()
        else:
            page.keyboard.press("Escape")  # a dialog would stay
            page.goto(f"{self.url}/#/nowhere")  # so that the next test opens its screen anew
            from playwright.sync_api import expect  # deferred import: only these tests need it

            expect(page.locator("[data-status], [role=grid], [role=dialog]")).to_have_count(0)
            failed, failures[:] = list(failures), []
            assert failed == []

    def _open(self, browser, key, width=1440, height=900, scheme="light"):
        """A new tab, and a list of what fails in it. A key is in the storage of its tab, and not of the others."""
        page, failures = browser.contexts[SERVED].new_page(), []
        if key:  # once in a tab: a test may sign out
            stored = (
                f"sessionStorage.setItem('assay.key', {json.dumps(key)}); sessionStorage.setItem('test', 'x')"
            )
            page.add_init_script(f"if (!sessionStorage.getItem('test')) {{ {stored} }}")
        page.set_viewport_size({"width": width, "height": height})
        page.emulate_media(color_scheme=scheme)
        page.on(
            "request", lambda request: failures.append(request.url) if self._outside(request.url) else None
        )
        page.on("pageerror", lambda error: failures.append(str(error)))
        page.on(
            "console", lambda line: failures.append(line.text) if "Content Security" in line.text else None
        )
        return page, failures

    def _outside(self, url):
        """Whether a request leaves this server. The page never asks another one."""
        return not url.startswith((f"{self.url}/", "data:", f"blob:{self.url}/"))

    def check_accessibility(self, page, within="html", both_colours=False):
        """axe finds no violation of WCAG A and AA in what the page shows. In the other colours it finds none of contrast."""
        if not page.evaluate("'axe' in window"):
            page.evaluate(AXE.read_text())
        self._check(page, within, "wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa")
        if not (both_colours or self.full):
            return
        dark = page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches")
        page.emulate_media(color_scheme="light" if dark else "dark")
        self._check(page, within, "color-contrast")
        page.emulate_media(color_scheme="dark" if dark else "light")

    def _check(self, page, within, *rules):
        page.evaluate(SETTLED)
        found = page.evaluate(FOUND, [within, rules])
        assert found == [], json.dumps(found, indent=1)
