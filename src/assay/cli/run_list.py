"""The rows of `assay list`: the outcome, agent, tags and cost of every kind of run, as a table that fits the terminal."""

import sys
from datetime import UTC, datetime
from typing import Any

from msgspec import UNSET, Struct

from assay.agenteval.report import read_summary
from assay.agenteval.run_header import KIND as EVAL
from assay.cli import render_verdicts
from assay.cli.console import distinct_cases
from assay.cli.console_table import Page, Table, cell
from assay.cli.render_table import percent
from assay.fep.erase import rates_of
from assay.fep.service import EvaluationService, summary_of
from assay.fep.spending import format_usd
from assay.ports import CLOSED, Run, Store
from assay.workflow import KIND as WORKFLOW

SHORTEST_ID = 14  # characters of a run id in a narrow table, more where two ids would be the same
LEAST_COLUMNS = 3  # of a narrow table: run, status and score


class RunRow(Struct, frozen=True, kw_only=True):
    """A run in the list. `score` is that of an agent eval, `pass_rate` and `case_pass_rate` are of an evaluation; None: there is none."""

    run: Run
    score: float | None = None
    pass_rate: float | None = None  # of its checks
    case_pass_rate: float | None = None
    passed: bool | None = None
    goal: str | None = None  # of a workflow
    cost_usd: float | None = None
    done: int | None = None
    total: int | None = None
    unmeasured: int = 0
    never_reached: int = 0

    @property
    def agent(self) -> str | None:
        return self.run.metadata.get("agentId")

    @property
    def trials(self) -> int:
        """The number of trials of each case or task."""
        return self.run.metadata.get("trials", 1)

    @property
    def tags(self) -> list[str]:
        return list(self.run.metadata.get("tags", ()))

    @property
    def document(self) -> dict[str, Any]:
        """The members that `--json` adds to a run."""
        found: dict[str, Any] = {
            "score": self.score,
            "passRate": self.pass_rate,
            "casePassRate": self.case_pass_rate,
            "agentId": self.agent,
            "trials": self.trials if self.trials > 1 else None,
            "tags": self.tags or None,
            "costUsd": self.cost_usd,
        }
        present = {name: value for name, value in found.items() if value is not None}
        return present | ({"neverReached": self.never_reached} if self.never_reached else {})


async def row_of(evaluations: EvaluationService, run: Run) -> RunRow:
    """Read what the list shows of a run that its metadata lacks."""
    if run.kind == WORKFLOW:
        return RunRow(run=run, goal=render_verdicts.goal_of(run))
    if run.kind == EVAL:
        return await _eval_row(evaluations.store, run)
    rates, summary = await rates_of(evaluations, run), summary_of(run)
    total: int = run.metadata.get("total", 0)
    stopped = run.status in ("failed", "cancelled")
    return RunRow(
        run=run,
        pass_rate=rates.pass_rate,
        case_pass_rate=rates.case_pass_rate,
        cost_usd=rates.cost_usd,
        done=summary.total_test_cases - (summary.skipped_test_cases if stopped else 0),
        total=max(total, summary.total_test_cases),
        unmeasured=summary.error_test_cases + summary.skipped_test_cases,
        never_reached=summary.skipped_test_cases if stopped else 0,
    )


async def _eval_row(store: Store, run: Run) -> RunRow:
    summary = await read_summary(store, run)
    total, done = run.metadata.get("total", 0), run.metadata.get("done", 0)
    failed: int = run.metadata.get("unmeasured", 0)
    ended = run.status in CLOSED
    return RunRow(
        run=run,
        score=run.metadata.get("aggregateScore"),
        passed=run.metadata.get("passed"),
        cost_usd=None if summary is None or summary.total_cost_usd is UNSET else summary.total_cost_usd,
        done=done,
        total=total,
        unmeasured=total - done if ended else failed,
        never_reached=total - done - failed if ended else 0,
    )


