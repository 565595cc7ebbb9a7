"""The benchmarks: each function measures and returns rows; RUNS is their table."""

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec

from bench import second
from bench.agents import agents
from bench.batches import batches, scorer, ten_million
from bench.calls import calls
from bench.child import Sample, Task
from bench.equal import differences
from bench.files import Bench
from bench.framework_agents import framework_agents
from bench.frameworks import flex, pydantic
from bench.judges import judges
from bench.measure import Row, agree, cpu_of, ratios, run, side_by_side, straight
from bench.service import service
from bench.traces import traces
from bench.workers import workers

ROOM = 9_000  # bytes of disk for a case: its context, and its result twice


def first(bench: Bench) -> list[Row]:
    rows = list[Row]()
    for many, rounds in ((bench.size(10_000), 15), (bench.size(100_000), 7)):
        task = bench.task(many)
        taken = side_by_side(
            {"assay": lambda task=task: run(task), "straight": lambda task=task: straight(task)},
            bench.rounds(rounds),
        )
        agree(taken)
        name = f"workload 1, {many:,} cases: CPU to that of the straight loop"
        rows.append(Row(name, "at most", 0.7, values=ratios(taken, "assay", "straight")))
    return rows


def tables(bench: Bench) -> list[Row]:
    """The results of workload 1 as `.csv`, compared with `.jsonl`."""
    many = bench.size(10_000)
    task = bench.task(many)
    table = msgspec.structs.replace(task, to=task.to.replace(".jsonl", ".csv"))
    taken = side_by_side({"jsonl": lambda: run(task), "csv": lambda: run(table)}, bench.rounds())
    name = f"workload 1, {many:,} cases, `-o F.csv`: CPU to that of `-o F.jsonl`"
    return [Row(name, "at most", 1.5, values=ratios(taken, "csv", "jsonl"))]


def other(bench: Bench) -> list[Row]:
    """The second workload, without and with the promise `waits = False`."""
    rows = list[Row]()
    for check, note in ((second.ToolBudget, ""), (second.QuickToolBudget, "its check has `waits = False`")):
        contexts = bench.folder / f"{check.type}.jsonl"
        second.write(bench.size(10_000), contexts, check.type)
        by_us, by_hand = (str(bench.folder / f"{check.type}-{who}.jsonl") for who in ("us", "hand"))
        ours = Task(
            work="command", contexts=str(contexts), to=by_us, modules=[f"bench.second:{check.__name__}"]
        )
        theirs = Task(work="hand", contexts=str(contexts), to=by_hand)
        taken = side_by_side(
            {"assay": lambda a=ours: run(a), "hand": lambda b=theirs: run(b)}, bench.rounds()
        )
        wrong = differences(Path(by_us), Path(by_hand))
        name = f"workload 2, {bench.size(10_000):,} cases: CPU to that of a loop by hand"
        rows.append(
            Row(
                name,
                "at most",
                4.0,
                values=ratios(taken, "assay", "hand"),
                note=f"the results differ: {wrong}" if wrong else note,
            )
        )
    return rows


def large(bench: Bench) -> list[Row]:
    """A million cases: memory, the cost of a case, and several processes."""
    many, few = bench.size(1_000_000), bench.size(10_000)
    memory = Row(f"peak memory at {many:,} cases, one process", "at most", 80.0, "MB")
    growth = Row(f"CPU per case at {many:,} to that at {few:,}", "at most", 1.15)
    divided = {
        "two": ("`--jobs 2`", 2),
        "default": ("no `--jobs`", 0),
    }
    walls = {
        name: Row(f"{how} at {many:,}: how much faster on the wall", "at least", 2.0)
        for name, (how, _) in divided.items()
    }
    sums = {
        name: Row(f"{how} at {many:,}: CPU of all processes to that of one process", "at most", 1.05)
        for name, (how, _) in divided.items()
    }
    if shutil.disk_usage(bench.folder).free < many * ROOM:
        note = f"not measured: it needs {many * ROOM / 1e9:.0f} GB of disk"
        rows = [memory, growth, *walls.values(), *sums.values()]
        return [msgspec.structs.replace(row, note=note) for row in rows]
    big, small = bench.task(many), bench.task(few)
    contestants: dict[str, Callable[[], Sample]] = {
        "big": lambda: run(big),
        "small": lambda: _quietest(small),
    }
    for name, (_, jobs) in divided.items():
        contestants[name] = lambda jobs=jobs: run(bench.task(many, jobs=jobs))
    taken = side_by_side(contestants, bench.rounds())
    agree([{name: one[name] for name in ("big", *divided)} for one in taken])
    Path(big.contexts).unlink()
    Path(big.to).unlink()
    each = [value * few / many for value in ratios(taken, "big", "small")]
    peak = [max(one["big"].peak_mb for one in taken)]
    replace = msgspec.structs.replace
    return [
        replace(memory, values=peak, note="the largest of all rounds"),
        replace(growth, values=each),
        *(
            replace(row, values=[one["big"].wall / one[name].wall for one in taken])
            for name, row in walls.items()
        ),
        *(replace(row, values=ratios(taken, name, "big")) for name, row in sums.items()),
    ]


