"""`python -m bench [--quick] [--write] [NAME…]`: measures and prints the table."""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from bench import stages, table
from bench.files import Bench
from bench.measure import Failed, Row
from bench.rows import RUNS


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"some of: {', '.join([*RUNS, 'stages'])}")
    parser.add_argument(
        "--quick",
        action="store_true",
        help="a tenth of the cases, three rounds: a test of the benchmark itself",
    )
    parser.add_argument("--write", action="store_true", help="write the table into docs/performance.md too")
    arguments = parser.parse_args()
    names = arguments.names or [*RUNS, "stages"]
    if unknown := set(names) - {*RUNS, "stages"}:
        parser.error(f"no {', '.join(sorted(unknown))}; there are {', '.join([*RUNS, 'stages'])}")
    with tempfile.TemporaryDirectory(prefix="assay-bench-") as folder:
        bench = Bench(Path(folder), arguments.quick)
        rows = [row for name in names if name != "stages" for row in measure_rows(name, bench)]
        parts = [table.table(rows)] if rows else []
        parts += [stages.stage_table(bench)] if "stages" in names else []
    text = "\n\n".join([*parts, table.machine()])
    print(text)
    if arguments.write and {*RUNS, "stages"} <= {*names}:
        table.write(text)
    elif arguments.write:
        table.renew(rows)


def measure_rows(name: str, bench: Bench) -> list[Row]:
    began = time.monotonic()
    try:
        rows = RUNS[name](bench)
        print(table.table(rows), file=sys.stderr)  # an interrupted run keeps its rows
        return rows
    except Failed as failed:  # report this one and continue with the others
        print(f"bench: {name}: {failed}", file=sys.stderr)
        return [Row(name, "at most", 0.0, note="failed: see standard error")]
    finally:
        print(f"bench: {name}: {time.monotonic() - began:.0f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