def show_rows(rows: list[RunRow]) -> None:
    """Print one line per run. On a terminal that is too narrow, print the name, agent and tags in a second line."""
    page = Page()
    table = _wide_table(rows)
    if page.width_of(table) <= page.width or not sys.stdout.isatty():
        page.put_table(table)
        return
    ids = short_ids([row.run.id for row in rows])
    columns = [("run", *ids), ("status", *(row.run.status for row in rows))]
    columns += [("score", *map(_outcome, rows)), ("cases", *map(_cases, rows))]
    columns += [("cost", *map(_cost, rows)), ("age", *(_age(row.run.created) for row in rows))]
    widths = [max(map(len, column)) for column in columns]
    below: list[tuple[str, ...]] = []  # columns that go to the second line
    while sum(widths) + 2 * (len(widths) - 1) > page.width and len(columns) > LEAST_COLUMNS:
        below.insert(0, columns.pop())
        widths.pop()
    lines = ["  ".join(map(str.ljust, line, widths)).rstrip() for line in zip(*columns, strict=True)]
    several = len({row.run.tenant for row in rows}) > 1
    page.put(lines[0], "bold")
    for at, (row, line) in enumerate(zip(rows, lines[1:], strict=True), 1):
        page.put(line)
        more = [f"{column[0]} {column[at]}" for column in below if column[at] != "–"]
        if about := _about(row, more, tenant=several):
            page.put(f"  {about}", "dim")


def _wide_table(rows: list[RunRow]) -> Table:
    table = Table(header_style="bold")
    several = len({row.run.tenant for row in rows}) > 1
    names = ["run", *(("tenant",) if several else ()), "status", "experiment", "agent"]
    for name in names:
        table.add_column(name, no_wrap=True)
    for name in ("score", "cases", "not measured", "cost", "created"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("tags", no_wrap=True)
    for row in rows:
        run = row.run
        tenant = (run.tenant,) if several else ()
        unmeasured = "–" if row.total is None else f"{row.unmeasured:,}"
        if row.never_reached:
            unmeasured += f" ({row.never_reached:,} never reached)"
        created = f"{run.created:%Y-%m-%d %H:%M:%S}"
        table.add_row(
            run.id, *tenant, run.status, run.name or "–", row.agent or "–", _outcome(row), _cases(row), unmeasured,
            _cost(row), created, cell(", ".join(row.tags) or "–"),
        )  # fmt: skip
    return table


def short_ids(ids: list[str]) -> list[str]:
    """The beginnings of the ids, all of one length and as short as keeps them apart."""
    size = SHORTEST_ID
    while len({id[:size] for id in ids}) < len(set(ids)):
        size += 1
    return [id[:size] for id in ids]


def _outcome(row: RunRow) -> str:
    if row.goal is not None:
        return row.goal
    if row.score is not None:
        return f"{row.score:.3f} {'passed' if row.passed else 'not passed'}"
    return "–" if row.case_pass_rate is None else percent(row.case_pass_rate)


def _cases(row: RunRow) -> str:
    """`20`, `7 of 20`, or `3×2`: three cases with two trials each."""
    if row.total is None or row.done is None:
        return "–"
    per_trial = row.trials > 1 and row.run.kind != EVAL  # the counts of an evaluation are of trials
    if row.done < row.total:
        return f"{row.done:,} of {row.total:,}{' trials' if per_trial else ''}"
    repeated = f"×{row.trials}" if row.trials > 1 else ""
    return f"{distinct_cases(row.total, row.trials) if per_trial else row.total:,}{repeated}"


def _cost(row: RunRow) -> str:
    return "–" if row.cost_usd is None else format_usd(row.cost_usd)


def _about(row: RunRow, more: list[str], *, tenant: bool) -> str:
    reached = f"{row.never_reached:,} never reached" if row.never_reached else ""
    measured = row.unmeasured - row.never_reached
    unmeasured = f"{measured:,} not measured" if measured else ""
    parts = [row.run.tenant if tenant else "", row.run.name, row.agent or "", *row.tags]
    parts += [unmeasured, reached, *more]
    return " · ".join(filter(None, parts))


def _age(created_at: datetime) -> str:
    """`40s`, `5m`, `3h`, `12d`."""
    seconds = max(0, int((datetime.now(UTC) - created_at).total_seconds()))
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "m")):
        if seconds >= size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"
