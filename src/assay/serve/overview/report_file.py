"""A report as one file: the page with its data, or Markdown."""

from base64 import b64encode
from collections.abc import Iterable, Sequence
from typing import Any
from xml.sax.saxutils import escape

import msgspec
from msgspec import UNSET

from assay.agenteval.planning.run_header import part_text
from assay.cases.table import CaseRow
from assay.comparison.compare import PairComparison
from assay.comparison.difference import DifferenceInterval
from assay.comparison.gate_reports import plain
from assay.comparison.views.case_lists import ComparedCase
from assay.comparison.views.page_view import PairView
from assay.comparison.wording import cases_text, end_text, slice_verdict
from assay.errors import EnvironmentFailure
from assay.protocol.agent_evals import findings_text
from assay.runs.run_names import name_of, other_tags
from assay.serve.fep.comparison import ComparedCases
from assay.serve.overview.case_list import ListedCase
from assay.serve.overview.report import LISTED, Report, ReportRun
from assay.serve.page.built_files import page_folder
from assay.stats.number_text import case_value
from assay.terminal import one_line

TEMPLATE = "report.html"
PLACE = b"__ASSAY_REPORT__"  # of the data in the template
COPY = "copy"  # a run of results without an id and a time of their own: those of the copy are not shown


def report_template() -> bytes:
    """The built page that a report in HTML is made of."""
    try:
        return (page_folder() / TEMPLATE).read_bytes()
    except FileNotFoundError:
        raise EnvironmentFailure(
            "the page is not built here; run `make web` in a clone of the repository, or install a wheel."
            " A report in Markdown (-o report.md) works without it"
        ) from None


def html(template: bytes, report: Report, title: str) -> bytes:
    """The template with the data and the title. The data is compressed, in letters that no element can end with."""
    data = b64encode(zstd_frame(msgspec.json.encode(report)))
    before, _, after = template.partition(PLACE)
    named = f"<title>{escape(title)} · assay report</title>".encode("utf-8", "replace")
    return before.replace(b"<title>assay report</title>", named, 1) + data + after


LEVEL = 15  # of compression: a report is written once, and sent and kept often
BLOCK = 128 * 1024  # bytes; the most that a block has


def zstd_frame(data: bytes) -> bytes:
    """The data as one frame of zstd. Without the library, its blocks are not compressed."""
    try:
        import zstandard  # deferred import: it comes with the store
    except ImportError:
        head = b"\x28\xb5\x2f\xfd\xe0" + len(data).to_bytes(8, "little")
        blocks = [data[at : at + BLOCK] for at in range(0, len(data), BLOCK)] or [b""]
        last = len(blocks) - 1
        parts = [(len(one) << 3 | (at == last)).to_bytes(3, "little") + one for at, one in enumerate(blocks)]
        return head + b"".join(parts)
    return zstandard.ZstdCompressor(level=LEVEL).compress(data)


def title_of(report: Report) -> str:
    """The names of the runs: those that users gave them, else those of suites and experiments, else their ids."""
    rows = [run.overview["run"] for run in report.runs]
    return one_line(" → ".join(name_of(row) or row["name"] or row["runId"] for row in rows))[:200]


# A report as Markdown for a pull request: the verdict first, then tables, then folded lists. All content is
# escaped.

MAX_REASON = 300
CONTENT = ("input", "output", "expected")
BARS = {"passScore": ("score", "below"), "maxCostUsd": ("cost", "above"), "maxP95LatencyMs": ("p95 latency", "above")}  # fmt: skip
ALERTS = {
    "passed": "TIP",
    "failed": "CAUTION",
    "improved": "TIP",
    "regressed": "CAUTION",
    "equivalent": "NOTE",
    "no bar": "NOTE",
}
STATUS = {"failed": "failed", "error": "not measured", "skipped": "not run", "ungraded": "no verdict"}


def markdown(report: Report) -> str:
    """The report of one run, or of a comparison and then each of its runs."""
    lines: list[str] = []
    if report.comparison is not None:
        view = report.comparison.view
        lines += [f"# Comparison by {plain(view.comparison.metric)}", ""]
        for pair, words in zip(view.comparison.comparisons, view.pairs, strict=True):
            lines += _pair(pair, words, report.comparison.cases[pair.run])
        lines += ["## Runs", ""]
    for run in report.runs:
        lines += _run(run, heading="#" if report.comparison is None else "###", redacted=report.redacted)
    made = f"{report.created_at:%Y-%m-%d %H:%M} UTC"
    note = " Ids, inputs, outputs, reasons and tags of the cases are left out." if report.redacted else ""
    return "\n".join([*lines, f"Made by assay {report.version}, {made}.{note}", ""])


