"""
Adds up the results of an engine: `python summary.py results`. Each file is read alone, so memory does not grow.

All results of a case must stand in one file.
"""

import sys
from pathlib import Path

import pyarrow.parquet

from assay import batch


def main(results: str) -> None:
    files = sorted(Path(results).glob("*.parquet"))
    total = batch.summarize(batch.summarize([pyarrow.parquet.read_table(file)]) for file in files)
    rate = total.pass_rate
    print(f"{total.cases:,} cases: {rate.rate:.3f} pass ({rate.low:.3f} to {rate.high:.3f})")
    for name, counts in total.checks.items():
        print(f"{name}: {counts.passed:,} passed, {counts.failed:,} failed, {counts.error:,} not measured")


if __name__ == "__main__":
    main(*sys.argv[1:])
