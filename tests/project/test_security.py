"""docs/security.md: every promise names the test that fails without it, and that test is there."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from support.documents import cells

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "security.md"
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def promises():
    """The rows of every table of promises, by their heading."""
    heading, inside = "", False
    for line in PAGE.read_text("utf-8").splitlines():
        if line.startswith("## "):
            heading = line
        if not line.startswith("|"):
            inside = False
        elif cells(line) == ["promise", "test"]:
            inside = True
        elif inside and not line.startswith("|---"):
            yield heading, *cells(line)


ROWS = list(promises())


@cache
def named_in(path):
    tree = ast.parse(path.read_text("utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_there_are_promises():
    assert len(ROWS) >= 15


@pytest.mark.parametrize(
    ("promise", "tests"), [row[1:] for row in ROWS], ids=[f"{row[0][3:]}-{at}" for at, row in enumerate(ROWS)]
)
def test_a_promise_names_its_test(promise, tests):
    named = NAMED.findall(tests)
    assert promise
    assert named, f"no test for: {promise}"
    assert not NAMED.sub("", tests).replace(",", "").strip(), "only tests stand there"
    for file, name in named:
        assert name.startswith("test_")
        assert name in named_in(ROOT / file), f"{file} has no {name}"
