"""
The types of the library hold in a user's code with every name.

`make test` checks that code with pyright, strict, beside `src`: a process of its own would load all of it again. `make
lint` runs mypy, too.
"""

import re
from pathlib import Path

import assay

ROOT = Path(__file__).parents[2]
CODE = Path(__file__).with_name("user_code.py")


def test_the_code_uses_every_public_name():
    used = set(re.findall(r"\bassay\.(\w+)", CODE.read_text("utf-8")))
    assert used == set(assay.__all__)


def test_make_test_checks_its_types():
    name = CODE.relative_to(ROOT).as_posix()
    assert CODE.read_text("utf-8").startswith("# pyright: strict\n")
    makefile = (ROOT / "Makefile").read_text("utf-8")
    assert f"USER_CODE := {name}\n" in makefile
    assert "\t$(BIN)/pyright src $(USER_CODE)\n" in makefile