def _run(run: ReportRun, *, heading: str, redacted: bool) -> list[str]:
    row = run.overview["run"]
    word, reasons = verdict_of(run.overview)
    name = name_of(row) or row["name"] or row["runId"]
    lines = [
        f"{heading} {plain(name)}",
        "",
        f"> [!{ALERTS.get(word, 'WARNING')}]",
        f"> **{word.capitalize()}.** {plain(' '.join([*reasons, score_text(row['score'])]), 2000)}",
        "",
        *_table(("", ""), _facts(run.overview)),
        "",
    ]
    checks = [
        tuple(str(one[part]) for part in ("label", "passed", "failed", "error", "skipped", "ungraded"))
        for one in run.overview.get("checks", ())
    ]
    if checks:
        columns = ("check", "passed", "failed", "not measured", "not run", "no verdict")
        lines += [*_table(columns, checks[:LISTED]), ""]
    rates = [(one.by, (one.name, f"{one.cases:,}", one.case_pass_rate, one.pass_rate)) for one in run.slices]
    lines += _slices(("cases", "cases passed (95%)", "checks passed (95%)"), rates)
    return lines + _failing(run, redacted=redacted)


def _slices(columns: Sequence[str], rows: Sequence[tuple[str, tuple[str, ...]]]) -> list[str]:
    """A table for each grouping, whose name is beside each row."""
    lines: list[str] = []
    for by in dict.fromkeys(by for by, _ in rows):
        every = [row for one, row in rows if one == by]
        lines += [*_table((f"by {plain(by, MAX_REASON)}", *columns), every[:LISTED]), ""]
        lines += [f"… and {len(every) - LISTED:,} more slices", ""] if len(every) > LISTED else []
    return lines


def verdict_of(overview: dict[str, Any]) -> tuple[str, list[str]]:
    """The verdict in a word or two, and why."""
    row = overview["run"]
    if row["status"] != "completed":
        message = row.get("error", {}).get("message")
        return f"no verdict: the run is {row['status']}", [f"{message}."] if message else []
    if row["passed"] is None and "suiteTotal" not in row:
        return "no bar", ["No bar decides this run."]
    critical = [one for one in overview.get("findings", ()) if one["severity"] == "critical" and one["count"]]
    found = [one["kind"] for one in critical]
    reasons = (
        [f"{findings_text(sum(one['count'] for one in critical), 'critical', found)}."] if critical else []
    )
    if "suiteTotal" in row and not reasons:
        return f"no verdict: {part_text(row['total'], row['suiteTotal'])}", []
    if row["passed"]:
        return ("failed", reasons) if reasons else ("passed", [])
    decided = [bar for bar in overview.get("bars", ()) if bar["decided"]]
    return "failed", [*reasons, *map(_bar_text, decided)]


def _bar_text(bar: dict[str, Any]) -> str:
    noun, word = BARS.get(bar["name"], (bar["name"], "beside"))
    if bar["observedText"] is None:
        return f"The {noun} is not known, and the bar is {bar['requiredText']}."
    return f"The {noun} {bar['observedText']} is {word} the bar of {bar['requiredText']}."


def score_text(score: dict[str, Any] | None) -> str:
    """The score with its interval. A score that was not measured is no number."""
    if score is None:
        return "The score was not measured."
    name = f"{score['name'][:1].upper()}{score['name'][1:]}"
    if score["low"] is None:
        return f"{name} {score['text']}, without an interval: there are too few cases."
    return f"{name} {score['text']}, 95% interval {score['range']}, {score['cases']:,} measured."


def _facts(overview: dict[str, Any]) -> list[tuple[str, str]]:
    row, cost, latency = overview["run"], overview["cost"], overview["latency"]
    counts: dict[str, int] = row["counts"] or {}
    words = {"passed": "passed", **STATUS}
    agent = " ".join(str(row[name]) for name in ("agentId", "agentVersion") if name in row)
    late = "not measured"
    if latency is not None:
        late = f"{latency['p95Text']}, median {latency['medianText']}"
    found = overview.get("findings")
    facts = [
        ("run", "" if COPY in row else row["runId"]),
        ("created", "" if COPY in row else row["createdAt"]),
        ("agent", agent),
        ("models", ", ".join(row.get("models", ()))),
        ("tags", ", ".join(other_tags(row.get("tags", ())))),
        ("trials", str(row.get("trials", ""))),
        ("cases", ", ".join(f"{counts[name]:,} {word}" for name, word in words.items() if counts.get(name))),
        ("only a part", overview["about"].get("part", "")),
        ("effective score", _effective(overview.get("effective"))),
        ("never reached", f"{overview['unmeasured']['neverReached'] or ''}"),
        ("cost", "" if cost is None else cost["text"]),
        ("latency, p95", late),
        ("attack success", _attack(overview.get("attack"))),
        (
            "findings",
            ""
            if found is None
            else ", ".join(
                f"{one['count']:,} {one['kind']} ({one['severity']})" for one in found if one["count"]
            )
            or "none",
        ),
        *((one["kind"], f"not looked for ({one['reason']})") for one in overview.get("notLookedFor", ())),
    ]
    return [(name, value) for name, value in facts if value]


def _attack(attack: dict[str, Any] | None) -> str:
    if attack is None:
        return ""
    if not attack["range"]:
        return attack["text"]
    return f"{attack['text']} ({attack['range']}): {attack['succeeded']:,} of {attack['tasks']:,} tasks"


