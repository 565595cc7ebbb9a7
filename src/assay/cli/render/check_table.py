"""The table of an evaluation: per check how many cases passed, failed, errored or were skipped, with 95% intervals."""

from collections.abc import Collection, Sequence
from typing import Any

from assay.cli.console.console import case_count, count_of
from assay.cli.console.console_table import Page, Table, cell
from assay.cli.render.repeats import repeat_line, select_ks
from assay.results.case_answers import CheckTally
from assay.results.spending import Spending
from assay.results.statistics import CheckStatistics, Statistics
from assay.results.tally import Tally
from assay.stats.intervals import METHOD_NAMES, Mean, Method, Rate
from assay.stats.number_text import format_usd, percent, range_text, rate_text, value_text

MAX_VALUES = 4  # values of a check that has no pass or fail
FOLDED_WIDTH = 24  # columns that folded values need beside the counts
RATE = "pass rate (95%)"
SHORTEST_LABEL = 12  # columns of a name that folds
MAX_REASONS = 10  # checks whose first error is printed


def mean(value: Mean) -> str:
    """
    `mean 0.8 (0.61–0.99) of 12`, and the number of cases if some are repeated; `too few cases` instead of limits.
    """
    interval = METHOD_NAMES[value.method]
    if value.low is not None:
        interval = range_text(value.low, value.high, "number")
    cases = "" if value.cases == value.of else f" in {count_of(value.cases, 'case')}"
    return f"mean {value_text(value.mean, 'number')} ({interval}) of {value.of:,}{cases}"


def methods_of(tally: Tally) -> list[Method]:
    """The methods of all intervals of a table."""
    statistics = tally.statistics()
    if statistics is None:
        return []
    rates: list[Rate | None] = [one.pass_rate for one in statistics.checks.values()]
    rates += [statistics.pass_rate, statistics.case_pass_rate]
    rates += [*statistics.pass_k.values(), *statistics.pass_at_k.values()]
    methods: list[Method] = [one.method for one in rates if one is not None]
    return methods + [one.method for check in statistics.checks.values() for one in check.means.values()]


def show(
    tally: Tally,
    *,
    min_pass_rate: float | None,
    seconds: float,
    experiment: str | None = None,
    noun: str = "case",
    ks: Sequence[int] = (),
) -> None:
    """Print the table and what follows it on standard output. `ks` are those of --k."""
    page, repeated = Page(), repeat_lines(tally.statistics(), ks)
    summary = tally.summary()
    title = f"{experiment}: " if experiment else ""
    cases = case_count(tally.distinct_cases, tally.cases, noun)
    page.put(f"{title}{cases}, {count_of(summary.total_checks or 0, 'check')} in {seconds:.1f} s")
    if tally.rows:
        _put_rows(page, tally)
    if (rated := _overall(tally, min_pass_rate)) is not None:
        page.put(rated)
    if (cases := case_line(tally.statistics())) is not None:
        page.put(cases)
    for line in repeated:
        page.put(line)
    if (spending := cost(tally.spending)) is not None:
        page.put(spending)
    if (unmeasured := _unmeasured_line(tally)) is not None:
        page.put(unmeasured, "yellow")
    for reason in _reasons(tally):
        page.put(reason)


def shortfalls(tally: Tally, min_pass_rate: float | None) -> list[str]:
    """What is wrong with a run, for output without a table: what was not measured, and a rate below the bar."""
    lines = [] if (unmeasured := _unmeasured_line(tally)) is None else [unmeasured, *_reasons(tally)]
    rated = tally.pass_rate()
    if min_pass_rate is not None and rated is not None and rated.rate < min_pass_rate:
        lines.append(str(_overall(tally, min_pass_rate)))
    return lines


def _overall(tally: Tally, min_pass_rate: float | None) -> str | None:
    rated = tally.pass_rate()
    if rated is None:
        return None
    text = f"pass rate {rate_text(rated)} over {count_of(rated.cases, 'case')}"
    if min_pass_rate is None:
        return text
    return f"{text}, {'at least' if rated.rate >= min_pass_rate else 'below'} the bar of {percent(min_pass_rate)}"


