"""Sections and tables of the documents, for tests that compare them with the code."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
FENCE = re.compile(r"^(`{3,})([^\n`]*)\n(.*?)^\1[ \t]*$", re.MULTILINE | re.DOTALL)


def page_name(page):
    return str(page.relative_to(ROOT))


def section(page, heading):
    """From a heading to the next of its level or above."""
    level = heading.split(" ")[0]
    text = page.read_text("utf-8")
    found = re.search(
        rf"^{re.escape(heading)}[ \t]*$(.*?)(?=^#{{1,{len(level)}}} |\Z)", text, re.MULTILINE | re.DOTALL
    )
    assert found, f"{page_name(page)} has no section {heading!r}"
    return found[1]


def table(text, *header):
    """The rows of the table with this header, as lists of cells."""
    lines = iter(FENCE.sub("", text).splitlines())
    for line in lines:
        if cells(line) == list(header):
            next(lines)
            rows: list[list[str]] = []
            for row in lines:
                if not row.startswith("|"):
                    break
                rows.append(cells(row))
            return rows
    pytest.fail(f"no table with the header {header}")


def cells(line):
    return [cell.strip().replace(r"\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
