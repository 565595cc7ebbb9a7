"""What a person sees at the end: per check what passed, failed, erred or was skipped, and how sure we are."""

from typing import Any

from msgspec import UnsetType

from assay.cli import page
from assay.cli.page import Page, Table, cell
from assay.fep.spending import Spending, dollars
from assay.fep.statistics import CheckStatistics, Statistics
from assay.fep.tally import CheckTally, Tally
from assay.stats.intervals import Mean, Rate

SHOWN = 4  # values of a check without pass or fail
FOLDED = 24  # columns that values need beside the counts
REASONS = 10  # checks whose first error is told


def rate(rated: Rate | None) -> str:
    """`83.3% (57.1–94.9%)`: a number with its 95% interval, or a dash where nothing was measured."""
    if rated is None:
        return "–"
    return f"{percent(rated.rate)} ({percent(rated.low)[:-1]}–{percent(rated.high)})"


def mean(averaged: Mean) -> str:
    """`0.8 (0.61–0.99) of 12`, and how many cases those are where some are repeated; one case has no interval."""
    found = averaged.low is not None and averaged.high is not None
    interval = f"{averaged.low:.4g}–{averaged.high:.4g}" if found else "–"
    cases = "" if averaged.cases == averaged.of else f" in {_many(averaged.cases, 'case')}"
    return f"mean {averaged.mean:.4g} ({interval}) of {averaged.of:,}{cases}"


def percent(share: float) -> str:
    """One decimal; what is not quite all never reads as all, and what is not quite nothing never as nothing."""
    text = f"{share * 100:.1f}"
    if text == "100.0" and share < 1:
        text = ">99.9"
    elif text == "0.0" and share > 0:
        text = "<0.1"
    return f"{text}%"


def show(tally: Tally, *, bar: float | None, seconds: float, experiment: str | None = None) -> None:
    """On standard output."""
    console = Page()
    summary = tally.summary()
    title = f"{experiment}: " if experiment else ""
    counted = f"{title}{_many(summary.total_test_cases, 'case')}, {_many(summary.total_checks, 'check')} in {seconds:.1f} s"
    console.put(counted)
    if tally.rows:
        _rows(console, tally)
    if (rated := _overall(tally, bar)) is not None:
        console.put(rated)
    if (repeated := _pass_k(tally.statistics())) is not None:
        console.put(repeated)
    if (spent := cost(tally.spending)) is not None:
        console.put(spent)
    if (missing := _missing(tally)) is not None:
        console.put(missing, "yellow")
    for reason in _reasons(tally):
        console.put(reason)


def shortfalls(tally: Tally, bar: float | None) -> list[str]:
    """Why a run without a table is not good: what was not measured, and a rate below the bar."""
    told = [] if (missing := _missing(tally)) is None else [missing, *_reasons(tally)]
    share = overall(tally)
    if bar is not None and share is not None and share < bar:
        told.append(str(_overall(tally, bar)))
    return told


def _overall(tally: Tally, bar: float | None) -> str | None:
    share, statistics = overall(tally), tally.statistics()
    if share is None:
        return None
    rated = statistics.pass_rate if statistics else None
    told = (
        f"pass rate {rate(rated)} over {_many(rated.cases, 'case')}"
        if rated
        else f"pass rate {percent(share)}"
    )
    return (
        told
        if bar is None
        else f"{told}, {'at least' if share >= bar else 'below'} the bar of {percent(bar)}"
    )


def _pass_k(statistics: Statistics | None) -> str | None:
    """`pass^1 75.0% (…), pass^2 50.0% (…)`: of repeated cases; of many k the first, the second and the last."""
    if statistics is None or not statistics.pass_k:
        return None
    every = statistics.pass_k
    shown = every if len(every) <= SHOWN else [*list(every)[:2], list(every)[-1]]
    return ", ".join(f"pass^{k} {rate(every[k])}" for k in shown)


def _missing(tally: Tally) -> str | None:
    totals = _totals(tally)
    kinds = [
        f"{totals.error:,} errored" if totals.error else "",
        f"{totals.skip:,} skipped" if totals.skip else "",
    ]
    if not any(kinds):
        return None
    return f"not measured: {' and '.join(filter(None, kinds))} of {totals.total:,} checks"