def waiting(bench: Bench) -> list[Row]:
    many, concurrency, seconds = 500, 64, 0.05
    ideal = -(-many // concurrency) * seconds
    task = Task(work="waiting", many=many, concurrency=concurrency, seconds=seconds)
    values = [run(task).wall / ideal for _ in range(bench.rounds())]
    return [Row("500 async checks of 50 ms, 64 at a time: wall to the ideal", "at most", 1.25, values=values)]


def searching(bench: Bench) -> list[Row]:
    """A pattern without a proved bound: worker processes search."""
    many = bench.size(10_000)
    taken = side_by_side(
        {
            "assay": lambda: run(Task(work="searching", many=many)),
            "re": lambda: run(Task(work="plain_search", many=many)),
        },
        bench.rounds(),
    )
    agree(taken)
    name = f"regex, {many:,} texts of 1 kB, two unbounded repeats: CPU to that of `re` alone"
    note = "worker processes search; their start is counted"
    return [Row(name, "at most", 4.0, values=ratios(taken, "assay", "re"), note=note)]


AGENT = "def greet(task):\n    return f\"Hello, {task['name']}!\"\n"
SUITE = """
suiteId: local.bench.evals.start
version: 1.0.0
modes: [golden]
tasks: [{taskId: greets, input: {name: Ada}, expected: {kind: golden, match: {strategy: contains, value: Ada}}}]
"""


def starting(bench: Bench) -> list[Row]:
    """Fresh processes, with the start of the interpreter. `run` comes first: `list` and `show` read what it stored."""
    one = (
        "import assay; assay.evaluate_sync([{'id': '1', 'input': 'x'}], [{'value': 'y'}],"
        " [{'type': 'contains', 'arguments': {'text': '$.output.value', 'phrases': ['y']}}])"
    )
    folder = bench.folder / "starting"
    folder.mkdir()
    (folder / "greeter.py").write_text(AGENT)
    (folder / "suite.yaml").write_text(SUITE)
    command = str(Path(sys.executable).parent / "assay")
    commands = (
        ("`import assay`: CPU", 100.0, [sys.executable, "-c", "import assay"]),
        ("`assay --help`: CPU", 200.0, [command, "--help"]),
        ("a first `evaluate_sync` of one case: CPU", 200.0, [sys.executable, "-c", one]),
        ("`assay run`, one task: CPU", 400.0, [command, "run", "suite.yaml", "--agent", "greeter:greet"]),
        ("`assay list`: CPU", 400.0, [command, "list"]),
        ("`assay show latest`: CPU", 400.0, [command, "show", "latest"]),
    )
    rounds = bench.rounds(21)
    return [Row(name, "at most", bar, "ms", cpu_of(argv, rounds, folder)) for name, bar, argv in commands]


RUNS = {
    run.__name__: run
    for run in (
        first,
        tables,
        flex,
        pydantic,
        other,
        large,
        waiting,
        searching,
        judges,
        starting,
        service,
        workers,
        calls,
        agents,
        framework_agents,
        traces,
        scorer,
        batches,
        ten_million,
    )
}


def _quietest(task: Task) -> Sample:
    """The median of three: a single short run is too noisy to compare with a run of a million cases."""
    samples = [run(task) for _ in range(3)]
    samples.sort(key=lambda sample: sample.cpu)
    return samples[1]
