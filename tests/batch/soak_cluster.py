"""
Runs on a real cluster of Dask: `python -m pytest tests/batch/soak_cluster.py`.

A scheduler has four worker processes. Some of them are killed, and one part kills every worker that it meets.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from contextlib import ExitStack, closing, contextmanager, suppress

import distributed  # pyright: ignore[reportMissingTypeStubs]
import pyarrow.parquet  # pyright: ignore[reportMissingTypeStubs]
import pytest

from support.models.judges import configure, judge
from support.models.provider_server import ProviderServer
from support.waiting import wait_until

ROWS = 2_000
PROGRAM = """
import sys
from assay.batch import dataset_parts
dataset_parts.plan_parts.__defaults__ = (8_000,)  # many parts of few rows
from assay.cli.main import main
sys.argv[0] = "assay"
main()
"""
DEADLY = '''
import os
import signal
import time

import assay
from assay import Answer


def deaths():
    """How often this was called before."""
    with open("deaths", "a") as file:
        file.write("x")
        return file.tell() - 1


class Deadly(assay.Checker):
    """It takes its time, and kills its process if the text says so."""

    type = "deadly"
    text: str

    def run(self, services) -> Answer:
        if self.text == "die" or (self.text == "unlucky" and deaths() < 2):
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(0.002)
        return {"passed": self.text in ("Paris", "unlucky")}
'''


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "checks.json").write_text('[{"type": "deadly", "arguments": {"text": "$.output.value"}}]')
    (tmp_path / "deadly.py").write_text(DEADLY)
    return tmp_path


def write_rows(folder, deadly=(), unlucky=()):
    with (folder / "in.jsonl").open("w") as file:
        for at in range(ROWS):
            value = "die" if at in deadly else "unlucky" if at in unlucky else "Paris" if at % 4 else "Lyon"
            case = {"id": f"case-{at}", "input": "q"}
            file.write(json.dumps({"test_case": case, "output": {"value": value}}) + "\n")


@pytest.fixture
def cluster(folder):
    """A scheduler, which sets a task aside after it met a second death, and the processes of four workers."""
    environ = {**os.environ, "PYTHONPATH": str(folder), "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "1"}
    with ExitStack() as running:

        def start(*arguments):
            process = subprocess.Popen(
                [sys.executable, "-m", "distributed.cli." + arguments[0], *arguments[1:]],
                cwd=folder, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )  # fmt: skip
            running.callback(process.wait)
            running.callback(process.kill)
            return process

        place = folder / "scheduler.json"
        start(
            "dask_scheduler",
            "--host",
            "127.0.0.1",
            "--port",
            "0",
            "--no-dashboard",
            "--scheduler-file",
            str(place),
        )
        wait_until(
            lambda: place.exists() and place.read_text().endswith("}")
        )  # it is there before it is written
        address = json.loads(place.read_text())["address"]
        options = ["--host", "127.0.0.1", "--nthreads", "1", "--no-nanny", "--no-dashboard"]
        yield address, [start("dask_worker", address, *options) for _ in range(4)], start, options


def evaluate(folder, *options):
    arguments = [
        "evaluate",
        "--contexts",
        str(folder / "in.jsonl"),
        "--checks",
        "checks.json",
        "-o",
        str(folder / "out"),
    ]
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *arguments, "--check-module", "deadly:Deadly", "--cluster", "dask", *options, "--json"],
        cwd=folder, env={**os.environ, "PYTHONPATH": str(folder)}, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def finished(folder):
    return len(list((folder / "out/_finished").glob("*.json")))


def ids_in(folder):
    return sorted(pyarrow.parquet.read_table(folder / "out")["id"].to_pylist())


def test_killed_workers_cost_only_their_parts(folder, cluster):
    address, workers, _, _ = cluster
    write_rows(folder)
    process = evaluate(folder, "--scheduler", address)
    for killed, parts in ((workers[0], 3), (workers[1], 12)):
        wait_until(lambda parts=parts: finished(folder) >= parts or process.poll() is not None)
        killed.send_signal(signal.SIGKILL)
    out, err = process.communicate()
    assert process.returncode == 0, err
    assert json.loads(out)["checks"]["deadly"]["passed"] == ROWS * 3 // 4
    assert ids_in(folder) == sorted(f"case-{at}" for at in range(ROWS))
    assert json.loads((folder / "out/_manifest.json").read_text())["set_aside"] == []


@contextmanager
def dead_workers_replaced(cluster):
    """As a nanny or Kubernetes does."""
    address, workers, start, options = cluster
    over = threading.Event()

    def replace_dead():
        while not over.wait(0.2):
            for at, worker in enumerate(workers):
                if worker.poll() is not None:
                    workers[at] = start("dask_worker", address, *options)

    keeper = threading.Thread(target=replace_dead)
    keeper.start()
    try:
        yield address
    finally:
        over.set()
        keeper.join()


def test_a_part_that_kills_workers_is_set_aside_and_named(folder, cluster):
    write_rows(folder, deadly={1_000})
    with dead_workers_replaced(cluster) as address:
        process = evaluate(folder, "--scheduler", address)
        out, err = process.communicate()
    assert process.returncode == 1, err
    manifest = json.loads((folder / "out/_manifest.json").read_text())
    (aside,) = manifest["set_aside"]
    assert aside["reason"] == "its workers were lost, also when it was alone"
    assert "in.jsonl, bytes" in aside["part"]
    assert f"set aside and not measured: {aside['part']}" in " ".join(err.split())
    assert manifest["results"] > ROWS - 200
    assert "partial" in json.loads(out)


def test_a_part_that_was_on_two_lost_workers_is_scored_alone(folder, cluster):
    """Somebody stopped both, such as for their price."""
    write_rows(folder, unlucky={1_001})
    with dead_workers_replaced(cluster) as address:
        process = evaluate(folder, "--scheduler", address)
        out, err = process.communicate()
    assert process.returncode == 0, err
    assert (folder / "deaths").read_text() == "xxx"
    assert json.loads(out)["checks"]["deadly"]["passed"] == ROWS * 3 // 4
    assert json.loads((folder / "out/_manifest.json").read_text())["set_aside"] == []


def test_workers_that_join_later_keep_to_the_limits_of_a_provider(folder, cluster):
    address, workers, start, options = cluster
    write_rows(folder)
    (folder / "checks.json").write_text(json.dumps([judge("Polite? {{$.output.value}}")]))
    with ProviderServer() as server, distributed.Client(address, set_as_default=False) as client:
        client.wait_for_workers(len(workers))
        configure(folder, server, {"judge": "local:slow:0.02"}, max_concurrency=len(workers))
        process = evaluate(folder, "--scheduler", address)
        wait_until(lambda: finished(folder) >= 1 or process.poll() is not None)
        for _ in workers:
            start("dask_worker", address, *options)
        client.wait_for_workers(2 * len(workers))
        before = finished(folder)
        out, err = process.communicate()
    assert process.returncode == 0, err
    assert before < finished(folder) - 2 * len(workers)  # the others joined long before the end
    assert json.loads(out)["checks"]["llm_judge"]["passed"] == ROWS
    assert server.most_at_once == len(workers)


def test_a_local_cluster_and_what_is_there_already(folder):
    write_rows(folder)
    with closing(socket.socket()) as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with suppress(OSError):  # another program may have it already
            other.bind(("", 8787))  # as another cluster of this machine
            other.listen()
        whole = evaluate(folder)
        out, err = whole.communicate()
    assert whole.returncode == 0, err
    assert "8787" not in err
    again = evaluate(folder, "--resume")
    resumed, err = again.communicate()
    assert again.returncode == 0, err
    assert "already has" in err
    first, second = json.loads(out), json.loads(resumed)
    assert first["checks"] == second["checks"]