def _rows(console: Page, tally: Tally) -> None:
    """Values stand beside the counts where there is room for them, else below."""
    found = _found(tally)
    values = {label: _values(row, found.get(label)) for label, row in tally.rows.items() if row.other}
    table = _table(tally, values)
    spare = max(map(len, values.values()), default=0) - FOLDED  # columns that folding them saves
    if not values or page.needed(console, table) - max(spare, 0) <= console.width:
        page.put(console, table, folds=max(spare, 0))
        return
    page.put(console, _table(tally, {}))
    for label, told in values.items():
        console.put(f"  {label}: {told}")


def _reasons(tally: Tally) -> list[str]:
    """`contains: 3 errored, the first: text: $.output.value.reply finds nothing`, a line a check."""
    errored = [(label, row) for label, row in tally.rows.items() if row.error]
    told = [
        f"  {label}: {row.error:,} errored{', the first' if row.error > 1 else ''}: {row.why or 'nobody said why'}"
        for label, row in errored[:REASONS]
    ]
    return [*told, f"  … and {_many(len(errored) - REASONS, 'check')} more"] if errored[REASONS:] else told


def cost(spending: Spending) -> str | None:
    """`cost $0.0123 for 12 answers, 3,400 tokens`, or nothing where everything was free."""
    if not spending.known_cost_usd and not spending.unknown_costs:
        return None
    tokens = "" if spending.tokens is None else f", {spending.tokens:,} tokens"
    known = dollars(spending.known_cost_usd)
    if spending.unknown_costs == spending.calls:
        known = "unknown"
    elif spending.unknown_costs:
        known = f"at least {known} (unknown for {spending.unknown_costs:,})"
    return f"cost {known} for {spending.calls:,} {'answer' if spending.calls == 1 else 'answers'}{tokens}"


def summary_of(tally: Tally) -> dict[str, Any]:
    """The same for a machine."""
    statistics, found = tally.statistics(), _found(tally)
    return {
        "status": tally.status,
        "summary": tally.summary(),
        "pass_rate": statistics.pass_rate if statistics else None,
        **({"pass_k": statistics.pass_k} if statistics and statistics.pass_k else {}),
        "checks": {label: _row_of(row, found.get(label)) for label, row in tally.rows.items()},
        **({"spending": tally.spending} if tally.spending else {}),
    }


def overall(tally: Tally) -> float | None:
    """Passed, of all that passed or failed; None where there was no such answer."""
    totals = _totals(tally)
    decided = totals.passed + totals.failed
    return totals.passed / decided if decided else None


def _many(count: int | UnsetType, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def _totals(tally: Tally) -> CheckTally:
    totals = CheckTally()
    for row in tally.rows.values():
        totals.add(row)
    return totals


def _found(tally: Tally) -> dict[str, CheckStatistics]:
    statistics = tally.statistics()
    return statistics.checks if statistics else {}


def _row_of(row: CheckTally, found: CheckStatistics | None) -> dict[str, Any]:
    told: dict[str, Any] = {
        "passed": row.passed,
        "failed": row.failed,
        "error": row.error,
        "skip": row.skip,
        "pass_rate": found.pass_rate if found else None,
    }
    if row.why:
        told["first_error"] = row.why
    if found and found.means:
        told["means"] = found.means
    if row.categories:
        told["counts"] = row.categories
    return told


def _table(tally: Tally, values: dict[str, str]) -> Table:
    table, found = Table(box=None, pad_edge=False, header_style="bold"), _found(tally)
    for name in ("check", "passed", "failed", "error", "skip", "cases", "pass rate (95% interval)"):
        table.add_column(name, justify="left" if name == "check" else "right", no_wrap=True)
    if values:
        table.add_column("values", overflow="fold")
    for label, row in tally.rows.items():
        decided, one = row.passed + row.failed, found.get(label)
        rated = one.pass_rate if one else None
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
            cell(rate(rated)),
        ]
        if values:
            cells.append(cell(values.get(label, "")))
        table.add_row(*cells)
    return table


def _values(row: CheckTally, found: CheckStatistics | None) -> str:
    told = [f"{name}: {mean(averaged)}" for name, averaged in found.means.items()] if found else []
    for name, counts in row.categories.items():
        most = sorted(counts.items(), key=lambda pair: -pair[1])
        listed = ", ".join(f"{value} {many:,}" for value, many in most[:SHOWN])
        told.append(f"{name}: {listed}" + (f", {len(most) - SHOWN} others" if len(most) > SHOWN else ""))
    return "; ".join(told)
