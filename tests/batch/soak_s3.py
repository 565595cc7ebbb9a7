"""
Runs on a cluster with input and results on S3: `python -m pytest tests/batch/soak_s3.py`.

The server is moto, in an environment of its own with s3fs. A proxy before it plants faults.
"""

import json
import subprocess
import tomllib

import pytest

from support.agents.frameworks.environments import ROOT, environment_variables, python_with
from support.servers.s3 import Proxy, s3_server

ROWS, FILES = 2_000, 4
PROGRAM = """
import sys
from assay.batch import dataset_parts
dataset_parts.plan_parts.__defaults__ = (16_000,)  # many parts of few rows
from assay.cli.main import main
sys.argv[0] = "assay"
main()
"""
MAKE = """
import io, json, sys
import fsspec
import pyarrow, pyarrow.parquet
files, rows = int(sys.argv[1]), int(sys.argv[2])
store = fsspec.filesystem("s3")
store.mkdir("answers-of-all")
for number in range(files):
    cases = [
        {"id": f"case-{number}-{at}", "input": "q", "output": "Paris" if at % 4 else "Lyon"}
        for at in range(rows // files)
    ]
    lines = "".join(json.dumps(case) + "\\n" for case in cases)
    store.pipe_file(f"answers-of-all/lines/in-{number}.jsonl", lines.encode())
    file = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(cases), file, row_group_size=50)
    store.pipe_file(f"answers-of-all/tables/in-{number}.parquet", file.getvalue())
"""
READ = """
import sys
import fsspec, pyarrow.parquet
store = fsspec.filesystem("s3")
ids = []
for path in store.glob(sys.argv[1] + "/part-*.parquet"):
    with store.open(path) as file:
        ids += pyarrow.parquet.read_table(file)["id"].to_pylist()
print(len(ids), len(set(ids)))
"""


@pytest.fixture(scope="module")
def python():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needs = [*project["dependencies"], *project["optional-dependencies"]["cluster"]]
    return str(python_with("s3", [*needs, "s3fs", "moto[server]"]))


class Place:
    """A bucket behind a proxy, with a folder of a command."""

    def __init__(self, python, folder, proxy):
        self.python, self.folder, self.proxy = python, folder, proxy
        self.environ = environment_variables() | {
            "AWS_ENDPOINT_URL": proxy.url,
            "AWS_ACCESS_KEY_ID": "nobody",
            "AWS_SECRET_ACCESS_KEY": "nothing",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_MAX_ATTEMPTS": "2",
            "AWS_EC2_METADATA_DISABLED": "true",
        }
        (folder / "checks.json").write_text('[{"contains": "Paris"}]')
        self.run(MAKE, FILES, ROWS)

    def run(self, program, *arguments, **environ):
        return subprocess.run(
            [self.python, "-c", program, *map(str, arguments)],
            cwd=self.folder, env=self.environ | environ, text=True, capture_output=True, check=program != PROGRAM,
        )  # fmt: skip

    def evaluate(self, contexts, *options, **environ):
        source = contexts if "://" in contexts else f"s3://answers-of-all/{contexts}"
        return self.run(
            PROGRAM, "evaluate", "--contexts", source, "--checks", "checks.json",
            "-o", "s3://answers-of-all/results", "--cluster", "dask", "--json", *options, **environ,
        )  # fmt: skip

    def rows(self):
        """The number of the rows of the results, and of their ids."""
        return tuple(map(int, self.run(READ, "answers-of-all/results").stdout.split()))

    @property
    def manifest(self):
        program = "import fsspec; print(fsspec.open('s3://answers-of-all/results/_manifest.json').open().read().decode())"
        return json.loads(self.run(program).stdout)


@pytest.fixture
def place(python, tmp_path):
    with s3_server(python, tmp_path) as port, Proxy(port) as proxy:
        yield Place(python, tmp_path, proxy)


def faults_of_every_kind():
    """One request of seven meets a fault. A request that is repeated meets the next turn."""
    turns = iter(range(10**9))

    def fault(method, path):
        turn = next(turns)
        return None if turn % 7 else (503, "cut", "slow")[turn // 7 % 3]

    return fault


@pytest.mark.parametrize("contexts", ["lines/*.jsonl", "tables/*.parquet"])
def test_every_row_is_scored_once_by_a_store_with_faults(place, contexts):
    place.proxy.written.clear()
    place.proxy.fault = faults_of_every_kind()
    done = place.evaluate(contexts)
    place.proxy.fault = lambda method, path: None
    assert {fault for fault, _, _ in place.proxy.planted} == {503, "cut", "slow"}
    first = done
    if done.returncode == 1:  # a part met a fault at each attempt
        assert place.manifest["set_aside"], done.stderr
        done = place.evaluate(contexts, "--resume")
    assert done.returncode == 0, first.stderr + done.stderr
    assert json.loads(done.stdout)["checks"]["contains"]["passed"] == ROWS * 3 // 4
    assert place.rows() == (ROWS, ROWS)
    assert place.manifest["set_aside"] == []
    written = place.proxy.written
    assert written[-1].endswith("_manifest.json")
    for path in written:
        if "_finished/" in path:
            results = path.replace("_finished/", "").replace(".json", ".parquet")
            assert written.index(results) < written.index(path)


def test_a_file_that_cannot_be_read_costs_its_parts_until_it_can(place):
    place.proxy.fault = lambda method, path: 503 if method == "GET" and "in-2.jsonl" in path else None
    done = place.evaluate("lines/*.jsonl")
    assert done.returncode == 1, done.stderr
    aside = place.manifest["set_aside"]
    assert aside
    assert all("in-2.jsonl" in one["part"] and one["reason"].startswith("its task failed") for one in aside)
    assert all(one["part"] in " ".join(done.stderr.split()) for one in aside)
    assert place.rows() == (ROWS * 3 // 4,) * 2
    place.proxy.fault = lambda method, path: None
    done = place.evaluate("lines/*.jsonl", "--resume")
    assert done.returncode == 0, done.stderr
    assert "already has" in done.stderr
    assert place.rows() == (ROWS, ROWS)
    assert place.manifest["set_aside"] == []


def test_results_that_cannot_be_written_leave_no_marker(place):
    place.proxy.fault = lambda method, path: (
        "cut" if method == "PUT" and "part-000001.parquet" in path else None
    )
    done = place.evaluate("tables/*.parquet")
    assert done.returncode == 1, done.stderr
    (aside,) = place.manifest["set_aside"]
    assert aside["part"].startswith("part 1: ")
    assert not [path for path in place.proxy.written if "part-000001" in path]


@pytest.mark.parametrize(
    ("contexts", "environ", "code", "message"),
    [
        ("s3://no-such-bucket/*.jsonl", {}, 2, "expected files with cases, got 0 files"),
        ("lines/none.jsonl", {}, 2, "answers-of-all/lines/none.jsonl: there is no such file"),
        ("lines/*.jsonl", {"AWS_ENDPOINT_URL": "http://127.0.0.1:1"}, 1, "expected a store that answers, got"),
        ("lines/*.jsonl", {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}, 1, "expected a store that answers, got"),
    ],
)  # fmt: skip
def test_a_store_that_does_not_answer_is_a_line(place, contexts, environ, code, message):
    done = place.evaluate(contexts, **environ)
    assert (done.returncode, message in " ".join(done.stderr.split())) == (code, True), done.stderr
    assert "Traceback" not in done.stderr
    assert "a bug in assay" not in done.stderr
