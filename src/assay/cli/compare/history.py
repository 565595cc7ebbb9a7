"""`assay history`: the scores of a suite over the versions of an agent, as a table with a small chart."""

from typing import Any
from urllib.parse import quote, urlencode

import msgspec
from msgspec import Struct

from assay.api.history import SuiteHistory, no_runs, read_history, suite_id_of
from assay.cli.console.client import HostClient
from assay.cli.console.console import count_of, echo_json
from assay.cli.console.console_table import Page, Table, cell
from assay.cli.stored_runs.run_list import short_ids
from assay.comparison.views.history import HistoryRow
from assay.errors import Refusal, UsageError
from assay.fep.records.run_header import KIND as EVALUATION
from assay.stats.number_text import format_usd, milliseconds_text, range_text
from assay.stats.number_text import score_text as number_text

CHARTS = (21, 11, 0)  # columns of the chart: the widest that fits
MAX_PAGE = 100  # rows that a server returns at once
LEFT = ("state", "tags", "commit")  # columns of words
ONLY_IF_KNOWN = ("corrected", "tags", "commit")


class _Page(Struct, rename="camel"):
    rows: list[HistoryRow]
    next_page_token: str | None = None


class _Rows(Struct):
    rows: list[HistoryRow]
    next: str | None = None


def main(
    *,
    suite: str,
    agent: str | None,
    limit: int,
    tenant: str | None,
    json: bool,
    server: str | None,
    key_file: str | None,
) -> None:
    """Print the newest runs of the suite, oldest first."""
    suite_id = suite_id_of(suite)
    if server is not None:
        if tenant is not None:
            raise UsageError("--tenant and --server: expected one of them, got both; the key has a tenant")
        history = _read_remote(HostClient(server, key_file), suite_id, agent, limit)
    else:
        history = read_history(suite_id, agent, limit, tenant)
    if json:
        from assay.cli.render.run_documents import HistoryDocument  # deferred import: it loads much

        document = HistoryDocument(suite_id=suite_id, rows=list(history.rows), more=history.more)
        echo_json(msgspec.json.encode(document))
    else:
        show(history)


def _read_remote(host: HostClient, name: str, agent: str | None, limit: int) -> SuiteHistory:
    """The runs of a suite there; if there is no such suite, the evaluations of an experiment or a project."""
    try:
        return _remote(host, name, agent, limit)
    except Refusal as refusal:
        found = _remote_evaluations(host, name, agent, limit)
        if not found.rows:
            raise refusal from None
        return found


def _remote_evaluations(host: HostClient, name: str, agent: str | None, limit: int) -> SuiteHistory:
    rows: list[HistoryRow] = []
    body: dict[str, Any] = {"name": name, "kind": EVALUATION}
    body |= {} if agent is None else {"agentId": agent}
    while True:
        body["limit"] = min(MAX_PAGE, limit - len(rows))
        page = msgspec.json.decode(host.request("POST", "/v1/host/assay/runs:history", body), type=_Rows)
        rows += page.rows
        if page.next is None or len(rows) >= limit:
            return SuiteHistory(suite_id=name, rows=rows, more=page.next is not None)
        body["cursor"] = page.next


def _remote(host: HostClient, suite_id: str, agent: str | None, limit: int) -> SuiteHistory:
    rows: list[HistoryRow] = []
    token: str | None = None
    while True:
        query = {"page_size": str(min(MAX_PAGE, limit - len(rows)))}
        query |= {} if agent is None else {"agentId": agent}
        query |= {} if token is None else {"page_token": token}
        path = f"/v1/host/assay/suites/{quote(suite_id, safe='')}/history?{urlencode(query)}"
        page = msgspec.json.decode(host.request("GET", path), type=_Page)
        rows, token = rows + page.rows, page.next_page_token
        if token is None or len(rows) >= limit:
            note = "" if rows else no_runs(suite_id, agent, ())
            return SuiteHistory(suite_id=suite_id, rows=rows, more=token is not None, note=note)


