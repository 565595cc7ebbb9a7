"""The runner of the tests, `pytest --processes`: what it does with a test that fails once, and with CPU time."""

import gc
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.lazy_module import lazy_module
from support.page.page_site import launched
from support.runner import cpu, processes

TESTS = Path(__file__).parents[1]
CONFTEST = """
import pathlib
from support.runner import cpu, processes

cpu.BUDGET = 0.2

class Zygote:
    slots = str(pathlib.Path(__file__).with_name("slots"))
    def __init__(self): pathlib.Path(self.slots).write_bytes(bytes(8 * cpu.SLOTS))
    def ready(self): return self
    def close(self): pass

def pytest_addoption(parser): processes.add_options(parser)
def pytest_configure(config): processes.configure(config, Zygote)
"""
UNSTEADY = """
import os, pathlib, pytest

def is_first(name):
    try:
        pathlib.Path(name).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True

@pytest.fixture
def ending():
    yield
    assert not is_first("ending"), "the end"

def test_passes(): pass
def test_is_skipped(): pytest.skip("always")
def test_fails_once(): assert not is_first("fails"), "the first time"
def test_kills_its_process_once(): is_first("kills") and os._exit(3)
def test_interrupts_its_process_once():
    if is_first("interrupts"): raise KeyboardInterrupt("by itself")
def test_ends_badly_once(ending): pass
"""
BAD = "def test_fails_always(): assert 0, 'every time'\n"
DEAR = """
import time

def test_is_dear():
    start = time.process_time()
    while time.process_time() < start + 0.5: pass
"""
ONCE = (
    "test_fails_once",
    "test_kills_its_process_once",
    "test_interrupts_its_process_once",
    "test_ends_badly_once",
)


@pytest.fixture
def run(tmp_path):
    (tmp_path / "conftest.py").write_text(CONFTEST)

    def run(text, *options):
        """Its exit code and what it wrote."""
        (tmp_path / "test_it.py").write_text(text)
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-c",
            os.devnull,
            "--rootdir",
            tmp_path,
            "-p",
            "no:cacheprovider",
        ]
        environ = {**os.environ, "PYTHONPATH": str(TESTS), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        done = subprocess.run(
            [*command, "--processes", "1", *options, "test_it.py"],
            cwd=tmp_path, env=environ, capture_output=True, text=True, check=False,
        )  # fmt: skip
        return done.returncode, done.stdout + done.stderr

    return run


def unsteady(text):
    return set(
        re.findall(r"unsteady: test_it.py::(\w+) failed, and passed when it was run again alone", text)
    )


def test_a_test_that_passes_alone_is_unsteady_and_named_with_its_failure(run):
    code, output = run(UNSTEADY)
    assert code == 0, output
    assert unsteady(output) == set(ONCE)
    for reason in (
        "the first time",
        "process 0 ended in the middle of this test with the code 3",
        "the end",
        "KeyboardInterrupt: by itself",
    ):
        assert reason in output
    assert re.search(r"2 passed, 1 skipped, 4 unsteady", output), output


def test_an_unsteady_test_fails_a_run_that_must_be_steady(run):
    code, output = run(UNSTEADY, "--steady")
    assert code == 1, output
    assert unsteady(output) == set(ONCE)
    assert re.search(r"3 failed, 2 passed, 1 skipped, 1 error", output), output


def test_a_test_that_fails_again_has_failed(run):
    code, output = run(UNSTEADY + BAD)
    assert code == 1, output
    assert unsteady(output) == set(ONCE)
    assert re.search(r"1 failed, 2 passed, 1 skipped, 4 unsteady", output), output


LEAVES = """
import pytest
from support.runner import cpu

class Process:
    returncode, is_left = 0, False
    def __init__(self): cpu.forked.add(self)

@pytest.fixture(scope="module")
def shared(): return Process()

left = []

def test_fails_with_a_process(shared):
    left.append(Process())
    assert 0

def test_its_process_is_left_and_no_other(shared): assert (left[0].is_left, shared.is_left) == (True, False)
"""


def test_a_test_that_fails_leaves_its_processes_and_no_others(run):
    code, output = run(LEAVES)
    assert code == 1, output
    assert "1 failed, 1 passed" in output


def test_a_process_that_was_left_ends_with_the_last_reference_to_it(zygote, tmp_path):
    process = zygote.start("serve", "--port", "0", folder=tmp_path, pipe=True)
    assert "assay serves" in process.stdout.readline()
    process.is_left, pid = True, process.pid
    del process
    gc.collect()
    assert not Path(f"/proc/{pid}").exists()


@pytest.mark.parametrize(
    ("places", "before", "whole", "kept"),
    [
        ("", None, 40, 0),
        ("a", "a", 40, 1),
        ("a", "b", 40, 0),
        ("aabbb", "a", 40, 2),
        ("aaaaab", "a", 40, 5),
        ("abbbbbbb", "a", 40, 1),
        ("aabbccdd", "a", 40, 4),
        ("a" * 40, "a", 40, 40),
        ("a" * 41, "a", 40, 20),
        ("a" * 40, "b", 40, 0),
        ("aaaa", "a", 0, 2),
        ("a", "a", 0, 0),
    ],
)
def test_a_rest_is_divided_between_files_near_its_middle(places, before, whole, kept):
    assert processes.cut(list(places), before, whole) == kept


def test_each_process_gets_whole_files():
    items = [Item(file) for file in "aaaabbbccccccccddde"]
    parts = processes.shares(items, 4)
    assert [{items[index].path for (index,) in part} for part in parts] == [{"a"}, {"b"}, {"c"}, {"d", "e"}]
    assert sorted(index for part in parts for (index,) in part) == list(range(len(items)))


class Item:
    def __init__(self, path):
        self.path = path

    def get_closest_marker(self, name):
        return None


@pytest.mark.parametrize("failures", [0, 2, 3])
def test_a_browser_is_launched_three_times_at_most(failures):
    answers = iter([*[OSError("it crashed")] * failures, "browser"])

    def launch():
        answer = next(answers)
        if isinstance(answer, OSError):
            raise answer
        return answer

    if failures < 3:
        assert launched(launch, OSError) == "browser"
    else:
        with pytest.raises(OSError, match="it crashed"):
            launched(launch, OSError)
        assert list(answers) == ["browser"]


def test_a_file_above_its_budget_is_named_and_does_not_fail(run):
    code, output = run(DEAR, "--cpu", "1")
    assert code == 0, output
    assert re.search(r"above its budget: \d+\.\d s of 0.2 s in test_it.py", output), output
    assert re.findall(r"^\d+\.\d\d s in (test_it.py(?:$|::))", output, re.MULTILINE) == [
        "test_it.py",
        "test_it.py::",
    ]


def test_a_lazy_module_is_not_loaded_by_a_look_for_fixtures():
    lazy = lazy_module("no_such_module")
    assert not hasattr(lazy, "__wrapped__")
    with pytest.raises(ModuleNotFoundError):
        _ = lazy.anything


def test_every_file_with_a_budget_exists():
    assert [name for name in cpu.BUDGETS if not (TESTS.parent / name).exists()] == []


def test_only_the_fixture_series_reads_the_soak_option():
    """`--soak` runs the tests that have the fixture; one that read the option itself would never run in full."""
    readers = {
        str(path.relative_to(TESTS))
        for path in TESTS.rglob("*.py")
        if 'getoption("--soak")' in path.read_text()
    }
    assert readers == {"conftest.py", "project/test_runner.py"}
