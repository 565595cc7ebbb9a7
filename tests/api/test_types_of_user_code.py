"""The types of the library hold in a user's code with every name: pyright, strict, finds nothing. `make lint` runs mypy."""

import json
import re
import subprocess
import sys
from pathlib import Path

import assay

CODE = Path(__file__).with_name("user_code.py")
STRICT = {"typeCheckingMode": "strict", "include": ["user_code.py"], "reportMissingTypeStubs": False}


def test_the_code_uses_every_public_name():
    used = set(re.findall(r"\bassay\.(\w+)", CODE.read_text("utf-8")))
    assert used == set(assay.__all__)


def checked(*command, folder):
    """The output of a type checker on a copy of the code, away from the settings of this project."""
    (folder / "user_code.py").write_text(CODE.read_text("utf-8"), "utf-8")
    done = subprocess.run([*command], cwd=folder, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


def test_pyright_accepts_it(tmp_path):
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(STRICT), "utf-8")
    tool = Path(sys.executable).with_name("pyright")
    code, found = checked(tool, "--pythonpath", sys.executable, folder=tmp_path)
    assert (code, found[-300:]) == (0, "0 errors, 0 warnings, 0 informations\n")
