"""
The pytest plugin: evaluations as tests. docs/pytest.md is its guide.

pytest imports this module in every session of an environment that has assay, so it has only hooks and imports nothing
else of assay. The work is in the modules beside it. They are imported when a mark, a fixture or a data file needs them.
"""

from collections.abc import Callable, Generator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest

from assay.pytest_plugin.outcome import CASE, CLAIMS, RECORD, CaseNotPassed

SUITES = ("suite.yaml", ".suite.yaml")
MARK = (
    "assay(cases=, test_cases=, checks=, samples=1, min_pass_rate=1.0, decide_by='estimate', pass_mode='per_test_case', "
    "check_mode='all', suite=, judge=): "
    "the function is an agent; it is called for each case, and checks score what it returns"
)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("assay")
    group.addoption(
        "--assay-agent", metavar="AGENT", help="the agent that answers cases and suites in data files"
    )
    group.addoption("--assay-no-save", action="store_true", help="do not store results as runs of assay")
    parser.addini("assay_agent", "the agent that answers cases and suites in data files", default="")
    parser.addini("assay_files", "collect cases.jsonl and suite.yaml beside tests", type="bool", default=True)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", MARK)
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Reports(config), "assay-reports")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if metafunc.definition.get_closest_marker("assay") is not None:
        from assay.pytest_plugin.marks import parametrize  # deferred import: most tests have no mark

        parametrize(metafunc)


def pytest_itemcollected(item: pytest.Item) -> None:
    """A mark that could have no effect is refused: unittest's methods have no parameters."""
    if any(mark.name == "assay" for mark in item.own_markers) and not hasattr(item, "callspec"):
        raise pytest.UsageError(
            f"{item.nodeid}: @pytest.mark.assay needs a function, or a method of a class that is not a "
            "unittest.TestCase"
        )


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    name = file_path.name
    if name != "cases.jsonl" and not (name == SUITES[0] or name.endswith(SUITES[1])):
        return None
    if not parent.config.getini("assay_files") or not _is_beside_tests(file_path, parent.config):
        return None
    from assay.pytest_plugin.data_files import collector_for  # deferred import

    return collector_for(file_path, parent)


def _is_beside_tests(path: Path, config: pytest.Config) -> bool:
    patterns: list[str] = ["conftest.py", *config.getini("python_files")]
    return any(fnmatch(file.name, pattern) for file in path.parent.glob("*.py") for pattern in patterns)


@pytest.hookimpl(tryfirst=True)  # before -k and --lf count them
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A data file that a mark names has no items of its own: its function is the agent."""
    if claims := config.stash.get(CLAIMS, None):
        items[:] = [item for item in items if isinstance(item, pytest.Function) or item.path not in claims]


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    callspec = getattr(pyfuncitem, "callspec", None)
    case = None if callspec is None else callspec.params.get(CASE)
    if case is None:
        return None
    case.run(pyfuncitem)
    return True


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if call.when == "call":
        if record := item.stash.get(RECORD, None):
            report.assay = record  # pyright: ignore[reportAttributeAccessIssue]  # a text: xdist sends it to the controller
        error = call.excinfo.value if call.excinfo else None
        if isinstance(error, CaseNotPassed) and report.outcome == "failed":
            report.longrepr = str(error)
            if not error.measured:
                report.when = "setup"  # pytest counts a failure outside of the call as an error
    return report


@pytest.fixture
def evaluate(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Evaluate cases inside a test: `evaluate(cases, outputs, checks)`. It fails the test below `min_pass_rate`."""
    from assay.pytest_plugin.fixture import Evaluator  # deferred import: most tests do not use it

    return Evaluator(request.node)


class Reports:
    """
    Collects what the items of a session measured, from this process or from the workers of xdist, and stores it at the
    end.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._records: list[str] = []
        self._lines: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if record := getattr(report, "assay", None):
            self._records.append(record)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if not self._records:
            return
        from assay.pytest_plugin.save import save_runs  # deferred import: most sessions have no results

        summary = save_runs(self._records, save=not self._config.getoption("--assay-no-save"))
        self._lines = summary.lines
        if summary.failed and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if self._lines:
            terminalreporter.section("assay")
            for line in self._lines:
                terminalreporter.write_line(line)
