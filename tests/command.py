"""
The command `assay`, each time in a process of its own, forked from one that has loaded it: 30 ms instead of 500.

`python command.py ORDERS REPLIES` is that process: a line in is what to run, a line out is how it ended.
"""

import gc
import json
import os
import re
import resource
import select
import signal
import subprocess
import sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any, NoReturn

SECONDS = 60
PROGRESS = re.compile(r"[0-9,/~]+ cases  [0-9,]+/s")


class Ended:
    """How a command ended, and what it said. There is never a traceback in it."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err
        assert "Traceback" not in out + err, err
        assert code >= 0, f"ended by signal {-code}: {err}"

    @property
    def told(self) -> list[str]:
        """Its lines on standard error, progress aside."""
        return [line for line in self.err.splitlines() if not PROGRESS.match(line)]


class Command:
    """Somewhere to run commands from."""

    def __init__(self) -> None:
        (orders, self._orders), (self._replies, replies) = os.pipe(), os.pipe()
        self._process = subprocess.Popen(
            [sys.executable, __file__, str(orders), str(replies)], pass_fds=(orders, replies)
        )
        os.close(orders)
        os.close(replies)

    def __call__(
        self, *arguments: str, folder: Path, stdin: bytes = b"", limits: dict[str, int] | None = None
    ) -> Ended:
        inside = folder / ".command"
        inside.mkdir(exist_ok=True)
        (inside / "in").write_bytes(stdin)
        order = {"arguments": arguments, "folder": str(folder), "limits": limits or {}}
        os.write(self._orders, json.dumps(order).encode() + b"\n")
        pid, code = int(self._line()), self._line()
        if not code:
            os.kill(pid, signal.SIGKILL)
            self._line()
            raise AssertionError(f"no end after {SECONDS} s")
        return Ended(int(code), *((inside / name).read_bytes().decode() for name in ("out", "err")))

    def close(self) -> None:
        os.close(self._orders)
        os.close(self._replies)
        self._process.wait()

    def _line(self) -> str:
        text = b""
        while not text.endswith(b"\n") and select.select([self._replies], [], [], SECONDS)[0]:
            text += os.read(self._replies, 1)
        return text.decode()


def serve(orders: int, replies: int) -> None:
    import yaml  # pyright: ignore[reportUnusedImport]  # noqa: F401  # what takes long to load

    from assay.cli import evaluating, report  # pyright: ignore[reportUnusedImport]  # noqa: F401
    from assay.cli.main import app

    with redirect_stdout(StringIO()):
        app(["schema", "TestCase"], standalone_mode=False)
    gc.freeze()
    for line in os.fdopen(orders):
        pid = os.fork()
        if pid == 0:
            os.close(replies)
            perform(json.loads(line))
        os.write(replies, f"{pid}\n".encode())
        _, status = os.waitpid(pid, 0)
        os.write(replies, f"{os.waitstatus_to_exitcode(status)}\n".encode())


def perform(order: Any) -> NoReturn:
    from assay.cli.main import main

    os.chdir(order["folder"])
    for fd, name, how in ((0, "in", os.O_RDONLY), (1, "out", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), (2, "err", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)):  # fmt: skip
        os.dup2(os.open(f".command/{name}", how), fd)
    for name, most in order["limits"].items():
        resource.setrlimit(getattr(resource, name), (most, most))
    sys.argv = ["assay", *order["arguments"]]
    main()


if __name__ == "__main__":
    serve(*map(int, sys.argv[1:]))
