"""
One measured task in its own process: `python -m bench.child '{"work": "command", …}'`.

Everything is imported first. The last line on standard output is a Sample.
"""

import asyncio
import os
import re
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

import assay
import assay.cli.main  # pyright: ignore[reportUnusedImport]  # all that the command loads before it begins, and at its end
import assay.cli.render.check_table  # pyright: ignore[reportUnusedImport]
import assay.fep.execution.stream  # pyright: ignore[reportUnusedImport]
from assay.cli.evaluate.evaluate import main as evaluate
from assay.cli.evaluate.inputs_outputs import EvaluateOptions
from assay.concurrency.workers import pool
from bench import byhand, straight

LOADED = [*assay.STANDARD]  # the standard checks load at their first use
BLOCK = 1 << 20
UNBOUNDED = r"item.*lamp.*!"  # two unbounded repeats: no bound is proved for a line of 1 kB


class Task(Struct, omit_defaults=True):
    """The task of a child process: `work` names an entry of WORKS."""

    work: str
    contexts: str = ""
    checks: str | None = None
    to: str = ""
    modules: list[str] = []
    jobs: int = 1  # 0: as the command chooses
    many: int = 0
    concurrency: int = 1
    seconds: float = 0.0


class Sample(Struct):
    """A measurement: CPU seconds of this process and its children, wall-clock seconds, and peak memory."""

    cpu: float
    wall: float = 0.0
    peak_mb: float = 0.0
    passed: int = 0
    inner: float = 0.0  # CPU seconds without reading and writing files, if measured


