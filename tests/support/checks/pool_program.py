"""Tasks for worker processes; and, run as a program, a parent that is killed while its worker is busy."""

import os
import re
import sys
import time
from pathlib import Path

from assay.concurrency.memory import resident_bytes
from assay.concurrency.workers import pool
from assay.concurrency.workers.batch import Batch
from assay.errors import ValueFault
from support.waiting import wait_until


def spin():
    while True:  # looks at signals
        pass


def stick():
    re.search(r"\d+x", "1" * 500_000)  # looks at none


def work(seconds, core):
    """Use so much processor time on one core."""
    os.sched_setaffinity(0, {int(core)})
    until = time.process_time() + float(seconds)
    while time.process_time() < until:
        pass


def meet(folder, many):
    """Wait until this many are here."""
    Path(folder.decode(), str(os.getpid())).touch()
    wait_until(lambda: len(os.listdir(folder)) == int(many))


def fill(megabytes):
    """Use so much memory, and free all of it but the last block: the allocator gives nothing back by itself."""
    blocks = [bytes(2_000) for _ in range(int(megabytes) * 500)]
    kept.append(blocks.pop())


def fault():
    raise ValueFault("not this")


kept = []
DEEDS = {
    b"pid": lambda: str(os.getpid()).encode(),
    b"spin": spin,
    b"stick": stick,
    b"die": lambda: os._exit(3),
    b"eat": lambda: bytes(4 << 30),
    b"map": lambda: len(bytes(4 << 30)) and b"4 GiB",
    b"meet": meet,
    b"work": work,
    b"fill": fill,
    b"resident": lambda: str(resident_bytes()).encode(),
    b"sleep": lambda seconds: time.sleep(float(seconds)),
    b"fault": fault,
}


def task(common):
    def run(item):
        deed, *words = item.split()
        return common + words[0] if deed == b"say" else DEEDS[deed](*words) or b""

    return run


def batch(*items, seconds=0.2, **how):
    return Batch("support.checks.pool_program:task", list(items), seconds, **how)


if __name__ == "__main__":
    (pid,) = pool.submit(batch(b"pid", seconds=1.0)).result()
    sys.stdout.write(f"{pid.decode()}\n")
    sys.stdout.flush()
    pool.submit(batch(b"stick", seconds=0.5))
    sys.stdin.read()