def _status(row: ListedCase) -> str:
    """The recorded outcome, and the one of people after it: `failed, corrected: passed`."""
    words = {"passed": "passed", **STATUS}
    corrected = "" if row.effective is UNSET else f", corrected: {words[row.effective.status]}"
    return words[row.status] + corrected


def _effective(effective: dict[str, Any] | None) -> str:
    """The score with the corrections of people. The recorded one stands above."""
    if effective is None:
        return ""
    count = len(effective["corrected"])
    verdict = {True: "passed", False: "not passed"}.get(effective["passed"])
    parts = (effective["text"], verdict, f"with {count:,} correction{'' if count == 1 else 's'}")
    return ", ".join(part for part in parts if part)


def _failing(run: ReportRun, *, redacted: bool) -> list[str]:
    """The cases that did not pass, folded, with the reason in words; then their content."""
    failing = [row for row in run.rows if row.status != "passed"]
    counts: dict[str, int] = run.overview["run"]["counts"] or {}
    total = sum(counts.get(name, 0) for name in STATUS)
    title = f"{total:,} did not pass" if total else ""
    if redacted:
        rows = [(str(row.position), _status(row), _number(row.score)) for row in failing]
        return _folded(title, ("position", "outcome", "score"), rows, total)
    lines = _folded(
        title,
        ("case", "outcome", "score", "reason"),
        [(_name(row), _status(row), _number(row.score), _part(row, "reason")) for row in failing],
        total,
    )
    others = run.columns
    without = ("",) * len(others.names)
    texts = [
        (
            _name(row),
            *(_part(row, name) for name in CONTENT),
            *others.cells.get(row.position, without),
        )
        for row in failing
    ]
    columns = ("case", *CONTENT, *(plain(name, MAX_REASON) for name in others.names))
    more = f"; {others.left_out:,} more columns are in files of results" if others.left_out else ""
    return lines + _folded(f"Inputs and outputs{more}", columns, texts, total)


def _name(row: CaseRow) -> str:
    return row.case_id or f"case {row.position}"


def _part(row: CaseRow, name: str) -> str:
    return getattr(row.preview, name, None) or ""


def _number(value: float | None) -> str:
    return "–" if value is None else case_value(value)


def _pair(pair: PairComparison, words: PairView, cases: dict[str, ComparedCases]) -> list[str]:
    verdict = pair.result.word
    lines = [
        f"> [!{ALERTS.get(verdict, 'WARNING')}]",
        f"> **{verdict.capitalize()}.** {plain(words.headline.removesuffix(verdict).strip(), 2000)}",
        "",
        f"{plain(pair.run_title)} beside the baseline {plain(pair.baseline_title)}: {plain(words.counts, 2000)}",
        "",
        *(f"- {plain(line, 2000)}" for line in words.about),
        *([f"- {plain(words.power, 2000)}"] if words.power else []),
        "",
    ]
    differences = [
        (one.by, (one.slice, *_difference(one.result, text)))
        for one, text in zip(pair.slices, words.slices, strict=True)
    ]
    lines += _slices(("cases", "before", "after", "difference (adjusted)", "verdict"), differences)
    changed = cases["changed"]
    columns = ("case", "change", "before", "after", "reason before", "reason after")
    lines += _folded(
        f"{changed.total:,} changed" if changed.total else "",
        columns,
        [_change(case) for case in changed.cases],
        changed.total,
    )
    for name, ending in (
        ("unmeasured", "not measured"),
        ("only_in_baseline", "only in the baseline"),
        ("only_in_run", "only in the run"),
    ):
        one = cases[name]
        title = f"{one.total:,} {ending}" if one.total else ""
        lines += _folded(title, columns, [_change(case) for case in one.cases], one.total)
    return lines


def _difference(result: DifferenceInterval, text: str) -> tuple[str, ...]:
    before, after = (end_text(result, value) for value in (result.before, result.after))
    return cases_text(result), before, after, text, slice_verdict(result)


def _change(case: ComparedCase) -> tuple[str, ...]:
    change = case.change.replace("_", " ")
    return (
        case.id, change, _number(case.before), _number(case.after), case.reason_before, case.reason_after
    )  # fmt: skip


def _folded(title: str, columns: Sequence[str], rows: Sequence[tuple[str, ...]], total: int) -> list[str]:
    if not rows:
        return []
    shown = rows[:LISTED]
    more = [f"… and {total - len(shown):,} more", ""] if total > len(shown) else []
    return [
        f"<details><summary>{escape(title)}</summary>",
        "",
        *_table(columns, shown),
        "",
        *more,
        "</details>",
        "",
    ]


def _table(columns: Sequence[str], rows: Iterable[tuple[str, ...]]) -> list[str]:
    return [
        f"| {' | '.join(columns)} |",
        f"|{'---|' * len(columns)}",
        *(f"| {' | '.join(plain(cell, MAX_REASON) for cell in row)} |" for row in rows),
    ]
