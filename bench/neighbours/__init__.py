"""Others on the first workload, each in an environment of its own, pinned with hashes."""

import subprocess
import sys
from pathlib import Path

from bench.measure import HOME

HERE = Path(__file__).resolve().parent


def python_of(name: str) -> Path | None:
    """The interpreter of a neighbour's environment, made now if need be; None where it cannot be made."""
    home = HOME / f".venv-bench-{name}"
    requirements = HERE.parent / f"requirements-{name}.txt"
    python, ready = home / "bin" / "python", home / ".ready"
    if ready.exists() and ready.read_bytes() == requirements.read_bytes():
        return python
    uv = str(Path(sys.executable).parent / "uv")
    for command in (
        [uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(home)],
        [
            uv,
            "pip",
            "install",
            "--quiet",
            "--require-hashes",
            "--python",
            str(python),
            "-r",
            str(requirements),
        ],
    ):
        done = subprocess.run(command, check=False)  # what is wrong goes to standard error
        if done.returncode:
            return None
    ready.write_bytes(requirements.read_bytes())
    return python


def script_of(name: str) -> str:
    return str(HERE / f"with_{name}.py")
