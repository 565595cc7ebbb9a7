"""Simulated comparisons: A/A is a false alarm at most as often as stated, and intervals hold the truth. `make soak` has all rounds."""

from math import sqrt
from pathlib import Path

import pytest

from support.stats.coverage_simulation import ALPHA, CELLS, MEDIAN_SIZES, simulate, simulate_medians, table

PAGE = Path(__file__).parents[2] / "docs" / "statistics.md"
ROUNDS, ALL_ROUNDS = 20, 4_000
MEDIAN_ROUNDS, ALL_MEDIAN_ROUNDS = 20, 500


def documented_rows():
    return [
        line
        for line in PAGE.read_text().partition("## How often they are wrong")[2].splitlines()
        if (line.startswith("|") and "·" in line) or "BCa |" in line
    ]


@pytest.fixture(scope="module")
def simulated(series):
    rounds, median_rounds = series(ROUNDS, ALL_ROUNDS), series(MEDIAN_ROUNDS, ALL_MEDIAN_ROUNDS)
    results = {cell: simulate(*cell, rounds) for cell in CELLS}
    return results, {size: simulate_medians(size, median_rounds) for size in MEDIAN_SIZES}


def test_false_alarms_and_coverage(simulated, series):
    results, medians = simulated
    rounds, median_rounds = series(ROUNDS, ALL_ROUNDS), series(MEDIAN_ROUNDS, ALL_MEDIAN_ROUNDS)
    alarms = {cell: found for cell, (found, _) in results.items()}
    most = ALPHA + 3 * sqrt(ALPHA * (1 - ALPHA) / rounds)
    assert {cell: found for cell, found in alarms.items() if found > most} == {}
    coverage = [found for _, found in results.values()]
    print(f"coverage: mean {sum(coverage) / len(coverage):.3f}, minimum {min(coverage):.3f}")  # noqa: T201
    assert sum(coverage) / len(coverage) >= 0.94
    most = ALPHA + 3 * sqrt(ALPHA * (1 - ALPHA) / median_rounds)
    assert {size: found for size, found in medians.items() if found > most} == {}


def test_the_table_in_the_documents_is_that_of_all_rounds(simulated, series):
    """In `make soak` every number; in `make test` the rows, and that the numbers in them satisfy the promise."""
    rows = documented_rows()
    if series(False, True):
        assert rows == [row for row in table(*simulated) if row[2].isdigit()]
        return
    heads = [row.split("|")[1:4] for row in table(*simulated) if row[2].isdigit()]
    assert [row.split("|")[1:4] for row in rows] == heads
    alarms, coverage = (
        [float(one) for row in rows for one in row.split("|")[column].split("·")] for column in (4, 5)
    )
    assert max(alarms) <= ALPHA + 3 * sqrt(ALPHA * (1 - ALPHA) / ALL_MEDIAN_ROUNDS)
    assert sum(coverage) / len(coverage) >= 0.94
    assert (
        f"{min(coverage):.3f}" in PAGE.read_text().split("| cases | kind |")[0]
    )  # the minimum is named in the text
