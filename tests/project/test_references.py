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


SECTION = re.compile(r"§(\d+(?:\.\d+)*)")
SOURCE = re.compile(r"(RFC \d+|openwop-contract)`? (?:[`(]*§[\w.]+(?:,| and|;|–| to)? ?)*[`(]*\Z")


def sections():
    """Every section that a text names, with the document that it is a section of, or None."""
    contract = DOCS / "openwop-contract.md"
    for path in TEXTS:
        text = re.sub(r"[\s#]+", " ", path.read_text("utf-8")) if path != contract else ""
        for found in SECTION.finditer(text):
            source = SOURCE.search(text, max(0, found.start() - 100), found.start())
            yield page_name(path), found[1], source and source[1]


def test_every_section_that_is_named_exists():
    """`openwop-contract §3.2` is a heading of docs/openwop-contract.md. Other sections name their RFC."""
    contract = (DOCS / "openwop-contract.md").read_text("utf-8")
    headings = set(re.findall(r"^##+ (\d+(?:\.\d+)*)\.? ", contract, re.MULTILINE))
    named = list(sections())
    assert sum(source == "openwop-contract" for _, _, source in named) > 150
    assert [one for one in named if one[2] is None] == []
    assert [one for one in named if one[2] == "openwop-contract" and one[1] not in headings] == []


def test_the_texts_that_are_read_are_there():
    assert {Path(page_name(path)).parts[0] for path in TEXTS} >= {"README.md", "src", "tests", "docs", "web"}
