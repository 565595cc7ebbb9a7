"""The sizes of the benchmarks, and the files of the first workload."""

from pathlib import Path
from typing import Any

from msgspec import Struct

from bench import workload
from bench.child import Task


class Bench(Struct, frozen=True):
    """`quick` tests the benchmark itself: a tenth of the cases, three rounds."""

    folder: Path
    quick: bool = False

    def rounds(self, usual: int = 7) -> int:
        return 3 if self.quick else usual

    def size(self, usual: int) -> int:
        return usual // 10 if self.quick else usual

    def task(self, many: int, **more: Any) -> Task:
        """Return the task of the first workload at this size, through the command."""
        contexts, checks = self.folder / f"contexts-{many}.jsonl", self.folder / "checks.json"
        if not contexts.exists():
            workload.write(many, contexts, checks)
        to = str(self.folder / "results.jsonl")
        return Task(work="command", contexts=str(contexts), checks=str(checks), to=to, **more)
