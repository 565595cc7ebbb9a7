"""
The types of the library hold in a user's code with every name, and in the code of the documents.

`make test` checks that code with pyright, strict, beside `src`: a process of its own would load all of it again. `make
lint` runs mypy, too.
"""

import re
from pathlib import Path

import assay
from support.code_of_documents import code_of
from support.documents import DOCS, ROOT

CODE = Path(__file__).with_name("user_code.py")


def test_the_code_uses_every_public_name():
    used = set(re.findall(r"\bassay\.(\w+)", CODE.read_text("utf-8")))
    assert used == set(assay.__all__)


def test_make_test_checks_its_types():
    name = CODE.relative_to(ROOT).as_posix()
    assert CODE.read_text("utf-8").startswith("# pyright: strict\n")
    makefile = (ROOT / "Makefile").read_text("utf-8")
    assert f"USER_CODE := {name}\n" in makefile
    assert "\t$(BIN)/pyright src $(USER_CODE) $(DOCS_CODE)\n" in makefile


def test_the_code_of_the_readme_is_checked_as_strictly():
    code = dict(code_of(ROOT / "README.md"))
    assert {"capitals.py", "greeter.py", "polite.py"} < set(code)
    assert all(text.startswith("# pyright: strict\n") for text in code.values())


def test_pages_with_the_library_are_checked():
    pages = {page.stem for page in DOCS.glob("*.md") if any(code_of(page))}
    assert {"checks", "compare", "evaluate", "agent-evals"} < pages
