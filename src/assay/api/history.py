"""`assay.history`: the scores of a suite over the versions of an agent."""

from collections.abc import Sequence
from os import PathLike, fspath

from msgspec import Struct

from assay import settings
from assay.agenteval.planning.run_header import KIND as EVAL
from assay.agenteval.suites.suite import read_suite_file
from assay.api.arguments import check_arguments
from assay.api.pack_refs import is_reference
from assay.comparison.views.history import HistoryRow, rows_of, suite_names, suite_runs
from assay.concurrency.event_loop import run_to_end
from assay.errors import UsageError
from assay.errors.door import place_of
from assay.errors.nearest import did_you_mean
from assay.fep.records.run_header import KIND as EVALUATION
from assay.host import parts
from assay.ports import LOCAL_TENANT, RunQuery, Store
from assay.promotion.states import deployment_states
from assay.results.notebook_html import page, paragraph, table
from assay.stats.number_text import range_text, score_text
from assay.terminal import count_of, one_line

MAX_ROWS = 1_000
SHOWN = 10  # rows of a repr


class SuiteHistory(Struct, frozen=True, kw_only=True):
    """The newest runs of a suite, the newest first, and whether there are older ones. `note` says why there is none."""

    suite_id: str
    rows: list[HistoryRow]
    more: bool
    note: str = ""

    def __repr__(self) -> str:
        """A summary that fits a screen."""
        rows = [f"  {' '.join(cells)}" for cells in map(_cells, self.rows[:SHOWN])]
        more = [f"  … {len(self.rows) - SHOWN:,} more"] if len(self.rows) > SHOWN else []
        return "\n".join(one_line(line) for line in (self._heading, *rows, *more))

    def _repr_html_(self) -> str:
        """What a notebook shows: each run with its score and interval, the newest first."""
        names = ("created", "agent", "version", "score", "95% interval", "tasks", "verdict", "run")
        return page(
            [
                paragraph(self._heading, strong=True),
                table(names, map(_cells, self.rows), len(self.rows)),
            ]
        )

    @property
    def _heading(self) -> str:
        count = f"{count_of(len(self.rows), 'run')}{', the newest' if self.more else ''}"
        return f"SuiteHistory {self.suite_id}: {count if self.rows else self.note}"


def _cells(row: HistoryRow) -> tuple[str, ...]:
    verdict = row.status if row.passed is None else "passed" if row.passed else "not passed"
    return (
        f"{row.created_at:%Y-%m-%d %H:%M}",
        row.agent_id,
        row.agent_version,
        score_text(row.score),
        range_text(row.low, row.high, "score"),
        f"{row.tasks:,}",
        verdict,
        row.run_id,
    )


def history(
    suite: str | PathLike[str], *, agent: str | None = None, limit: int = 20, tenant: str | None = None
) -> SuiteHistory:
    """
    The stored runs of a suite or an experiment: for each its score with the interval, cost, latency and findings.

        for row in assay.history("suite.yaml").rows:
            print(row.agent_version, row.score, row.low, row.high)

    `suite` is its id or a file, or the name of an experiment or of a project of traces. `agent` selects the runs of one
    agent. An id that no stored run has is refused.
    """
    check_arguments(suite=suite, agent=agent, limit=limit, tenant=tenant)
    if not 1 <= limit <= MAX_ROWS:
        raise UsageError(f"{place_of('limit')}: expected 1 to {MAX_ROWS}, got {limit}")
    found = read_history(suite_id_of(fspath(suite)), agent, limit, tenant)
    if found.note and agent is None and is_reference(fspath(suite)):
        raise UsageError(found.note)
    return found


def suite_id_of(suite: str) -> str:
    """The id of the suite: as given, or of the file that is given."""
    if is_reference(suite):
        return suite.partition("@")[0]
    return read_suite_file(suite, settings.load().limits).suite_id


def read_history(suite_id: str, agent: str | None, limit: int, tenant: str | None) -> SuiteHistory:
    """The rows that the store of this host has."""

    owner = tenant or LOCAL_TENANT

    async def work() -> SuiteHistory:
        async with parts.store(settings.load(), light=True) as store:
            rows: list[HistoryRow] = []
            before, kind = None, await _kind_of(store, owner, suite_id)
            while True:
                runs, before = await suite_runs(
                    store, owner, suite_id, kind=kind, agent=agent, before=before, limit=limit - len(rows)
                )
                agents = {str(run.metadata.get("agentId", "")) for run in runs}
                rows += await rows_of(store, runs, await deployment_states(store, owner, agents))
                if before is None or len(rows) == limit:
                    break
            note = ""
            if not rows:
                note = no_runs(suite_id, agent, await suite_names(store, owner))
            return SuiteHistory(suite_id=suite_id, rows=rows, more=before is not None, note=note)

    return run_to_end(work)


async def _kind_of(store: Store, owner: str, name: str) -> str:
    """The kind of the runs of a name: agent evals of a suite, else evaluations of an experiment or a project."""
    for kind in (EVAL, EVALUATION):
        if await store.runs(RunQuery(tenant=owner, kind=kind, name=name, limit=1)):
            return kind
    return EVAL


def no_runs(suite_id: str, agent: str | None, suites: Sequence[str]) -> str:
    """Why there is no row. `suites` are those that have runs."""
    of_agent = f" of agent {agent}" if agent else ""
    close = "" if suite_id in suites else did_you_mean(suite_id, suites)
    return f"no run{of_agent} on suite {suite_id} is stored here; {close or '`assay run` stores one'}"
