"""
The memory of a worker over a million rows: `python -m pytest -s tests/batch/soak_cluster_memory.py`.

It holds one part and its results, so it does not grow with the rows. `make bench ARGS=ten_million` has ten million.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # bench is run from the project's folder

from bench.batches import on_dask, write_rows  # pyright: ignore[reportMissingImports]

ROWS = 1_000_000  # of 209 bytes: four parts
MOST = 500  # MB of a worker, with the interpreter, Dask and Arrow


def test_a_worker_needs_bounded_memory(tmp_path):
    watched = on_dask(write_rows(ROWS, tmp_path))
    assert watched.sample.passed == ROWS * 9 // 10
    peaks = [memory for _, memory in watched.workers]
    peaks_text = ", ".join(f"{one:.0f} MB" for one in peaks)
    cpu = sum(cpu for cpu, _ in watched.workers) / ROWS * 1e6
    print(f"\n{ROWS:,} rows in {watched.sample.wall:.0f} s, {cpu:.0f} µs a row, workers of {peaks_text}")  # noqa: T201
    assert peaks
    assert max(peaks) < MOST
