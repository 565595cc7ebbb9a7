"""Processes forked by the zygote, as tests use them: what `subprocess.Popen` is to others."""

import contextlib
import functools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from support.runner import cpu, zygote
from support.waiting import PATIENCE

COMMAND = "assay.cli.main:main"
shared = None  # the zygote of all processes that run tests side by side


def python():
    """A Python for `subprocess` that has loaded assay already, where the tests run in forked processes. It takes no signals."""
    return str(shared.bin / "python") if shared else sys.executable


class Process:
    """One of them. What it writes is in files; `stdout` is there meanwhile where it was asked for."""

    returncode = None
    is_left = False  # by a test that failed: nobody closes it

    def __init__(self, line, stdout, out, err):
        self._line, self.stdout, self._out, self._err = line, stdout, out, err
        self.pid = zygote.read_number(line)
        cpu.forked.add(self)

    def wait(self, timeout=PATIENCE):
        if self.returncode is None:
            self._line.settimeout(max(0.001, timeout))
            try:
                self.returncode = zygote.read_number(self._line)
            except TimeoutError:
                raise subprocess.TimeoutExpired("a forked process", timeout) from None
            assert self.returncode is not None, "the zygote is gone"
            self._line.close()
        return self.returncode

    def poll(self):
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def send_signal(self, sign):
        if self.poll() is None:
            with contextlib.suppress(
                ProcessLookupError
            ):  # it has ended meanwhile, and its exit code is on its way
                os.kill(self.pid, sign)

    def kill(self):
        self.send_signal(signal.SIGKILL)

    def communicate(self, timeout=PATIENCE):
        """Its standard output and error, once it has ended; of a pipe, the rest."""
        self.wait(timeout)
        with self._out, self._err:
            for file in (self._out, self._err) if self.stdout is None else (self._err,):
                file.seek(0)
            return self._out.read(), self._err.read()

    def close(self):
        """Whatever it was doing."""
        self.kill()
        self.wait()
        self._out.close()
        self._err.close()

    def __del__(self):
        if self.is_left:
            self.close()


class Zygote:
    """The one that forks; gone with this process. It loads while this process does something else, until `ready`."""

    def __init__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="assay-z-", dir="/tmp"))  # a socket's path is short
        self.path, self.slots = str(self.folder / "socket"), str(self.folder / "cpu")
        Path(self.slots).write_bytes(bytes(8 * cpu.SLOTS))
        self._process = subprocess.Popen(
            [sys.executable, "-W", "error", zygote.__file__, self.path, self.slots], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )  # fmt: skip

    def ready(self):
        """This one, once it can fork."""
        assert self._process.stdout.readline() == b"ready\n"
        return self

    def start(
        self,
        *arguments,
        folder,
        target=COMMAND,
        environ=None,
        stdin=b"",
        pipe=False,
        limits=None,
        python=None,
    ):
        """
        `target` with these arguments, there. `stdin` is bytes or a descriptor; `pipe`: `.stdout` is read meanwhile; `python` is
        what it starts others with; by default the workers of `--jobs` are forked too.
        """  # fmt: skip
        if python is None:
            python = self.worker if "--jobs" in arguments else sys.executable
        job = {"target": target, "arguments": list(arguments), "folder": str(folder), "limits": limits or {},
               "environ": dict(os.environ if environ is None else environ), "numbers": [0, 1, 2],
               "python": str(python), "owner": int(os.environ.get(zygote.OWNER, "0"))}  # fmt: skip
        err = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115  # the process's, until it is closed
        with contextlib.ExitStack() as ours:
            if not isinstance(stdin, int):
                given = ours.enter_context(tempfile.TemporaryFile())
                given.write(stdin)
                given.seek(0)
                stdin = given.fileno()
            if pipe:
                reading, writing = os.pipe()
                ours.callback(os.close, writing)
                out = os.fdopen(reading, encoding="utf-8")
            else:
                out = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115
                writing = out.fileno()
            line = zygote.request_fork(self.path, job, [stdin, writing, err.fileno()])
            return Process(line, out if pipe else None, out, err)

    @functools.cached_property
    def bin(self):
        """A folder with an `assay` and a `python` that a shell can run."""
        self._script("bin/python", "support.runner.interpreter:main")
        return self._script("bin/assay", COMMAND).parent

    @functools.cached_property
    def worker(self):
        """A Python whose workers of `--jobs` are forked; any other process is a real one."""
        module = "assay.cli.evaluate.jobs_worker"
        real = f"import os\nif {module!r} not in sys.argv:\n    os.execv({sys.executable!r}, [{sys.executable!r}, *sys.argv[1:]])\n"
        return self._script("worker", f"{module}:main", real)

    @functools.cached_property
    def forking_assay(self):
        """An `assay` that forks the processes of Python it starts."""
        return self._script("forking-assay", COMMAND, f"sys.executable = {str(self.bin / 'python')!r}\n")

    def _script(self, name, target, before=""):
        script = self.folder / name
        script.parent.mkdir(exist_ok=True)
        script.write_text(
            f"#!{sys.executable} -IS\nimport sys\n{before}sys.path.insert(0, {os.path.dirname(__file__)!r})\n"
            f"from zygote import stand_in\nstand_in({self.path!r}, {target!r}, sys.argv[1:])\n"
        )
        script.chmod(0o755)
        return script

    def close(self):
        self._process.communicate()  # it ends once it has loaded
        shutil.rmtree(self.folder)