def case_line(statistics: Statistics | None) -> str | None:
    """`2 of 3 cases passed all their checks: 66.7% (…)`; None if every case has one check, so the pass rate says it."""
    rated = statistics.case_pass_rate if statistics else None
    if rated is None or statistics is None or statistics.pass_rate == rated:
        return None
    cases = count_of(rated.cases, "case")
    if rated.of > rated.cases:  # a mean over cases, which may have unequal numbers of trials
        return f"of {rated.of:,} trials of {cases}, {rate_text(rated)} passed all their checks"
    return f"{round(rated.rate * rated.of):,} of {cases} passed all their checks: {rate_text(rated)}"


def repeat_lines(statistics: Statistics | None, ks: Sequence[int]) -> list[str]:
    """The lines of pass^k and pass@k of repeated cases."""
    if statistics is None:
        select_ks({}, ks)
        return []
    lines = [
        repeat_line(name, select_ks(rates, ks), ks)
        for name, rates in (("pass^", statistics.pass_k), ("pass@", statistics.pass_at_k))
    ]
    return [line for line in lines if line is not None]


def _repeats_of(statistics: Statistics | None, ks: Sequence[int]) -> dict[str, Any]:
    if statistics is None or not statistics.pass_k:
        select_ks({}, ks)
        return {}
    return {"pass_k": select_ks(statistics.pass_k, ks), "pass_at_k": select_ks(statistics.pass_at_k, ks)}


def _unmeasured_line(tally: Tally) -> str | None:
    totals = _totals(tally)
    kinds = [
        f"{totals.error:,} errored" if totals.error else "",
        f"{totals.skip:,} skipped" if totals.skip else "",
    ]
    if not any(kinds):
        return None
    return f"not measured: {' and '.join(filter(None, kinds))} of {count_of(totals.total, 'check')}"


def _put_rows(page: Page, tally: Tally) -> None:
    """Put the values beside the counts if the terminal is wide enough, else below the table."""
    statistics = _check_statistics(tally)
    values = {label: _values(row, statistics.get(label)) for label, row in tally.rows.items() if row.other}
    table = _table(tally, values)
    spare = max(map(len, values.values()), default=0) - FOLDED_WIDTH  # columns that folding saves
    if not values:
        _put_counts(page, tally)
        return
    if page.width_of(table) - max(spare, 0) <= page.width:
        page.put_table(table, folds=max(spare, 0))
        return
    _put_counts(page, tally)
    for label, text in values.items():
        page.put(f"  {label}: {text}")


def _put_counts(page: Page, tally: Tally) -> None:
    """
    Put the counts. On a terminal that is too narrow, columns without a count are left out, then `cases`, and long names
    fold.
    """
    table = _table(tally, {})
    if page.width_of(table) <= page.width:
        page.put_table(table)
        return
    empty = {name for name in ("error", "skip") if not any(getattr(row, name) for row in tally.rows.values())}
    for left_out in (set[str](), empty, {*empty, "cases"}):
        table = _table(tally, {}, left_out, folds=True)
        if page.width_of(table) <= page.width:
            page.put_table(table)
            return
    longest = max(map(len, tally.rows))
    page.put_table(table, folds=min(page.width_of(table) - page.width, max(longest - SHORTEST_LABEL, 0)))


def _reasons(tally: Tally) -> list[str]:
    """`contains: 3 errored, the first: text: $.output.value.reply finds nothing`, one line per check."""
    errored = [(label, row) for label, row in tally.rows.items() if row.error]
    lines = [
        f"  {label}: {row.error:,} errored{', the first' if row.error > 1 else ''}: "
        f"{row.first_error or 'without a message'}"
        for label, row in errored[:MAX_REASONS]
    ]
    return (
        [*lines, f"  … and {count_of(len(errored) - MAX_REASONS, 'check')} more"]
        if errored[MAX_REASONS:]
        else lines
    )