def measure(work: Callable[[], object]) -> Sample:
    cpu, wall = _cpu(), time.perf_counter()
    work()
    wall, cpu = time.perf_counter() - wall, _cpu() - cpu
    return Sample(cpu, wall, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def command(task: Task) -> Sample:
    """`assay evaluate --contexts … --checks … -o …`, from the moment the command line has been read."""
    options = EvaluateOptions(
        contexts=task.contexts, checks=task.checks, to=[task.to], modules=task.modules, jobs=task.jobs or None
    )
    sample = measure(lambda: evaluate(options))
    return _with_count(sample, task.to)


def anchor(task: Task) -> Sample:
    return _loop(straight.run, task)


def hand(task: Task) -> Sample:
    return _loop(byhand.run, task)


def library(task: Task) -> Sample:
    """`evaluate_sync` on documents in memory."""
    with Path(task.contexts).open("rb") as file:
        pairs = [msgspec.json.decode(line) for line in file]
    cases, outputs = [pair["test_case"] for pair in pairs], [pair["output"] for pair in pairs]
    checks = msgspec.json.decode(Path(task.checks or "").read_bytes())
    runs = list[assay.EvaluationRunResult]()
    evaluate = assay.evaluate_sync  # looked up here: the attribute loads its module
    sample = measure(lambda: runs.append(evaluate(cases, outputs, checks)))
    results = (one for case in runs[0].results for one in case.check_results)
    sample.passed = sum(one.results["passed"] for one in results)
    return sample


def table(task: Task) -> Sample:
    """`evaluate_sync` over a table of Arrow with a column for each text, with its results as documents."""
    rows, checks = _arrow_table(task), msgspec.json.decode(Path(task.checks or "").read_bytes())
    runs = list[assay.EvaluationRunResult]()
    evaluate = assay.evaluate_sync
    sample = measure(lambda: runs.append(evaluate(rows, checks=checks)))
    sample.passed = sum(one.check_results[0].results["passed"] for one in runs[0].results)
    return sample


def arrow(task: Task) -> Sample:
    """`assay.batch.scorer` over the same table, in batches as engines send them."""
    from assay import batch  # deferred import: it needs the extra `cluster`

    rows, checks = _arrow_table(task), msgspec.json.decode(Path(task.checks or "").read_bytes())
    score = batch.scorer(checks)
    scored = list[Any]()
    sample = measure(lambda: scored.extend(map(score, rows.to_batches(max_chunksize=1_024))))
    for results in scored:
        sample.passed += sum(row["contains"]["passed"] for row in results["checks"].to_pylist())
    return sample


def _arrow_table(task: Task) -> Any:
    import pyarrow  # pyright: ignore[reportMissingTypeStubs]  # deferred import: it is large

    arrow: Any = pyarrow
    with Path(task.contexts).open("rb") as file:
        pairs = [msgspec.json.decode(line) for line in file]
    return arrow.table(
        {
            "id": [pair["test_case"]["id"] for pair in pairs],
            "input": [pair["test_case"]["input"] for pair in pairs],
            "output": [pair["output"]["value"] for pair in pairs],
        }
    )


def waiting(task: Task) -> Sample:
    """Checks that only wait, many at a time."""

    class Wait(assay.Checker):
        type = "wait"

        async def run(self, services: assay.Services) -> assay.Answer:
            await asyncio.sleep(task.seconds)
            return {"passed": True}

    cases = [{"id": str(at), "input": at} for at in range(task.many)]
    outputs = [{"value": at} for at in range(task.many)]
    registry = assay.Registry([Wait])

    def work() -> None:
        run = assay.evaluate_sync(
            cases,
            outputs,
            [{"type": "wait", "arguments": {}}],
            concurrency=task.concurrency,
            registry=registry,
        )
        assert run.summary.completed_checks == task.many

    return measure(work)


def searching(task: Task) -> Sample:
    """`evaluate_sync` of a pattern that needs worker processes. One case runs first, to load and start everything."""
    cases = [{"id": str(at), "input": at} for at in range(task.many)]
    outputs = [{"value": text} for text in texts(task.many)]
    checks = [{"type": "regex", "arguments": {"text": "$.output.value", "pattern": UNBOUNDED}}]
    assay.evaluate_sync(cases[:64], outputs[:64], checks)
    runs = list[assay.EvaluationRunResult]()

    def work() -> None:
        runs.append(assay.evaluate_sync(cases, outputs, checks))
        pool.close()  # counts the CPU time of the processes, with their start

    sample = measure(work)
    sample.passed = sum(one.check_results[0].results["passed"] for one in runs[0].results)
    return sample


def plain_search(task: Task) -> Sample:
    """The same with `re` alone, one text after the other."""
    found = re.compile(UNBOUNDED).search
    many = texts(task.many)
    there = list[bool]()
    sample = measure(lambda: there.extend(found(text) is not None for text in many))
    sample.passed = sum(there)
    return sample


def texts(many: int) -> list[str]:
    """Lines of 1 kB; every third contains the pattern."""
    line = "The order of Mr. Smith has 12 items, and the first of them is a lamp; "
    return [(line * 15)[:1000] + ("!" if at % 3 == 0 else str(at)) for at in range(many)]


def judging(task: Task) -> Sample:
    """Judges with a slow provider, many at a time. One judge runs first, to load everything."""
    cases = [{"id": str(at), "input": at} for at in range(task.many)]
    outputs = [{"value": f"answer {at}"} for at in range(task.many)]
    passed = {"type": "object", "required": ["passed"], "properties": {"passed": {"type": "boolean"}}}
    arguments: dict[str, Any] = {
        "prompt": "Is {{$.output}} an answer to {{$.test_case.input}}?",
        "response_format": passed,
        "provider_config": {"base_url": task.contexts},
        "model_config": {"model": f"slow:{task.seconds}"},
    }

    def work(many: int) -> None:
        run = assay.evaluate_sync(
            cases[:many],
            outputs[:many],
            [{"type": "llm_judge", "arguments": arguments}],
            concurrency=task.concurrency,
        )
        assert run.summary.completed_checks == many

    work(1)
    return measure(lambda: work(task.many))


WORKS = {
    work.__name__: work
    for work in (command, anchor, hand, library, table, arrow, waiting, searching, plain_search, judging)
}


def _loop(run: Callable[[Any, Any], object], task: Task) -> Sample:
    def work() -> None:
        with Path(task.contexts).open("rb") as lines, Path(task.to).open("wb") as out:
            run(lines, out.write)

    return _with_count(measure(work), task.to)


def _with_count(sample: Sample, results: str) -> Sample:
    """Count the passed checks in a result file."""
    with Path(results).open("rb") as file:
        rest = b""
        while block := file.read(BLOCK):
            whole, _, rest = (rest + block).rpartition(b"\n")
            sample.passed += whole.count(b'"results":{"passed":true')
    return sample


def _cpu() -> float:
    return sum(
        use.ru_utime + use.ru_stime
        for use in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )


def main() -> None:
    task = msgspec.json.decode(sys.argv[1], type=Task)
    if task.to:
        Path(task.to).unlink(missing_ok=True)  # truncating an old file would count as work
    sample = WORKS[task.work](task)
    print(msgspec.json.encode(sample).decode(), flush=True)
    os._exit(0)  # skip the destruction of a million objects


if __name__ == "__main__":
    main()
