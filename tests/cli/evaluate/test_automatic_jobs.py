"""Without --jobs, workers continue a long run: the same bytes as one process, and one process where it must be one."""

import gzip
import json
import os
import re
import signal
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from assay.cli.evaluate import automatic_jobs, jobs
from assay.cli.evaluate.evaluate import main
from assay.cli.evaluate.evaluate_options import EvaluateOptions
from assay.concurrency.workers.machine import available_cores, available_memory
from assay.fep.planning.plan import Plan
from assay.fep.planning.request import checks_from
from assay.host import parts
from assay.settings import load

CHECKS = [
    {
        "type": "exact_match",
        "arguments": {"actual": "$.output.value.answer", "expected": "$.test_case.expected"},
    },
    {"type": "threshold", "arguments": {"value": "$.output.value.score", "min_value": 0.5}},
]
END = re.compile(rb',"metadata":\{"run":\{[^}]*\}\}')  # the last line of a file has it
CLOCKS = re.compile(rb'"(evaluated_at|started_at|completed_at|evaluation_id)":"[^"]*"|\d{4}-\d\d-\d\dT[^,"]*')


def context(at, *, score=True, tag="a"):
    value = {"answer": f"answer {at}", **({"score": at % 10 / 10} if score else {})}
    case = {"id": str(at), "input": at, "expected": f"answer {at - at % 2}", "metadata": {"tags": [tag]}}
    return json.dumps({"test_case": case, "output": {"value": value}}).encode()


FORMS = {
    "good": context,
    "error": lambda at: context(at, score=False),  # the path of a check finds nothing
    "tag": lambda at: context(at, tag="b"),
    "carriage return": lambda at: context(at).replace(b": ", b":\r"),  # JSON allows it between tokens
    "blank": lambda at: b"  ",
    "repeated": lambda at: context(1),
}
BAD = {"not JSON": lambda at: b"{", "another shape": lambda at: b'{"test_case": {}}'}


@pytest.fixture(scope="module")
def folder(tmp_path_factory, zygote):
    """Runs are divided after the first case, into small ranges, among two workers that the fork server starts."""
    folder = tmp_path_factory.mktemp("automatic")
    (folder / "checks.json").write_text(json.dumps(CHECKS))
    before = Path.cwd()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"HEAD_SECONDS": 0, "WORTH_SECONDS": 0, "MIN_BYTES": 1, "EVERY": 1}.items():
            patch.setattr(automatic_jobs, name, value)
        patch.setattr(automatic_jobs, "available_cores", lambda: 2)
        patch.setattr(jobs, "FIRST_RANGE", 700)
        patch.setattr(jobs, "MAX_RANGE", 1500)
        patch.setattr(sys, "executable", str(zygote.worker))
        os.chdir(folder)
        yield folder
        os.chdir(before)


def evaluate(**options):
    return main(EvaluateOptions(contexts="cases.jsonl", checks="checks.json", **options))


@pytest.fixture
def starts(monkeypatch):
    """The numbers of workers that were started."""
    counts = list[int]()
    start = jobs._start_workers
    monkeypatch.setattr(
        jobs, "_start_workers", lambda config, count: counts.append(count) or start(config, count)
    )
    return counts