def cost(spending: Spending) -> str | None:
    """`cost $0.0123 for 12 answers, 3,400 tokens`, or None if everything was free."""
    if not spending.known_cost_usd and not spending.unknown_costs:
        return None
    tokens = "" if spending.tokens is None else f", {spending.tokens:,} tokens"
    known = format_usd(spending.known_cost_usd)
    if spending.unknown_costs == spending.calls:
        known = "unknown"
    elif spending.unknown_costs:
        known = f"at least {known} (unknown for {spending.unknown_costs:,})"
    return f"cost {known} for {spending.calls:,} {'answer' if spending.calls == 1 else 'answers'}{tokens}"


def summary_of(tally: Tally, ks: Sequence[int] = ()) -> dict[str, Any]:
    """The table as a document for JSON, with pass@k and pass^k of these k, or of all."""
    statistics, checks = tally.statistics(), _check_statistics(tally)
    return {
        "status": tally.status,
        "summary": tally.summary(),
        "pass_rate": statistics.pass_rate if statistics else None,
        "case_pass_rate": statistics.case_pass_rate if statistics else None,
        **_repeats_of(statistics, ks),
        "checks": {label: _row_of(row, checks.get(label)) for label, row in tally.rows.items()},
        **({"spending": tally.spending} if tally.spending else {}),
    }


def _totals(tally: Tally) -> CheckTally:
    totals = CheckTally()
    for row in tally.rows.values():
        totals.add(row)
    return totals


def _check_statistics(tally: Tally) -> dict[str, CheckStatistics]:
    statistics = tally.statistics()
    return statistics.checks if statistics else {}


def _row_of(row: CheckTally, statistics: CheckStatistics | None) -> dict[str, Any]:
    document: dict[str, Any] = {
        "passed": row.passed,
        "failed": row.failed,
        "error": row.error,
        "skip": row.skip,
        "pass_rate": statistics.pass_rate if statistics else None,
    }
    if row.first_error:
        document["data"] = {"first_error": row.first_error}
    if statistics and statistics.means:
        document["means"] = statistics.means
    if row.categories:
        document["counts"] = row.categories
    return document


def _table(
    tally: Tally, values: dict[str, str], left_out: Collection[str] = (), *, folds: bool = False
) -> Table:
    """`folds`: a long name of a check may fold."""
    table, statistics = Table(header_style="bold"), _check_statistics(tally)
    names = (
        "check",
        "passed",
        "failed",
        "error",
        "skip",
        "cases",
        RATE,
    )
    table.add_column(names[0], overflow="fold", no_wrap=not folds)
    for name in names[1:]:
        if name not in left_out:
            table.add_column(name, justify="right", no_wrap=True)
    if values:
        table.add_column("values", overflow="fold")
    for label, row in tally.rows.items():
        decided, measured = row.passed + row.failed, statistics.get(label)
        rated = measured.pass_rate if measured else None
        cells = [
            cell(label),
            cell(f"{row.passed:,}", style="green" if row.passed else "dim")
            if decided or not row.other
            else cell("–"),
            cell(f"{row.failed:,}", style="red" if row.failed else "dim")
            if decided or not row.other
            else cell("–"),
            cell(f"{row.error:,}", style="yellow bold" if row.error else "dim"),
            cell(f"{row.skip:,}", style="yellow" if row.skip else "dim"),
            cell(f"{rated.cases:,}" if rated else "–"),
            cell(rate_text(rated)),
        ]
        cells = [one for name, one in zip(names, cells, strict=True) if name not in left_out]
        if values:
            cells.append(cell(values.get(label, "")))
        table.add_row(*cells)
    return table


def _values(row: CheckTally, statistics: CheckStatistics | None) -> str:
    texts = [f"{name}: {mean(averaged)}" for name, averaged in statistics.means.items()] if statistics else []
    for name, counts in row.categories.items():
        pairs = sorted(counts.items(), key=lambda pair: -pair[1])
        frequent = ", ".join(f"{value} {count:,}" for value, count in pairs[:MAX_VALUES])
        others = f", {len(pairs) - MAX_VALUES} others" if len(pairs) > MAX_VALUES else ""
        texts.append(f"{name}: {frequent}{others}")
    return "; ".join(texts)
