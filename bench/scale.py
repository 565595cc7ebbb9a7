"""
`make scale`: what grows with the number of runs, of results and of workers. It prints the tables of docs/scaling.md.

    make scale ARGS="--runs 1000000 --results 1000000 --units 2000 --write"
"""

import argparse
import sys
import tempfile
import time
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

from bench import run_sizes, store_calls, table, worker_fleet
from bench.database import open_database
from bench.files import Bench
from bench.measure import HOME, Row
from bench.population import Population, Template, fill, make_templates

PAGE = HOME / "docs" / "scaling.md"
PARTS = ("store", "sizes", "workers")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.scale", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"some of: {', '.join(PARTS)}")
    parser.add_argument("--runs", type=int, default=20_000, help="runs of the large store")
    parser.add_argument("--postgres-runs", type=int, help="the same on PostgreSQL; without it, as many")
    parser.add_argument("--results", type=int, default=10_000, help="results of the largest run")
    parser.add_argument("--units", type=int, default=200, help="units of a run on workers")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--folder", type=Path, help="a folder for the stores; those in it are used again")
    parser.add_argument("--write", action="store_true", help="write the tables into docs/scaling.md too")
    arguments = parser.parse_args()
    parts = arguments.parts or PARTS
    if unknown := set(parts) - {*PARTS}:
        parser.error(f"no {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    with tempfile.TemporaryDirectory(prefix="assay-scale-") as temporary:
        folder = Path(temporary)
        for part in parts:
            began = time.monotonic()
            if part == "store":
                text = _store(arguments, arguments.folder or folder)
            elif part == "sizes":
                text = _sizes(Bench(folder), arguments.results)
            else:
                text = worker_fleet.fleet_table(worker_fleet.measure(folder / "fleet", arguments.units))
            text += f"\n\n{_origin()}"
            print(f"{text}\n", flush=True)
            print(f"scale: {part}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
            if arguments.write:
                write(part, text)


def write(part: str, text: str, page: Path = PAGE) -> None:
    """Write a table between the markers of its part."""
    begin, end = f"<!-- scale {part}: begin -->", f"<!-- scale {part}: end -->"
    before, found, rest = page.read_text("utf-8").partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise ValueError(f"{page.name} has no markers for the table: {begin} … {end}")
    page.write_text(f"{before}{begin}\n{text}\n{end}{after}", "utf-8")


def _store(arguments: argparse.Namespace, folder: Path) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="assay-scale-") as temporary:
        templates = make_templates(Path(temporary))
    few, many = (_sqlite(folder, templates, count) for count in (store_calls.FEW, arguments.runs))
    tables = [
        _compared(
            "SQLite", store_calls.measure(few[0], many[0], (few[1], many[1]), arguments.rounds), many[1]
        )
    ]
    with ExitStack() as stack:
        pairs = list[tuple[str, Population]]()
        for count in (store_calls.FEW, arguments.postgres_runs or arguments.runs):
            address = stack.enter_context(open_database()).address
            pairs.append((address, fill(address, templates, count)))
        few, many = pairs
        rows = store_calls.measure(few[0], many[0], (few[1], many[1]), arguments.rounds)
        tables.append(_compared("PostgreSQL", rows, many[1]))
    return "\n\n".join(tables)


def _sqlite(folder: Path, templates: list[Template], count: int) -> tuple[str, Population]:
    file = folder / f"sqlite-{count}.db"
    address = f"sqlite:///{file}"
    return address, Population(templates, count) if file.exists() else fill(address, templates, count)


def _compared(store: str, rows: list[Row], many: Population) -> str:
    lines = [
        f"| {store}, {many.count:,} runs compared with {store_calls.FEW} | CPU | spread | at most 1.2x | |",
        "|---|--:|--:|---|---|",
    ]
    for row in rows:
        met = "–" if row.bar == float("inf") else ("yes" if row.met else "**no**")
        spread = f"{min(row.values):.2f}–{max(row.values):.2f}"
        lines.append(f"| {row.name} | {row.measured:.2f}x | {spread} | {met} | {row.note} |")
    return "\n".join(lines)


def _sizes(bench: Bench, largest: int) -> str:
    sizes = [size for size in (1_000, 10_000, 100_000, 1_000_000) if size <= largest]
    runs = [run_sizes.run_of_size(bench, size, None) for size in sizes]
    for size in sizes[:3]:
        with open_database() as database:
            runs.append(run_sizes.run_of_size(bench, size, database))
    return f"{run_sizes.size_table(runs)}\n\n{run_sizes.storage_table(runs)}"


def _origin() -> str:
    machine = table.machine().partition(" The straight loop")[0]
    return f"{machine} Measured on {datetime.now(UTC):%Y-%m-%d}, on a machine with other load."


if __name__ == "__main__":
    main()
