"""References from code, tests and documents lead to a text of this repository."""

import re
from pathlib import Path

import pytest

from support.documents import DOCS, ROOT, page_name, table

FOLDERS = ("src", "tests", "docs", "bench", "examples", "web/src", "proto")
ENDINGS = {".py", ".md", ".ts", ".tsx", ".css", ".proto", ".toml", ".yaml"}
TEXTS = [
    *sorted(ROOT.glob("*.md")),
    *(path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*")) if path.suffix in ENDINGS),
]


def references(pattern):
    """Every reference, with the places that have it."""
    places: dict[str, list[str]] = {}
    for path in TEXTS:
        for line, text in enumerate(path.read_text("utf-8").splitlines(), 1):
            for reference in re.findall(pattern, text):
                places.setdefault(reference, []).append(f"{page_name(path)}:{line}")
    return places


def named_decisions():
    rows = table((DOCS / "fep-decisions.md").read_text("utf-8"), "#", "question", "decision", "test")
    return {row[0] for row in rows} | {f"ADR-{page.name[:4]}" for page in (DOCS / "decisions").glob("0*.md")}


def test_every_decision_that_is_named_exists():
    named = references(r"\b(?:FEP-\d+|ADR-\d+)\b")
    assert len(named) > 100
    assert {name: places for name, places in named.items() if name not in named_decisions()} == {}


@pytest.mark.parametrize(
    "form", [r"(?i)\bdecisions? \d+", r"\bfep-decisions \d+", r"docs/decisions/\d{4}(?!-)", r"\[\d{4}\]\("]
)
def test_a_decision_is_named_as_fep_or_adr(form):
    """FEP-40 and ADR-0040 are different decisions, so "40" alone is not enough."""
    assert references(form) == {}


def test_the_texts_that_are_read_are_there():
    assert {Path(page_name(path)).parts[0] for path in TEXTS} >= {"README.md", "src", "tests", "docs", "web"}