def show(history: SuiteHistory) -> None:
    """Print the table, oldest first, so that the newest run is the last line."""
    page = Page()
    if not history.rows:
        page.put(history.note)
        return
    rows = history.rows[::-1]
    page.put(f"{history.suite_id}: {count_of(len(rows), 'run')}{', the newest' if history.more else ''}")
    tables = [_table(rows, CHARTS[0]), *(_table(rows, columns, terse=True) for columns in CHARTS)]
    fits = [table for table in tables if page.width_of(table) <= page.width]
    page.put_table((fits or tables[-1:])[0])
    if history.more:
        page.put("older runs exist: --limit N shows more")


def _table(rows: list[HistoryRow], columns: int, *, terse: bool = False) -> Table:
    """The table. `terse` leaves out columns that have nothing but dashes."""
    several = len({row.agent_id for row in rows}) > 1
    versions = any(row.agent_version for row in rows)
    suites = len({row.suite_version for row in rows}) > 1
    table = Table(header_style="bold", padding=(0, 1, 0, 0))
    names = [*(("agent",) if several else ()), *(("version",) if versions else ())]
    names += [*(("suite",) if suites else ()), "run", "score"]
    for name in names:
        table.add_column(name, no_wrap=True)
    if columns:
        table.add_column("0" + "1".rjust(columns - 1), no_wrap=True)
    last = {
        "cost": ["–" if row.cost_usd is None else format_usd(row.cost_usd) for row in rows],
        "p95": ["–" if row.p95_latency_ms is None else milliseconds_text(row.p95_latency_ms) for row in rows],
        "findings": [*map(findings_text, rows)],
        "state": [*map(state_text, rows)],
        "corrected": [f"{row.corrections:,}" if row.corrections else "–" for row in rows],
        "tags": [", ".join(row.tags) or "–" for row in rows],
        "commit": [row.commit or "–" for row in rows],
    }
    last = {
        name: texts
        for name, texts in last.items()
        if not (terse or name in ONLY_IF_KNOWN) or any(text != "–" for text in texts)
    }
    for name in last:
        table.add_column(name, justify="left" if name in LEFT else "right", no_wrap=True)
    ids = short_ids([row.run_id for row in rows])
    for at, (id, row) in enumerate(zip(ids, rows, strict=True)):
        style = "" if row.passed is None else "green" if row.passed else "red"
        table.add_row(
            *((row.agent_id,) if several else ()),
            *((row.agent_version,) if versions else ()),
            *((row.suite_version,) if suites else ()),
            id,
            cell(score_text(row), style),
            *((cell(chart(row, columns), style),) if columns else ()),
            *(texts[at] for texts in last.values()),
        )
    return table


def score_text(row: HistoryRow) -> str:
    """`0.800 (0.549–0.930)`, or the status of a run without a score."""
    if row.score is None:
        return row.part or ("not measured" if row.status == "completed" else row.status)
    if row.scale != "score":
        return f"{row.text} ({row.range})"
    if row.low is None or row.high is None:
        return number_text(row.score)
    return f"{number_text(row.score)} ({range_text(row.low, row.high, 'score')})"


def chart(row: HistoryRow, columns: int) -> str:
    """The score as a dot on a line from 0 to 1, with its interval."""
    if row.score is None:
        return ""
    marks = [" "] * columns
    if row.low is not None and row.high is not None:
        low, high = _column(row.low, columns), _column(row.high, columns)
        marks[low : high + 1] = "─" * (high - low + 1)
    marks[_column(row.score, columns)] = "●"
    return "".join(marks).rstrip()


def _column(value: float, columns: int) -> int:
    return round(min(1.0, max(0.0, value)) * (columns - 1))


def findings_text(row: HistoryRow) -> str:
    """The number of findings, the gravest severity first; a dash if the run did not look for any."""
    if row.findings is None:
        return "–"
    counts = [
        f"{row.findings[name]} {name}"
        for name in ("critical", "high", "medium", "low")
        if row.findings.get(name)
    ]
    return ", ".join(counts) or "0"


def state_text(row: HistoryRow) -> str:
    if row.state is None:
        return "–"
    return f"{row.state}, by this run" if row.promoted_by else row.state
