"""
Writes the Python code of the documents into a folder, for pyright and mypy: `python tests/support/code_of_documents.py FOLDER`.

A folder for each page, with its files under their names and its scripts by their lines. All code of README.md is strict. Of
the other pages those with the library are there, and their functions may have no annotations. The packages that
docs/frameworks.md shows are not installed.
"""

import re
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.blocks import blocks_of
from support.documents import DOCS, ROOT

USES_THE_LIBRARY = re.compile(r"^(import|from) assay\b", re.MULTILINE)


def code_of(page):
    """Names and texts."""
    blocks = [block for block in blocks_of(page) if block.language == "python"]
    if page.name == "frameworks.md" or not any(USES_THE_LIBRARY.search(block.text) for block in blocks):
        return
    for block in blocks:
        name = block.words[0] if block.words else f"line_{block.line}.py"
        yield name, f"# pyright: {'strict' if page.parent == ROOT else 'standard'}\n{block.text}"


def write(folder):
    shutil.rmtree(folder, ignore_errors=True)
    for page in [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]:
        for name, text in code_of(page):
            file = folder / page.relative_to(ROOT).with_suffix("") / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, "utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
