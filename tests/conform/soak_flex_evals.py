"""flex-evals, the reference library of FEP, runs our vectors in an environment of its own, for `make soak`."""

import subprocess
import sys
import venv
from pathlib import Path

CONFORMANCE = Path(__file__).parents[2] / "conformance"
PAGE = CONFORMANCE / "flex-evals.md"


def test_the_page_says_where_flex_evals_differs(tmp_path):
    venv.create(tmp_path / "env", with_pip=True)
    python = tmp_path / "env" / "bin" / "python"
    release = PAGE.read_text("utf-8").split()[2]
    subprocess.run([python, "-m", "pip", "install", "-q", f"flex-evals=={release}"], check=True)
    runner = [python, "runners/flex_evals_page.py", "fep"]
    made = subprocess.run(runner, cwd=CONFORMANCE, capture_output=True, text=True, check=True)
    if made.stdout != PAGE.read_text("utf-8"):
        sys.stderr.write(made.stdout)
    assert made.stdout == PAGE.read_text("utf-8")