@settings(
    max_examples=5,
    phases=[Phase.explicit, Phase.generate],
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    forms=st.lists(st.sampled_from(sorted(FORMS)), min_size=30, max_size=60),
    bad=st.dictionaries(st.integers(0, 59), st.sampled_from(sorted(BAD)), max_size=2),
    files=st.lists(st.sampled_from(["jsonl", "json", "csv", "-"]), min_size=0, max_size=3, unique=True),
    flags=st.fixed_dictionaries({
        "skip_bad_lines": st.booleans(), "allow_errors": st.booleans(), "resolved_arguments": st.booleans(),
        "by": st.sampled_from([[], ["tag"]]), "bars": st.sampled_from([[], ["0.9"], ["tag:a=0.1"]]),
    }),
    ends=st.sampled_from([b"", b"\n"]),
)  # fmt: skip
def test_law_the_bytes_are_those_of_one_process(folder, starts, capfd, forms, bad, files, flags, ends):
    starts.clear()
    lines = [
        context(-1),
        *((BAD[bad[at]] if at in bad else FORMS[form])(at) for at, form in enumerate(forms)),
        context(99),
    ]
    Path("cases.jsonl").write_bytes(b"\xef\xbb\xbf" + b"\n".join(lines) + ends)
    outcomes = []
    for count in (1, None):
        to = [name if name == "-" else f"out.{name}" for name in files]
        code = evaluate(to=to, jobs=count, json=True, **flags)
        out, err = capfd.readouterr()
        outcomes.append((code, CLOCKS.sub(b"", re.sub(r'"seconds":[\d.]+', "", out + err).encode())))
        outcomes += [CLOCKS.sub(b"", Path(name).read_bytes()) for name in to if name != "-"]
    assert outcomes[: len(outcomes) // 2] == outcomes[len(outcomes) // 2 :]
    assert starts


def test_an_interrupted_run_leaves_a_prefix_and_can_be_resumed(folder, starts, monkeypatch, capfd):
    Path("cases.jsonl").write_bytes(b"".join(context(at) + b"\n" for at in range(200)))
    assert evaluate(to=["whole.jsonl"], jobs=1) == 0
    whole = CLOCKS.sub(b"", Path("whole.jsonl").read_bytes())
    write, workers, calls = jobs.JobScheduler._write, [], []

    def stop(scheduler):
        write(scheduler)
        workers[:] = scheduler._workers
        calls.append(1)
        if len(calls) == 3:
            os.kill(os.getpid(), signal.SIGTERM)  # the command treats it as Ctrl-C

    monkeypatch.setattr(jobs.JobScheduler, "_write", stop)
    assert evaluate(to=["part.jsonl"]) == 1
    assert "interrupted after " in capfd.readouterr().err
    part = CLOCKS.sub(b"", Path("part.jsonl").read_bytes())
    assert END.sub(b"", whole).startswith(END.sub(b"", part))
    assert END.search(part)[
        0
    ] == b',"metadata":{"run":{"planned":200,"results":%d,"complete":false}}' % part.count(b"\n")
    assert part.endswith(b"\n")
    assert all(worker.process.returncode is not None for worker in workers)
    monkeypatch.setattr(jobs.JobScheduler, "_write", write)
    starts.clear()
    assert evaluate(to=["part.jsonl"], resume=True) == 0
    assert CLOCKS.sub(b"", Path("part.jsonl").read_bytes()) == whole
    assert starts == [2]


def test_workers_that_cannot_start_leave_the_run_to_one_process(folder, monkeypatch, capfd):
    Path("cases.jsonl").write_bytes(b"".join(context(at) + b"\n" for at in range(50)))
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    assert evaluate(to=["alone.jsonl"]) == 0
    assert "2 processes do not start (No such file or directory)" in capfd.readouterr().err
    assert Path("alone.jsonl").read_bytes().count(b"\n") == 50


def test_a_file_that_is_replaced_meanwhile_is_read_to_its_end(folder, starts, monkeypatch):
    Path("cases.jsonl").write_bytes(b"".join(context(at) + b"\n" for at in range(50)))
    find = automatic_jobs.Head._is_worth

    def replace(head, seconds):
        Path("other.jsonl").write_bytes(context(0) + b"\n")
        Path("other.jsonl").rename("cases.jsonl")
        return find(head, seconds)

    monkeypatch.setattr(automatic_jobs.Head, "_is_worth", replace)
    assert evaluate(to=["replaced.jsonl"]) == 0
    assert Path("replaced.jsonl").read_bytes().count(b"\n") == 50
    assert starts == []


MINE = """
import assay
class Mine(assay.Checker):
    type = "mine"
    waits = False
    def run(self, services): return {"passed": True}
"""


@pytest.mark.parametrize(
    ("options", "checks", "workers"),
    [
        ({}, CHECKS, [2]),
        ({"jobs": 1}, CHECKS, []),
        ({"contexts": "cases.jsonl.gz"}, CHECKS, []),
        ({"contexts": "cases.json"}, CHECKS, []),
        ({"contexts": "/dev/fd/9"}, CHECKS, []),
        ({"limit": 5}, CHECKS, []),
        ({"fail_fast": True}, CHECKS, []),
        ({"modules": ["mine.py:Mine"]}, [{"type": "mine", "arguments": {}}], []),  # it may hold state
        ({"modules": ["mine.py:Mine"], "jobs": 2}, [{"type": "mine", "arguments": {}}], [2]),
        ({"modules": ["mine.py:Mine"]}, CHECKS, [2]),
        ({}, [CHECKS] * 50, []),
    ],
    ids=str,
)  # fmt: skip
def test_files_and_their_checks_decide_the_number_of_workers(folder, starts, options, checks, workers):
    lines = b"".join(context(at) + b"\n" for at in range(50))
    Path("cases.jsonl").write_bytes(lines)
    Path("cases.jsonl.gz").write_bytes(gzip.compress(lines))
    Path("cases.json").write_text(json.dumps([json.loads(line) for line in lines.splitlines()]))
    Path("mine.py").write_text(MINE)
    Path("which.json").write_text(json.dumps(checks))
    options = {"contexts": "cases.jsonl", "checks": "which.json", "to": ["which.jsonl"], **options}
    if options["contexts"].startswith("/dev"):
        Path("linked.jsonl").unlink(missing_ok=True)
        Path("linked.jsonl").symlink_to("cases.jsonl")
        options["contexts"] = f"/proc/self/cwd/{'linked.jsonl'}"
    assert main(EvaluateOptions(**options)) == 0
    assert starts == workers
    assert Path("which.jsonl").read_bytes().count(b"\n") == options.get("limit", 50)


def plan_of(checks):
    chosen = load()
    return Plan(checks_from(checks), parts.registry(chosen), parts.services(chosen))


def test_the_number_of_processes(folder, monkeypatch):
    Path("cases.jsonl").write_bytes(context(1))
    plan, options = plan_of(CHECKS), EvaluateOptions(contexts="cases.jsonl")

    def number(**changed):
        return automatic_jobs.automatic_jobs(plan, options, load(**changed))

    monkeypatch.setattr(automatic_jobs, "available_cores", lambda: 8)
    monkeypatch.setattr(automatic_jobs, "available_memory", lambda: 1 << 40)
    assert [number(), number(jobs=1), number(jobs=3), number(jobs=99)] == [8, 1, 3, 8]
    monkeypatch.setattr(automatic_jobs, "available_memory", lambda: 5 * automatic_jobs.WORKER_MEMORY)
    assert number() == 5
    monkeypatch.setattr(automatic_jobs, "available_memory", lambda: 0)
    assert number() == 1
    monkeypatch.setattr(automatic_jobs, "available_memory", lambda: None)
    full = SimpleNamespace(free=automatic_jobs.WORKER_DISK // 2)
    monkeypatch.setattr(automatic_jobs.shutil, "disk_usage", lambda name: full)
    assert number() == 1
    plan = plan_of([{"type": "semantic_similarity", "arguments": {"text": "$.output", "reference": "x"}}])
    assert number() == 1
    monkeypatch.setattr(automatic_jobs, "MIN_BYTES", 1 << 20)
    plan = plan_of(CHECKS)
    assert number() == 1  # a small file


@pytest.mark.parametrize(
    ("files", "cores", "memory"),
    [
        ({}, None, None),
        ({"proc/meminfo": "MemTotal: 9 kB\nMemAvailable: 4 kB"}, None, 4096),
        ({"sys/fs/cgroup/cpu.max": "100000 100000", "sys/fs/cgroup/memory.max": "max"}, 1, None),
        ({"sys/fs/cgroup/cpu.max": "50000 100000"}, 1, None),  # half a core
        ({"sys/fs/cgroup/cpu.max": "max 100000"}, None, None),
        ({"sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1", "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000"}, None, None),
        ({"sys/fs/cgroup/cpu/cpu.cfs_quota_us": "1000", "sys/fs/cgroup/cpu/cpu.cfs_period_us": "1000"}, 1, None),
        (
            {
                "proc/self/cgroup": "0::/a/b", "sys/fs/cgroup/a/cpu.max": "1 1",
                "sys/fs/cgroup/a/b/memory.max": "1000", "sys/fs/cgroup/a/b/memory.current": "900",
                "sys/fs/cgroup/a/b/memory.stat": "anon 1\ninactive_file 50",
            },
            1, 150,
        ),
        ({"sys/fs/cgroup/cpu.max": "what 0"}, None, None),
    ],
)  # fmt: skip
def test_the_machine_is_what_the_container_allows(tmp_path, files, cores, memory):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert available_cores(tmp_path) == (cores or len(os.sched_getaffinity(0)))
    assert available_memory(tmp_path) == memory
