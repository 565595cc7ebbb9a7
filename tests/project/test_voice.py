"""One voice of refusals: what was wanted, what came, where, what is possible. CONTRIBUTING.md has the rule."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from support.source_code import TOGETHER, modules

ROOT = Path(__file__).parents[2]
EMPTY = re.compile(
    r"\b(cannot|can't|illegal|unable|failed to|please|oops|sorry)\b|\binvalid\b(?! character)", re.IGNORECASE
)
GONE = re.compile(
    r"assay (?:key|audit|gc|delete|rekey|promote|rollback|deployments|suite init)\b|serve --workers"
)
SHAPE = re.compile(
    r"\b(?:expected|got)\b"  # a value that is not right
    r"|\b(?:there (?:is|are|was)|has|have|is|takes?|of) (?:no|nothing|none)\b|\bno such\b|\bno [\w ']{1,40}(?:has|is|are)\b"
    r"|\bneeds?\b|\brequires?\b"  # what is missing
    r"|\bnot (?:JSON|UTF-8|YAML|TOML|CSV|base64|a JSON Schema|a regular expression)\b"  # a text in another format
    r"|\btwice\b|\balready\b|\bmore (?:\w+ )?than\b|\blimit\b"  # what is too much
)


def steps():
    """The refusals of the golden session: (the command, its lines on standard error)."""
    text = (ROOT / "tests/golden/refusals.txt").read_text("utf-8")
    for block in text.split("\n$ ")[1:]:
        command, *lines = block.splitlines()
        errors = "\n".join(line[2:] for line in lines if line.startswith("! "))
        yield command, re.sub(r"\n  (?! )", " ", errors)  # a later line of a text


@pytest.mark.parametrize(
    ("command", "errors"), [pytest.param(*step, id=step[0]) for step in steps() if step[0] != "assay"]
)
def test_a_refusal_of_the_command_says_what_was_wanted(command, errors):
    lines = [line.removeprefix("assay: ") for line in errors.splitlines() if line.startswith("assay: ")]
    assert lines
    assert [line for line in lines if EMPTY.search(line) or GONE.search(line)] == []
    assert SHAPE.search(" ".join(lines)), lines


@cache
def texts():
    """The texts of all refusals in the source: (file:line, text). One that only passes a text on has none of its own."""
    return list(_texts())


def _texts():
    for file, module in modules().items():
        for call in module.nodes(ast.Call):
            name = getattr(call.func, "id", "")
            if name in ("UsageError", "Problem"):
                message = call.args[0 if name == "UsageError" else -1]
                parts = [part for part in ast.walk(message) if isinstance(part, ast.Constant)]
                text = " ".join(part.value for part in parts if isinstance(part.value, str))
                if len(re.findall(r"\w+", text)) > 4:
                    yield f"{file.relative_to(ROOT)}:{call.lineno}", text


@TOGETHER
def test_every_refusal_has_one_of_the_shapes():
    assert len(texts()) > 400
    assert [f"{place}: {text}" for place, text in texts() if not SHAPE.search(text)] == []


@TOGETHER
@pytest.mark.parametrize("words", [EMPTY, GONE], ids=["words that say nothing", "verbs that are gone"])
def test_no_refusal_has(words):
    """A word such as `invalid` says neither what was wanted nor what came."""
    assert [f"{place}: {text}" for place, text in texts() if words.search(text)] == []
