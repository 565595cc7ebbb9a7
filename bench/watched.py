"""A command in a fresh process, and what it took: CPU of all its processes, and memory of the workers of a cluster."""

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from bench.child import Sample
from bench.measure import HOME, Failed, environment

WORKER = b"spawn_main"  # in the command line of a worker of a local cluster
TICKS = os.sysconf("SC_CLK_TCK")
SECONDS = 0.1  # between two looks


class Watched(NamedTuple):
    """`workers`: the CPU seconds and the peak memory in MB of each worker process."""

    sample: Sample
    workers: list[tuple[float, float]]


def watch(arguments: Sequence[str]) -> Watched:
    """Run `assay` in a fresh process, and look at it and its workers until it ends. Raises Failed."""
    began = time.perf_counter()
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "assay", *arguments, "--json"],
            cwd=HOME, env=environment(), stdout=out, stderr=errors,
        )  # fmt: skip
        looks, over = dict[int, tuple[float, float]](), threading.Event()
        watcher = threading.Thread(target=_look, args=(process.pid, looks, over))
        watcher.start()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        wall = time.perf_counter() - began
        over.set()
        watcher.join()
        for file in (out, errors):
            file.seek(0)
        if process.returncode:
            raise Failed(f"assay {arguments[0]} ended with {process.returncode}: {errors.read()[-2000:]}")
        passed = json.load(out)["checks"]["contains"]["passed"]
    _, peak = looks.pop(process.pid, (0.0, 0.0))
    return Watched(Sample(usage.ru_utime + usage.ru_stime, wall, peak, passed), [*looks.values()])


def _look(process: int, looks: dict[int, tuple[float, float]], over: threading.Event) -> None:
    while not over.wait(SECONDS):
        for pid in (process, *_children(process)):
            try:
                if pid != process and WORKER not in Path(f"/proc/{pid}/cmdline").read_bytes():
                    continue
                status = Path(f"/proc/{pid}/status").read_text("utf-8")
                times = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[11:13]
            except OSError:  # it ended
                continue
            if peak := status.partition("VmHWM:")[2].split():  # one that has ended has none
                looks[pid] = sum(map(int, times)) / TICKS, int(peak[0]) / 1024


def _children(process: int) -> list[int]:
    try:
        return [
            int(pid)
            for thread in Path(f"/proc/{process}/task").iterdir()
            for pid in (thread / "children").read_text("ascii").split()
        ]
    except OSError:
        return []
