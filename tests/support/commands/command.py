"""The command `assay`, each time in a process of its own."""

import json
import os
import pty
import re
import select
import subprocess
import time

from assay.cli.console.console import WIDEST, columns_of
from support.commands.json_documents import name_of, problems_of
from support.runner import forkserver
from support.waiting import PATIENCE

PROGRESS = re.compile(r"[0-9,/~]+ cases  [0-9,]+/s")


class CommandResult:
    """The exit code of a command and its output, which never has a traceback. `out` and `err` have whole lines."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, unwrap(out), unwrap(err)
        self.wrapped_out, self.wrapped_err = out, err
        assert "Traceback" not in out + err, err
        assert code >= 0, f"ended by signal {-code}: {err}"

    @property
    def messages(self) -> list[str]:
        """Its lines on standard error, progress aside."""
        return [line for line in self.err.splitlines() if not PROGRESS.match(line)]


def unwrap(text):
    """The lines as they were before they wrapped: a later line is indented, and begins with a word that had no room."""
    whole, last = [], ""
    for line in text.split("\n"):
        columns_left = WIDEST - columns_of(last)
        deeper = (
            last.strip() and len(line) - len(line.lstrip(" ")) >= 2 and not last.startswith(("{", "[", "|"))
        )
        if deeper and 0 <= columns_left <= columns_of(line.split()[0] if line.split() else ""):
            whole[-1] += f" {line.strip(' ')}"
        else:
            whole.append(line)
        last = line
    return "\n".join(whole)


class Command:
    """`command("evaluate", …, folder=tmp_path)` runs assay there, to its end."""

    def __init__(self, zygote) -> None:
        self._zygote = zygote

    def __call__(self, *arguments, folder, stdin=b"", limits=None, environ=None) -> CommandResult:
        process = self._zygote.start(*arguments, folder=folder, stdin=stdin, limits=limits, environ=environ)
        try:
            out, err = process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            raise AssertionError(f"no end after {PATIENCE:g} s") from None
        refuse_other_documents(arguments, out)
        return CommandResult(process.returncode, out, err)

    def each(self, commands, *, folder, environ=None) -> list[CommandResult]:
        """The results of these commands, which run one after another in one process."""
        return self.batch(
            [{"command": list(arguments)} for arguments in commands], folder=folder, environ=environ
        )

    def batch(self, jobs, *, folder, environ=None):
        """The answers to these jobs of `support.commands.batch_program`; a command's is as if it had been called alone."""
        target = "support.commands.batch_program:main"
        process = self._zygote.start(
            folder=folder, target=target, stdin=json.dumps(jobs).encode(), environ=environ
        )
        out, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, err
        answers = json.loads(out)
        for job, one in zip(jobs, answers, strict=True):
            if "command" in job and "code" in one:
                refuse_other_documents(job["command"], one["out"])
        return [CommandResult(**one) if "code" in one else one for one in answers]


def refuse_other_documents(arguments, out):
    """What any test gets from `--json` is the document of `assay schema`."""
    if out and "--json" in arguments and (name := name_of(arguments)) is not None:
        problems = list(problems_of(name, out))
        assert problems == [], (arguments, problems)


def run_on_terminal(*arguments, folder, columns=100, code=1, typed=""):
    """What somebody who sits there, and types this, sees."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [forkserver.python(), "-m", "assay", *arguments],
        cwd=folder,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm", "COLUMNS": str(columns)},
    ) as process:
        os.close(theirs)
        os.write(ours, typed.encode())
        screen, until = b"", time.monotonic() + PATIENCE
        while time.monotonic() < until and select.select([ours], [], [], PATIENCE)[0]:
            try:
                part = os.read(ours, 4096)
            except OSError:  # a terminal ends like this
                break
            if not part:
                break
            screen += part
        assert process.wait(PATIENCE) == code, screen
    os.close(ours)
    return screen.decode()
