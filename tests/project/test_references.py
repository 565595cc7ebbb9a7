"""References from code, tests and documents lead to a text of this repository."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from support.documents import DOCS, ROOT, page_name, table
from support.source_code import TOGETHER, modules

FOLDERS = ("src", "tests", "docs", "bench", "examples", "web/src", "proto")
ENDINGS = {".py", ".md", ".ts", ".tsx", ".css", ".proto", ".toml", ".yaml"}
TEXTS = [
    *sorted(ROOT.glob("*.md")),
    *(path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*")) if path.suffix in ENDINGS),
]


@cache
def texts():
    return {path: path.read_text("utf-8") for path in TEXTS}


def references(pattern):
    """Every reference, with the places that have it."""
    places: dict[str, list[str]] = {}
    for path, whole in texts().items():
        if not re.search(pattern, whole):
            continue
        for line, text in enumerate(whole.splitlines(), 1):
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
SOURCE = re.compile(r"(RFC \d+|FEP 0\.0\.1|openwop-contract)`? (?:[`(]*§[\w.]+(?:,| and|;|–| to)? ?)*[`(]*\Z")


def sections():
    """Every section that a text names, with the document that it is a section of, or None."""
    contract = DOCS / "openwop-contract.md"
    for path in TEXTS:
        text = re.sub(r"[\s#]+", " ", path.read_text("utf-8")) if path != contract else ""
        for found in SECTION.finditer(text):
            source = SOURCE.search(text, max(0, found.start() - 100), found.start())
            yield page_name(path), found[1], source and source[1]


def test_every_section_that_is_named_exists():
    """`openwop-contract §3.2` is a heading of docs/openwop-contract.md. Other sections name their RFC, or FEP."""
    contract = (DOCS / "openwop-contract.md").read_text("utf-8")
    headings = set(re.findall(r"^##+ (\d+(?:\.\d+)*)\.? ", contract, re.MULTILINE))
    named = list(sections())
    assert sum(source == "openwop-contract" for _, _, source in named) > 150
    assert [one for one in named if one[2] is None] == []
    assert [one for one in named if one[2] == "openwop-contract" and one[1] not in headings] == []


PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.glob("*.md"))]
CODE = ROOT / "src" / "assay"
OWN = {"word_limit.py"}  # files that a page makes


def files_named(page):
    """The files of this repository that a page names: from its root, or inside src/assay."""
    text = page.read_text("utf-8")
    written = set(re.findall(r"^```\w+ (\S+)$", text, re.MULTILINE)) | OWN
    named = re.findall(r"(?<![\w./<-])((?:[\w-]+/)+[\w-]+\.(?:py|md|tsx?))\b", text)
    return {name for name in named if name not in written and name.split("/")[0] in FOLDERS_OF_CODE}


FOLDERS_OF_CODE = {path.name for root in (ROOT, CODE) for path in root.iterdir() if path.is_dir()}


def test_every_file_that_a_page_names_exists():
    lost = [
        f"{page_name(page)}: {name}"
        for page in PAGES
        for name in files_named(page)
        if not any((place / name).exists() for place in (ROOT, CODE, page.parent))
    ]
    assert lost == []


def test_contributing_names_what_each_file_defines():
    """ "`HEAD` in `backends/stores/records/sqlite_schema.py`" is a definition there."""
    text = " ".join((ROOT / "CONTRIBUTING.md").read_text("utf-8").split())
    named = re.findall(r"`(\w+)` (?:in|of) `([\w/]+\.py)`", text)
    assert len(named) > 5
    for name, file in named:
        path = next(place for place in (ROOT / file, CODE / file) if place.exists())
        pattern = rf"^\s*(?:(?:async )?def |class )?{name}\b\s*(?:[:=(]|$)"
        assert re.search(pattern, path.read_text("utf-8"), re.MULTILINE), (name, file)


def names_in(module):
    """The names and the words of texts in a module, without those of its docstrings."""
    texts = [node for node in module.nodes(ast.Expr) if isinstance(getattr(node.value, "value", None), str)]
    lines = {line for node in texts for line in range(node.lineno, (node.end_lineno or 0) + 1)}
    rest = [line for at, line in enumerate(module.text.splitlines(), 1) if at not in lines]
    return set(re.findall(r"\w+", "\n".join(rest)))


SUBJECT = re.compile(
    r"(?:^|[.;:] )`([a-z][a-z0-9_]*)` (?:is|are|has|gets|gives|returns|writes|names|says|takes)\b"
)


@TOGETHER
def test_a_docstring_speaks_of_names_that_its_module_has():
    """A sentence about `name` is about a parameter or a member, so that a rename must not leave it behind."""
    found: list[tuple[str, str]] = []
    for path, module in modules().items():
        nodes = module.nodes(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        subjects = {
            name
            for node in nodes
            for name in SUBJECT.findall(" ".join((ast.get_docstring(node) or "").split()))
        }
        if subjects:
            found += [(page_name(path), name) for name in subjects - names_in(module)]
    assert found == []


def test_the_texts_that_are_read_are_there():
    assert {Path(page_name(path)).parts[0] for path in TEXTS} >= {"README.md", "src", "tests", "docs", "web"}
