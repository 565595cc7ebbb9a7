"""
The CPU time of the tests of each file: of their process, its children and theirs, and of what the zygote forks for it.

A busy machine makes a test slower and hardly dearer. So budgets are in CPU time, and a file above its budget is reported and does
not fail.
"""

import mmap
import os
import resource
import struct
import weakref
from contextlib import suppress
from pathlib import Path

TICK = 1 / os.sysconf("SC_CLK_TCK")
SLOTS = 64
BUDGET = 10.0  # seconds of a file
BUDGETS = {  # of files that need more: browsers, and processes that are started and killed
    "tests/serve/page/test_run_page.py": 36,
    "tests/backends/engines/test_every_deployment.py": 40,
    "tests/serve/page/test_decisions_page.py": 30,
    "tests/backends/engines/test_worker_processes.py": 20,
    "tests/cli/evaluate/test_bad_input.py": 18,
    "tests/cli/stored_runs/test_cli_runs.py": 18,
    "tests/serve/page/test_doors.py": 20,
    "tests/serve/page/test_runs_page.py": 16,
    "tests/conform/test_conform_openwop.py": 20,
    "tests/golden/test_golden.py": 15,
    "tests/backends/stores/test_stores.py": 18,
    "tests/serve/web/test_attacks.py": 14,
    "tests/cli/evaluate/test_resume.py": 14,
    "tests/backends/agents/frameworks/test_frameworks.py": 18,
}
forked = weakref.WeakSet()  # processes of the zygote
daemons = []  # functions that return the pid of a process that has left its family, or None


def open_slots(path):
    """For each process of tests the CPU seconds of what the zygote has forked for it, and which has ended."""
    with open(path, "r+b") as file:
        return mmap.mmap(file.fileno(), 8 * SLOTS)


def add(slots, owner, seconds):
    (before,) = struct.unpack_from("d", slots, 8 * owner)
    struct.pack_into("d", slots, 8 * owner, before + seconds)


class Meter:
    """CPU seconds of everything that the tests of this process have started."""

    def __init__(self, slots, owner):
        self._slots, self._owner = open_slots(slots), owner
        self._last = self._read()

    def since_last(self):
        """At least 0: a browser that ends takes the time of its processes with it, which was counted while they ran."""
        before, self._last = self._last, self._read()
        return max(0.0, self._last - before)

    def _read(self):
        total = sum(
            sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
        )
        total += struct.unpack_from("d", self._slots, 8 * self._owner)[0]
        pids = {*children(os.getpid()), *(one.pid for one in forked if one.returncode is None)}
        pids.update(filter(None, (pid() for pid in daemons)))
        while pids:
            pid = pids.pop()
            total += spent(pid)
            pids |= children(pid)
        return total


def children(pid):
    """The pids of a process's children; none of a process that has ended, at whatever point of the reading."""
    found = set()
    with suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            found.update(map(int, Path(f"/proc/{pid}/task/{task}/children").read_text().split()))
    return found


def spent(pid):
    """CPU seconds of a process that runs, and of its children that have ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return TICK * sum(map(int, fields[11:15]))


def summary(files, tests, most):
    """Lines for the end of a run: the whole, the files above their budgets and, where asked for, the dearest files and tests."""
    if files:
        yield f"CPU time: {files.total():.0f} s"
    for name, seconds in files.most_common():
        if seconds > (budget := BUDGETS.get(name, BUDGET)):
            yield f"above its budget: {seconds:.1f} s of {budget:g} s in {name}"
    for name, seconds in [*files.most_common(most), *tests.most_common(most)]:
        yield f"{seconds:.2f} s in {name}"
