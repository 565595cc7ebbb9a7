"""
Batches beside one process over the same rows: the scorer of Arrow batches, shards with their merge, and a local cluster
of Dask with two workers, also over ten million rows.
"""

import json
import os
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bench.child import Sample, Task
from bench.files import Bench
from bench.measure import Row, agree, ratios, run, side_by_side
from bench.watched import Watched, watch

CHECKS = [{"contains": "Paris"}]
ROOM = 1_000  # bytes of disk for a row and its result
DASK, SHARDS = "`--cluster dask`", "`--shard 1/2`, `2/2` and `merge`"
Others = dict[
    str, tuple[Callable[[Path], Watched], float]
]  # and how much CPU it may take, to that of one process
START = 1_000  # rows of a run that is little more than the start of a cluster


def write_rows(many: int, folder: Path) -> Path:
    """Lines of 209 bytes with their checks, unless they are there. One of ten does not pass."""
    (folder / "batch-checks.json").write_text(json.dumps(CHECKS), "utf-8")
    path = folder / f"batch-{many}.jsonl"
    if not path.exists():
        with path.open("w", encoding="ascii") as file:
            file.writelines(map(_line, range(many)))
    return path


def _line(at: int) -> str:
    city = "Lyon" if at % 10 == 0 else "Paris"
    case = {"id": f"case-{at:09}", "input": f"What is the capital of France, asked for the time {at:09}?"}
    value = f"The capital is {city}, as everybody knows; and this is answer {at:09}."
    return json.dumps({"test_case": case, "output": {"value": value}}) + "\n"


def _evaluate(rows: Path, to: Path, *options: str) -> list[str]:
    checks = str(rows.parent / "batch-checks.json")
    return ["evaluate", "--contexts", str(rows), "--checks", checks, "-o", str(to), *options]


def one_process(rows: Path) -> Watched:
    to = rows.with_name("batch-one.jsonl")
    try:
        return watch(_evaluate(rows, to, "--jobs", "1"))
    finally:
        to.unlink(missing_ok=True)


def on_dask(rows: Path) -> Watched:
    """A worker for each core of this machine."""
    to = rows.with_name("batch-results")
    try:
        return watch(_evaluate(rows, to, "--cluster", "dask"))
    finally:
        shutil.rmtree(to, ignore_errors=True)


def in_shards(rows: Path) -> Watched:
    """Two shards at the same time, and then their merge."""
    folder = rows.with_name("batch-shards")
    folder.mkdir()
    to = [folder / "1.jsonl", folder / "2.jsonl"]
    try:
        with ThreadPoolExecutor(2) as threads:
            commands = [_evaluate(rows, path, "--shard", f"{path.stem}/2", "--jobs", "1") for path in to]
            shards = [one.sample for one in threads.map(watch, commands)]
        merge = watch(["merge", *map(str, to), "-o", str(folder / "merged.jsonl")]).sample
    finally:
        shutil.rmtree(folder)
    each = [*shards, merge]
    cpu, peak = sum(one.cpu for one in each), max(one.peak_mb for one in each)
    return Watched(Sample(cpu, max(one.wall for one in shards) + merge.wall, peak, merge.passed), [])


def scorer(bench: Bench) -> list[Row]:
    """The scorer over a table of Arrow, beside `evaluate_sync` over the table, and the command over its lines."""
    many = bench.size(100_000)
    rows = write_rows(many, bench.folder)
    checks, to = str(bench.folder / "batch-checks.json"), str(bench.folder / "batch-one.jsonl")
    works = ("arrow", "table", "command")
    contestants = {
        work: lambda work=work: run(Task(work=work, contexts=str(rows), checks=checks, to=to))
        for work in works
    }
    taken = side_by_side(contestants, bench.rounds(5))
    agree([{work: samples[work] for work in works} for samples in taken])
    each = ", ".join(f"{taken[-1][work].cpu / many * 1e6:.0f}" for work in works)
    note = f"scorer, `evaluate_sync`, command in the last round: {each} µs a row"
    name = f"{many:,} rows, `batch.scorer`: CPU to that of"
    return [
        Row(f"{name} `evaluate_sync`", "at most", 1.6, values=ratios(taken, "arrow", "table"), note=note),
        Row(f"{name} `evaluate --jobs 1`", "at most", 5.0, values=ratios(taken, "arrow", "command")),
    ]


