"""`assay.history`: the scores of a suite over the versions of an agent."""

from os import PathLike, fspath

from msgspec import Struct

from assay import settings
from assay.agenteval.suites.suite import read_suite_file
from assay.api.arguments import check_arguments
from assay.api.pack_refs import is_reference
from assay.api.suites import TENANT
from assay.comparison.history import HistoryRow, rows_of, suite_runs
from assay.concurrency.event_loop import run_to_end
from assay.errors import UsageError
from assay.host import parts
from assay.promotion.states import deployment_states

MAX_ROWS = 1_000


class SuiteHistory(Struct, frozen=True, kw_only=True):
    """The newest runs of a suite, the newest first, and whether there are older ones."""

    suite_id: str
    rows: list[HistoryRow]
    more: bool


def history(
    suite: str | PathLike[str], *, agent: str | None = None, limit: int = 20, tenant: str | None = None
) -> SuiteHistory:
    """
    The stored runs of a suite: for each its score with the interval, cost, latency and findings.

        for row in assay.history("suite.yaml").rows:
            print(row.agent_version, row.score, row.low, row.high)

    `suite` is its id or a file. `agent` selects the runs of one agent.
    """
    check_arguments(suite=suite, agent=agent, limit=limit, tenant=tenant)
    if not 1 <= limit <= MAX_ROWS:
        raise UsageError(f"--limit: expected 1 to {MAX_ROWS}, got {limit}")
    return read_history(suite_id_of(fspath(suite)), agent, limit, tenant)


def suite_id_of(suite: str) -> str:
    """The id of the suite: as given, or of the file that is given."""
    if is_reference(suite):
        return suite.partition("@")[0]
    return read_suite_file(suite, settings.load().limits).suite_id


def read_history(suite_id: str, agent: str | None, limit: int, tenant: str | None) -> SuiteHistory:
    """The rows that the store of this host has."""

    async def work() -> SuiteHistory:
        async with parts.store(settings.load(), light=True) as store:
            rows: list[HistoryRow] = []
            before = None
            while True:
                runs, before = await suite_runs(
                    store, tenant or TENANT, suite_id, agent=agent, before=before, limit=limit - len(rows)
                )
                agents = {str(run.metadata.get("agentId", "")) for run in runs}
                rows += await rows_of(store, runs, await deployment_states(store, tenant or TENANT, agents))
                if before is None or len(rows) == limit:
                    return SuiteHistory(suite_id=suite_id, rows=rows, more=before is not None)

    return run_to_end(work)
