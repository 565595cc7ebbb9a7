"""The stages of workload 1: each stage runs with all stages before it, and the difference is its time."""

import resource
from collections import deque
from collections.abc import Callable, Iterable
from statistics import median

from assay.fep.execution.execute import Execution, ExecutionOptions
from assay.fep.outputs.sinks import JsonlSink
from assay.fep.planning.request import plan_of
from assay.fep.planning.scorer import ScoredCase
from assay.fep.planning.sources import checks_in, from_contexts
from assay.host import parts
from assay.inputs.files import read_items
from assay.results.tally import Tally
from assay.settings import load
from bench.files import Bench


def stage_table(bench: Bench) -> str:
    many = 10_000
    lines = ["| stage of workload 1 | µs a case |", "|---|--:|"]
    before = 0.0
    for name, spent in stages(bench, many):
        lines.append(f"| {name} | {(spent - before) / many * 1e6:.1f} |")
        before = spent
    lines.append(f"| all | {before / many * 1e6:.1f} |")
    return "\n".join(lines)


def stages(bench: Bench, many: int) -> list[tuple[str, float]]:
    """Return the CPU seconds up to the end of each stage, in order."""
    task = bench.task(many)
    settings = load()
    limits, services = settings.limits, parts.services(settings)
    plan = plan_of(checks_in(task.checks or "", limits), parts.registry(settings), services)

    def contexts() -> Iterable[object]:
        return from_contexts(task.contexts, limits, None)

    def scored() -> Iterable[ScoredCase]:
        cases = from_contexts(task.contexts, limits, None)
        return Execution(plan, cases, Tally(), ExecutionOptions()).score_in_place()

    def written() -> Iterable[object]:
        sink = JsonlSink(task.to)
        for one in scored():
            sink.write(one.line)
            yield None
        sink.flush()

    works: dict[str, Callable[[], Iterable[object]]] = {
        "reading lines": lambda: read_items(task.contexts, limits),
        "decoding, and seeing that it is a context": contexts,
        "values, checks, and the bytes of the result": scored,
        "writing": written,
    }
    taken = [[_cpu(work) for work in works.values()] for _ in range(bench.rounds(15))]
    return list(zip(works, map(median, zip(*taken, strict=True)), strict=True))


def _cpu(work: Callable[[], Iterable[object]]) -> float:
    before = resource.getrusage(resource.RUSAGE_SELF)
    deque(work(), maxlen=0)
    after = resource.getrusage(resource.RUSAGE_SELF)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