def batches(bench: Bench) -> list[Row]:
    """A million rows: shards, and a local cluster, each beside one process."""
    rows = write_rows(bench.size(1_000_000), bench.folder)
    few = write_rows(START, bench.folder)
    start = [on_dask(few).sample.cpu * 1000 for _ in range(bench.rounds(3))]
    measured = [Row(f"{START:,} rows, {DASK}: CPU of all processes", "at most", 8_000.0, "ms", start)]
    return measured + _beside_one_process(bench, rows, {DASK: (on_dask, 5.0), SHARDS: (in_shards, 3.0)}, 3)


def ten_million(bench: Bench) -> list[Row]:
    """Ten million rows on a local cluster, once, and by one process."""
    many = bench.size(10_000_000)
    name = f"{many:,} rows, {DASK}: CPU to that of `evaluate --jobs 1`"
    if shutil.disk_usage(bench.folder).free < many * ROOM:
        return [Row(name, "at most", 5.0, note=f"not measured: it needs {many * ROOM / 1e9:.0f} GB of disk")]
    rows = write_rows(many, bench.folder)
    try:
        return _beside_one_process(bench, rows, {DASK: (on_dask, 5.0)}, 1)
    finally:
        rows.unlink()


def _beside_one_process(bench: Bench, rows: Path, others: Others, rounds: int) -> list[Row]:
    """For each of the others its CPU to that of one process, and its speed."""
    many, last = int(rows.stem.rpartition("-")[2]), dict[str, Watched]()
    peaks = list[float]()

    def sample(name: str, work: Callable[[Path], Watched]) -> Sample:
        last[name] = watched = work(rows)
        peaks.extend(memory for _, memory in watched.workers)
        return watched.sample

    contestants = {"one": lambda: sample("one", one_process)}
    contestants |= {
        name: lambda name=name, work=work: sample(name, work) for name, (work, _) in others.items()
    }
    taken = side_by_side(contestants, min(rounds, bench.rounds(rounds)))
    agree(taken)
    found = list[Row]()
    for name, (_, bar) in others.items():
        note = f"the last round: {_speed(last[name], many)}; one process: {_speed(last['one'], many)}"
        if workers := last[name].workers:
            scoring = sum(cpu for cpu, _ in workers)
            note += f"; {scoring / many * 1e6:.0f} µs a row in the {len(workers)} workers, and"
            note += f" {last[name].sample.cpu - scoring:.0f} s in the command with the scheduler"
        found.append(
            Row(
                f"{many:,} rows, {name}: CPU to that of `evaluate --jobs 1`",
                "at most", bar, values=ratios(taken, name, "one"), note=note,
            )
        )  # fmt: skip
        faster = [samples["one"].wall / samples[name].wall for samples in taken]
        found.append(
            Row(
                f"{many:,} rows, {name}: rows a second to those of `evaluate --jobs 1`",
                "at least",
                0.2,
                values=faster,
            )
        )
    if peaks:
        found.append(
            Row(f"{many:,} rows, {DASK}: peak memory of a worker", "at most", 500.0, "MB", [max(peaks)],
                note=f"the largest of all; {os.cpu_count()} workers")
        )  # fmt: skip
    return found


def _speed(watched: Watched, many: int) -> str:
    sample = watched.sample
    return f"{many / sample.wall:,.0f} rows a second, {sample.cpu / many * 1e6:.0f} µs of CPU a row"
