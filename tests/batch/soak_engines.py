"""
The examples of engines, on the engines: `python -m pytest tests/batch/soak_engines.py`.

Each has its own environment. Spark needs Java, such as `openjdk-17-jre-headless` of Debian, and is skipped without it.
"""

import shutil
import subprocess
import tomllib
from pathlib import Path

import pyarrow  # pyright: ignore[reportMissingTypeStubs]
import pyarrow.parquet  # pyright: ignore[reportMissingTypeStubs]
import pytest

from support.agents.frameworks.environments import ROOT, environment_variables, python_with
from support.scored_rows import expected_rows, rows_of

EXAMPLES = ROOT / "examples" / "batch"
CHECKS = [{"contains": "$.test_case.expected"}, {"regex": "[.]$"}]  # of the examples
COLUMNS = {"input": "question", "output": "answer"}
FILES, ROWS = 4, 500
ENGINES = {"spark": ["pyspark>=4", "pandas"], "dask": []}


def write_answers(folder):
    """Files with several row groups. Some answers are missing: their checks are errors."""
    folder.mkdir()
    for file in range(FILES):
        rows = [
            {
                "id": f"case-{file}-{at:03}",
                "question": "Capital of France?",
                "answer": None if at % 50 == 7 else "It is Paris." if at % 3 else f"It is Lyon, {at}",
                "expected": "Paris",
            }
            for at in range(ROWS)
        ]
        table = pyarrow.Table.from_pylist(rows)
        pyarrow.parquet.write_table(table, folder / f"{file}.parquet", row_group_size=100)


def python_for(engine):
    if engine == "spark" and shutil.which("java") is None:
        pytest.skip("there is no java: apt-get install openjdk-17-jre-headless")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    return python_with(
        engine, [*project["dependencies"], *extras["tables"], *extras["cluster"], *ENGINES[engine]]
    )


@pytest.mark.parametrize("engine", ENGINES)
def test_an_engine_answers_row_for_row_what_evaluate_does(tmp_path, engine):
    python = python_for(engine)
    write_answers(tmp_path / "answers")

    def run(program, *words):
        return subprocess.run(
            [python, EXAMPLES / program, *words], cwd=tmp_path, text=True, capture_output=True, check=True,
            env=environment_variables() | {"PYSPARK_PYTHON": str(python), "SPARK_LOCAL_IP": "127.0.0.1"},
        )  # fmt: skip

    run(f"{engine}_scores.py", "answers", "results")
    found = pyarrow.concat_tables(map(pyarrow.parquet.read_table, _files(tmp_path / "results")))
    given = pyarrow.concat_tables(map(pyarrow.parquet.read_table, _files(tmp_path / "answers")))
    assert sorted(rows_of(found), key=repr) == sorted(expected_rows(given, CHECKS, COLUMNS), key=repr)
    cases, passed = FILES * ROWS, FILES * sum(at % 3 > 0 and at % 50 != 7 for at in range(ROWS))
    lines = run("summary.py", "results").stdout.splitlines()
    assert lines[0].startswith(f"{cases:,} cases: ")
    assert lines[1].startswith(f"contains: {passed:,} passed, ")


def _files(folder: Path):
    return sorted(folder.glob("*.parquet"))
