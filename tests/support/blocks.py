"""
Runs the blocks of a document. What a fence may be, in README.md and docs/:

    LANG FILE      a file of that name in the document's own folder (json, yaml, toml, python, csv)
    sh [exit=N]    run by `sh -e`, which must end so
    text           what the sh block before it prints, times and ids aside; a line `…` is any lines; after a console block, what
                   that would print
    text drawing   a picture
    python         a script of its own
    json yaml toml must be what it says
    console        not run: what is typed to install or to try
"""

import json
import re
import subprocess
import tomllib
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from support.documents import FENCE, page_name

FILES = ("json", "yaml", "toml", "python", "csv")
PARSERS = {"json": json.loads, "yaml": yaml.safe_load, "toml": tomllib.loads}
VOLATILE = [  # what differs from run to run, and how a document shows it
    (re.compile(r"\bin \d[\d,]*\.\d s\b"), "in 0.0 s"),
    (re.compile(r"\b[\d,.]+ ms\b"), "1 ms"),
    (re.compile(r"\b(run|eval|wf|ann)([-_])[0-9a-f]{6,}[0-9a-f-]*"), r"\1\2…"),
    (re.compile(r"\bsha256-[\w+/=]+"), "sha256-…"),
    (re.compile(r"\bkey [a-z2-9]{8} of"), "key … of"),
    (re.compile(r"\bexpires 20\d\d-\d\d-\d\d \d\d:\d\dZ"), "expires …"),
]
VARYING = re.compile(r"[-_]…|\b1 ms\b")  # its width moves the columns
ANY_LINES = "…"


class Block(NamedTuple):
    line: int
    language: str
    words: tuple[str, ...]
    text: str


def blocks_of(page):
    text = page.read_text("utf-8")
    for found in FENCE.finditer(text):
        language, *words = found[2].split() or [""]
        yield Block(text.count("\n", 0, found.start()) + 1, language, tuple(words), found[3])


def run_blocks(page, folder, environ, python):
    """All blocks of a page, in their order, in this folder."""

    def ran(command, text):
        return subprocess.run(
            command, input=text, cwd=folder, env=environ, capture_output=True, text=True, timeout=60, check=False
        )  # fmt: skip

    before, printed = "", None
    for block in blocks_of(page):
        where = f"{page_name(page)}:{block.line}"
        match block.language, block.words:
            case "sh", ([] | [_]) as words:
                code = int(words[0].removeprefix("exit=")) if words else 0
                done = ran(["sh", "-e", "-c", block.text], None)
                assert done.returncode == code, f"{where}: exit {done.returncode}\n{done.stdout}{done.stderr}"
                printed = done
            case "python", []:
                done = ran([python, "-W", "error", "-"], block.text)
                assert done.returncode == 0, f"{where}\n{done.stdout}{done.stderr}"
            case "text", [] if before == "sh":
                out, err = printed.stdout, printed.stderr
                seen = (out, err, out + err, err + out)  # what a terminal shows, or one of the two alone
                assert any(is_shown(block.text, one) for one in seen), f"{where}\n{out}{err}"
            case "text", [] if before == "console":
                pass
            case ("text", ["drawing"]) | ("console", []):
                pass
            case ("json" | "yaml" | "toml") as language, []:
                PARSERS[language](block.text)
            case language, [name] if language in FILES and Path(name).name == name:
                (folder / name).write_text(block.text, "utf-8")
            case kind:
                pytest.fail(f"{where}: a block of the kind {kind} is not run by anything")
        before = block.language


def is_shown(document, printed):
    """Whether a document shows what was printed, times and ids aside. A line `…` stands for any lines."""
    shown, lines = timeless(document), timeless(printed)
    if VARYING.search("\n".join(lines)):
        shown, lines = ([re.sub(r"(?<=\S) +", " ", line) for line in text] for text in (shown, lines))
    pattern = "".join(r"(?:.*\n)*?" if line == ANY_LINES else re.escape(f"{line}\n") for line in shown)
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in lines)) is not None


def timeless(text):
    """The lines without times and ids, and without the spaces that a table ends its lines with."""
    for pattern, shown in VOLATILE:
        text = pattern.sub(shown, text)
    return [line.rstrip() for line in text.rstrip().splitlines()]
