"""
The rows of `assay list`: the outcome, agent, tags and cost of every kind of run, as a table that fits the terminal.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from assay import settings
from assay.agenteval.planning.run_header import KIND as EVAL
from assay.agenteval.planning.run_header import SUITE_TOTAL
from assay.agenteval.results.eval_statistics import SCORED, read_statistics
from assay.checks import STANDARD
from assay.cli.console.console import echo, echo_json
from assay.cli.console.console_table import Page
from assay.cli.render import verdicts
from assay.errors import UsageError
from assay.fep.records.run_header import KIND
from assay.fep.records.service import EvaluationService
from assay.host import parts
from assay.ports import CLOSED, Run, RunQuery, RunStatus, Services
from assay.promotion import KIND as DEPLOYMENT
from assay.results.run_part import part_in
from assay.runs.find_run import LIST_HINT, NO_RUNS
from assay.runs.provenance import COMMIT, about_lines
from assay.runs.run_names import name_of, other_tags
from assay.runs.run_statistics import CaseCounts, RunStatistics, planned_cases
from assay.workflow import KIND as WORKFLOW

SHORTEST_ID = 14  # characters of a run id in a narrow table, more where two ids would be the same
LEAST_COLUMNS = 3  # of a narrow table: run, status and score
LEAST_ABOUT = 40  # characters for the names and tags of a run beside its numbers


class RunRow(Struct, frozen=True, kw_only=True):
    """A run in the list, with its statistics. None: it has none."""

    run: Run
    statistics: RunStatistics | None = None
    goal: str | None = None  # of a workflow

    @property
    def agent(self) -> str | None:
        return self.run.metadata.get("agentId")

    @property
    def trials(self) -> int:
        """The number of trials of each case or task."""
        return self.run.metadata.get("trials", 1)

    @property
    def name(self) -> str:
        """The name that a user gave to the run; it may be empty."""
        return name_of(self.run.metadata)

    @property
    def tags(self) -> list[str]:
        return other_tags(self.run.metadata.get("tags", ()))

    @property
    def total(self) -> int | None:
        """The cases or tasks that the run has or will have."""
        if self.run.kind not in SCORED:
            return None
        if self.run.kind == EVAL:
            return self.run.metadata.get("total", 0)
        return planned_cases(self.run, self.statistics, trials=self.trials)

    @property
    def done(self) -> int:
        return self.statistics.counts.all if self.statistics else 0

    @property
    def never_reached(self) -> int:
        return max(0, (self.total or 0) - self.done) if self.run.status in CLOSED else 0

    @property
    def unmeasured(self) -> int:
        counts = self.statistics.counts if self.statistics else CaseCounts()
        return counts.error + counts.skipped + self.never_reached

    @property
    def document(self) -> dict[str, Any]:
        """The members that `--json` adds to a run."""
        statistics = self.statistics or RunStatistics()
        score, cost, rate = statistics.score, statistics.whole_cost, statistics.pass_rate
        kind = None if score is None else "casePassRate" if score.scale == "rate" else "score"
        found: dict[str, Any] = {
            "passRate": rate.rate if rate else None,
            "agentId": self.agent,
            "trials": self.trials if self.trials > 1 else None,
            "runName": self.name or None,
            "tags": self.tags or None,
            "models": self.run.metadata.get("models"),
            COMMIT: self.run.metadata.get(COMMIT),
            "costUsd": cost.total_usd if cost else None,
            "statistics": self.statistics,
        }
        found |= {} if score is None or kind is None else {kind: score.value}
        found |= {} if (part := part_in(self.run.metadata)) is None else {"part": part}
        present = {name: value for name, value in found.items() if value is not None}
        return present | ({"neverReached": self.never_reached} if self.never_reached else {})


async def row_of(evaluations: EvaluationService, run: Run) -> RunRow:
    """Read what the list shows of a run that its metadata lacks."""
    if run.kind == WORKFLOW:
        return RunRow(run=run, goal=verdicts.goal_of(run))
    return RunRow(run=run, statistics=await read_statistics(evaluations.store, run))


def show_rows(rows: list[RunRow]) -> None:
    """
    Print one line per run, and a second one with its name, experiment, agent, tags, model and commit. A terminal shows
    short ids and ages; a file has whole ids and times. On a terminal that is wide enough, all of a run is in one line,
    with its whole id if there is room, and a long name is cut.
    """
    page, to_file = Page(), not sys.stdout.isatty()
    several = len({row.run.tenant for row in rows}) > 1
    ids = [row.run.id for row in rows]
    times = ("created", *(f"{row.run.created:%Y-%m-%d %H:%M:%S}" for row in rows))
    columns = [("run", *(ids if to_file else short_ids(ids))), ("status", *(row.run.status for row in rows))]
    columns += [("score", *map(_outcome, rows)), ("cases", *map(_cases, rows)), ("cost", *map(_cost, rows))]
    columns.append(times if to_file else ("age", *(_age(row.run.created) for row in rows)))
    if not to_file and any(abouts := [_about(row, [], tenant=several) for row in rows]):
        whole = [("run", *ids), *columns[1:], ("about", *abouts)]
        left = page.width - _width(columns) - 2
        short = [*columns, ("about", *(_cut(one, left) for one in abouts))]
        if _width(whole) <= page.width or left >= LEAST_ABOUT:
            for at, line in enumerate(_lines(whole if _width(whole) <= page.width else short)):
                page.put(line, "" if at else "bold")
            return
    below: list[tuple[str, ...]] = []  # columns that go to the second line
    while _width(columns) > page.width and len(columns) > LEAST_COLUMNS:
        below.insert(0, columns.pop())
    lines = _lines(columns)
    page.put(lines[0], "bold")
    for at, (row, line) in enumerate(zip(rows, lines[1:], strict=True), 1):
        page.put(line)
        more = [f"{column[0]} {column[at]}" for column in below if column[at] != "–"]
        if about := _about(row, more, tenant=several):
            page.put(f"  {about}", "dim")


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: max(0, width - 1)]}…"


def _width(columns: list[tuple[str, ...]]) -> int:
    return sum(max(map(len, column)) for column in columns) + 2 * (len(columns) - 1)


def _lines(columns: list[tuple[str, ...]]) -> list[str]:
    widths = [max(map(len, column)) for column in columns]
    return ["  ".join(map(str.ljust, line, widths)).rstrip() for line in zip(*columns, strict=True)]


def short_ids(ids: list[str]) -> list[str]:
    """The beginnings of the ids, all of one length and as short as keeps them apart."""
    size = SHORTEST_ID
    while len({id[:size] for id in ids}) < len(set(ids)):
        size += 1
    return [id[:size] for id in ids]


def _outcome(row: RunRow) -> str:
    if row.goal is not None:
        return row.goal
    score, passed = row.statistics.score if row.statistics else None, row.run.metadata.get("passed")
    verdict = "" if row.run.kind != EVAL or passed is None else " passed" if passed else " not passed"
    return "–" if score is None else f"{score.text}{verdict}"


def _cases(row: RunRow) -> str:
    """
    `20`, `7 of 20`, `2 of the suite's 20` or `2 of 20` for a part, `3×2`: three cases with two trials each, or
    `3 (7 trials)` if they have different numbers of trials.
    """
    if row.total is None:
        return "–"
    if row.done < row.total:
        return f"{row.done:,} of {row.total:,}"
    if (whole := row.run.metadata.get(SUITE_TOTAL)) is not None:
        return f"{row.total:,} of the suite's {whole:,}"
    if (part := part_in(row.run.metadata)) is not None:
        return f"{row.total:,} of {'more' if part.of is None else f'{part.of:,}'}"
    if row.trials > 1:
        return f"{row.total:,}×{row.trials}"
    results = row.statistics.results if row.statistics else 0
    return f"{row.total:,} ({results:,} trials)" if results > row.total else f"{row.total:,}"


def _cost(row: RunRow) -> str:
    cost = row.statistics.whole_cost if row.statistics else None
    return "–" if cost is None else cost.text


def _about(row: RunRow, more: list[str], *, tenant: bool) -> str:
    reached = f"{row.never_reached:,} never reached" if row.never_reached else ""
    measured = row.unmeasured - row.never_reached
    unmeasured = f"{measured:,} not measured" if measured else ""
    parts = [row.name, row.run.tenant if tenant else "", row.run.name, row.agent or ""]
    parts += [*about_lines(row.run.metadata, ""), unmeasured, reached, *more]
    return " · ".join(filter(None, parts))


def _age(created_at: datetime) -> str:
    """`40s`, `5m`, `3h`, `12d`."""
    seconds = max(0, int((datetime.now(UTC) - created_at).total_seconds()))
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "m")):
        if seconds >= size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


# `assay list`: the stored runs, read from the store without a server.

T = TypeVar("T")
STATUSES: tuple[RunStatus, ...] = (
    "pending", "running", "waiting-approval", "waiting-input", "completed", "failed", "cancelled",
)  # fmt: skip


def list_runs(
    *, status: str | None, experiment: str | None, tenant: str | None, limit: int, json: bool
) -> None:
    """Print the stored runs, newest first."""
    query = RunQuery(tenant=tenant, name=experiment, statuses=_statuses(status), limit=limit)
    rows, documents = with_evaluations(lambda evaluations: _list(evaluations, query))
    if json:
        from assay.cli.render.run_documents import ListedRun  # deferred import: it loads much

        echo_json(msgspec.json.encode([members_of(ListedRun, one) for one in documents]))
        return
    if not rows:
        options = {"--status": status, "--experiment": experiment, "--tenant": tenant}
        filters = " ".join(f"{name} {value}" for name, value in options.items() if value is not None)
        echo(f"no stored run matches {filters}; {LIST_HINT}" if filters else NO_RUNS)
        return
    show_rows(rows)
    for run in (row.run for row in rows):
        if run.kind in (WORKFLOW, DEPLOYMENT) and (hint := verdicts.respond_hint(run)) is not None:
            echo(hint)


def with_evaluations(action: Callable[[EvaluationService], Awaitable[T]]) -> T:
    """Do something with the evaluations of the store that the settings name."""

    async def main() -> T:
        chosen = settings.load()
        async with parts.store(chosen, light=True) as store:
            return await action(EvaluationService(store, STANDARD, Services(limits=chosen.limits)))

    return asyncio.run(main())


def _statuses(status: str | None) -> frozenset[RunStatus] | None:
    if status is None:
        return None
    for name in STATUSES:
        if status == name:
            return frozenset({name})
    raise UsageError(f"--status {status!r}: expected one of {', '.join(STATUSES)}")


def members_of(kind: type[Struct], document: dict[str, Any]) -> dict[str, Any]:
    """The members of the document that the type has, in its order."""
    names = [field.encode_name for field in msgspec.structs.fields(kind)]
    return {name: document[name] for name in names if name in document}


async def _list(evaluations: EvaluationService, query: RunQuery) -> tuple[list[RunRow], list[Any]]:
    rows = [await row_of(evaluations, run) for run in await evaluations.store.runs(query)]
    return rows, [run_document(evaluations, row.run) | row.document for row in rows]


def run_document(evaluations: EvaluationService, run: Run) -> dict[str, Any]:
    """A run in a list, without content."""
    return msgspec.to_builtins(evaluations.operation(run)) if run.kind == KIND else _document(run)


def _document(run: Run) -> dict[str, Any]:
    """A run of another kind in a list, without content."""
    return {"runId": run.id, "kind": run.kind, "status": run.status, "created": run.created, **run.metadata}
