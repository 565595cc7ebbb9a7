"""A line of the source and of the documents has at most 120 characters, unless it holds one row of a table."""

import ast
import re

import pytest

from support.documents import DOCS, FENCE, ROOT, page_name

LIMIT = 120
DIRECTIVE = re.compile(r"  # (?:noqa|pyright|fmt|type)\b.*$")  # it must be on the line that it is about
SOURCE = [path for path in sorted((ROOT / "src").rglob("*.py")) if "_pb2" not in path.name]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md")), *sorted((ROOT / "examples").rglob("*.md"))]


def table_lines(text):
    """The lines of tables: constants of a module, such as lists of patterns. Prose in several lines is not one."""
    lines = set[int]()
    for statement in ast.parse(text).body:
        if isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value is not None:
            lines.update(range(statement.lineno, (statement.end_lineno or 0) + 1))
            for part in ast.walk(statement.value):
                if isinstance(part, ast.Constant) and isinstance(part.value, str) and "\n" in part.value:
                    is_pattern = (ast.get_source_segment(text, part) or "")[:1] in ("r", "R")
                    end = part.lineno if is_pattern else (part.end_lineno or 0) + 1
                    lines.difference_update(range(part.lineno, end))
    return lines


def long_lines(text, is_table):
    return [
        (number, line[:80])
        for number, line in enumerate(text.splitlines(), 1)
        if len(DIRECTIVE.sub("", line)) > LIMIT and not is_table(number, line)
    ]


def test_lines_of_the_source_are_short():
    found = {}
    for path in SOURCE:
        text = path.read_text("utf-8")
        if any(len(line) > LIMIT for line in text.splitlines()):
            tables = table_lines(text)
            if lines := long_lines(text, lambda number, _, tables=tables: number in tables):
                found[page_name(path)] = lines
    assert found == {}


def test_lines_of_a_document_are_short():
    """Blocks of code are as they are; a row of a table is one line."""
    found = {}
    for page in PAGES:
        text = FENCE.sub(lambda block: "\n" * block[0].count("\n"), page.read_text("utf-8"))
        if lines := long_lines(text, lambda _, line: line.lstrip().startswith("|")):
            found[page_name(page)] = lines
    assert found == {}


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("WORDS = [\n  " + "'a', " * 40 + "\n]\n", 0),
        ("WORDS = '''\n" + "a word " * 20 + "\n'''\n", 1),
        ("x = re.compile(\n  r'''\n" + "|a|b" * 40 + "''')\n", 0),
        ("def f():\n    return '" + "a word " * 20 + "'\n", 1),
        ("def f():\n    '''" + "a word " * 20 + "'''\n", 1),
        ("def f():\n    return 1  # noqa: " + "S310, " * 30 + "\n", 0),
    ],
)
def test_lines_of_a_table_are_found(source, lines):
    assert len(long_lines(source, lambda number, _: number in table_lines(source))) == lines
