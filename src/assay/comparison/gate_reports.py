"""The result of a gate for others: Markdown for a pull request, JUnit XML, SARIF, and annotations of GitHub."""

import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from hashlib import sha256
from typing import Any
from urllib.parse import quote
from xml.sax.saxutils import escape, quoteattr

from assay.comparison.compare import PairComparison
from assay.comparison.gate_verdict import GateOutcome, GateResult
from assay.comparison.run_level import CaseOutcome, level_text
from assay.comparison.wording import (
    ADJUSTED,
    about_cases,
    cases_text,
    interval_text,
    pairing_text,
    slice_verdict,
    verdict_line,
)
from assay.results.slices import slice_text
from assay.stats.number_text import case_value
from assay.version import __version__

MAX_ROWS = 100  # in one table of Markdown
MAX_ANNOTATIONS = 10
MAX_CELL = 200  # characters of a cell
GATE_RULE = "gate"
WORDS = {"failed": "failed", "undecided": "is undecided"}
ALERTS = {"passed": "TIP", "failed": "CAUTION", "undecided": "WARNING"}
SIGNS = {"passed": "✅", "failed": "❌", "undecided": "⚠️"}
LEVELS = {"critical": "error", "high": "error", "medium": "warning", "low": "note"}
SECURITY = {"critical": "9.5", "high": "8.0", "medium": "5.5", "low": "2.0"}  # as GitHub reads them
# what Markdown or HTML could read as more than text; `_` inside a word, `(` and `%` are text
_ACTIVE = re.compile(r"[\\`*\[\]<>|~$&]|(?<![^\W_])_|_(?![^\W_])|^(?:[#=+-]|\d+(?=[.)](?:\s|$)))")
# what begins a mention, a reference, an emoji or a link on GitHub or GitLab: they look for these in rendered text
_REFERENCE = re.compile(r"[@#!%~$&](?=\w)|:(?=[a-z+/-])|\bwww(?=\.)", re.IGNORECASE)
_NOT_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_UNREADABLE = "\ufffd"
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]+")


def plain(text: str, limit: int = MAX_CELL) -> str:
    """
    Text that stays text in Markdown, and is readable as it is: a backslash stands before an active character, a
    character without a width ends a mention or a link, and a long text is cut.
    """
    line = _CONTROL.sub(" ", text).strip()
    line = line if len(line) <= limit else f"{line[: limit - 1]}…"
    return _ACTIVE.sub(_escaped, _REFERENCE.sub("\\g<0>\u200b", line))


def _escaped(match: re.Match[str]) -> str:
    """`\\*`; a number at the beginning of a line is `1\\`, before its dot."""
    return f"{match[0]}\\" if match[0].isdigit() else f"\\{match[0]}"


def markdown(result: GateResult, reasons: Mapping[str, str]) -> str:
    """The verdict first; the tables are folded."""
    outcome = result.outcome
    lines = [
        f"> [!{ALERTS[outcome]}]",
        f"> **{SIGNS[outcome]} assay: {outcome}.** {plain(result.reason, 1000)}",
        "",
    ]
    lines += [plain(level_text(result.level))]
    lines += [line for missing in result.not_looked_for for line in ("", plain(missing))]
    pair = result.comparison
    if pair is not None:
        lines += ["", plain(verdict_line(pair.result))]
        lines += [part for line in _about(pair) for part in ("", plain(line, 1000))]
        lines += _folded(
            f"{pair.worse:,} worse, {pair.better:,} better, {pair.unchanged:,} unchanged",
            ("case", "before", "after", "reason before", "reason after"),
            (
                (
                    one.id,
                    case_value(one.before),
                    case_value(one.after),
                    one.data.reason_before,
                    one.data.reason_after,
                )
                for one in pair.changes
            ),
        )
        lines += _folded(
            f"Slices: {ADJUSTED}",
            ("by", "slice", "cases", "difference", "verdict"),
            (
                (
                    one.by,
                    slice_text(one.slice),
                    cases_text(one.result),
                    interval_text(one.result),
                    slice_verdict(one.result),
                )
                for one in pair.slices
            ),
        )
    newly = result.newly_failing
    lines += _folded(
        f"{newly.count:,} passed in all trials before, and in none now",
        ("case", "reason"),
        ((id, reasons.get(id, "")) for id in newly.ids),
    )
    total = len(result.failing) + result.more_failing
    lines += _folded(
        f"{total:,} did not pass",
        ("case", "outcome", "reason"),
        ((one.id, one.outcome, reasons.get(one.id, "")) for one in result.failing),
    )
    lines += _folded(
        "Safety findings",
        ("severity", "case", "kind", "count"),
        ((one.severity, one.case, one.kind, f"{one.count:,}") for one in result.findings),
    )
    return "\n".join(lines) + "\n"


def _about(pair: PairComparison) -> list[str]:
    """What a reader must know about cases that are not paired."""
    return [pairing_text(pair), *about_cases(pair)] if pair.unpaired else []


def _folded(title: str, columns: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    every = list(rows)
    if not every:
        return []
    more = [f"\n… and {len(every) - MAX_ROWS:,} more"] if len(every) > MAX_ROWS else []
    return [
        "",
        f"<details><summary>{escape(title)}</summary>",
        "",
        f"| {' | '.join(columns)} |",
        f"|{'---|' * len(columns)}",
        *(f"| {' | '.join(map(plain, row))} |" for row in every[:MAX_ROWS]),
        *more,
        "",
        "</details>",
    ]


def junit(result: GateResult, outcomes: Iterable[CaseOutcome], reasons: Mapping[str, str]) -> Iterator[str]:
    """
    JUnit XML: a test case for each case, and one for the gate itself. It agrees with the gate.

    There is a failure exactly if the gate failed, and without one an error exactly if it is undecided. A case that did
    not pass is skipped, with its reason, if the gate did not fail. A case that was not run is in no count; the reason
    of the gate, or its output if it passed, says how many there are.
    """
    newly = {*result.newly_failing.ids}
    rows = [(one, _tag(result.outcome, one, newly)) for one in outcomes]
    own = {"failed": "failure", "undecided": "error"}.get(result.outcome, "")
    counts = Counter([own, *(tag for _, tag in rows)])
    totals = (
        f'tests="{len(rows) + 1}" failures="{counts["failure"]}" errors="{counts["error"]}" '
        f'skipped="{counts["skipped"]}"'
    )
    name = _attribute(result.run_title)
    yield '<?xml version="1.0" encoding="UTF-8"?>\n'
    yield f'<testsuites name="assay" {totals}>\n'
    yield f"<testsuite name={name} {totals}>\n"
    yield junit_case("assay", "gate", own, result.reason, output="" if own else result.reason)
    for one, tag in rows:
        yield junit_case("assay.case", one.id, tag, reasons.get(one.id, "") or one.outcome)
    yield "</testsuite>\n</testsuites>\n"


def _tag(outcome: GateOutcome, case: CaseOutcome, newly_failing: Container[str]) -> str:
    if case.outcome not in ("failed", "unmeasured"):
        return ""
    if outcome == "passed":
        return "skipped"
    if case.outcome == "unmeasured":
        return "error"
    if outcome == "failed":
        return "failure"
    return "error" if case.id in newly_failing else "skipped"


def junit_case(
    group: str, name: str, tag: str, message: str, output: str = "", seconds: float | None = None
) -> str:
    """A test case of JUnit. `tag` is failure, error or skipped; without one it passed. `output` is shown with it."""
    inner = f"<{tag} message={_attribute(message)}/>" if tag else ""
    inner += f"<system-out>{escape(_NOT_XML.sub(_UNREADABLE, output))}</system-out>" if output else ""
    time = "" if seconds is None else f' time="{seconds:.3f}"'
    return f'<testcase classname="{group}" name={_attribute(name)}{time}>{inner}</testcase>\n'


def _attribute(text: str) -> str:
    return quoteattr(_NOT_XML.sub(_UNREADABLE, text), {"\n": "&#10;", "\r": "&#13;", "\t": "&#9;"})


def sarif(result: GateResult, location: str) -> dict[str, Any]:
    """
    SARIF 2.1.0 of the gate and of the safety findings. It has kinds, severities and case ids, and no content.

    A result that is not suppressed is there exactly if the gate did not pass. A finding that the policy allows is
    suppressed.
    """
    kinds = {one.kind: one.severity for one in reversed(result.findings)}
    rules = [
        {
            "id": kind,
            "shortDescription": {"text": f"Safety finding: {kind}"},
            "defaultConfiguration": {"level": LEVELS.get(severity, "warning")},
            "properties": {"security-severity": SECURITY.get(severity, "5.5"), "tags": ["security"]},
        }
        for kind, severity in sorted(kinds.items())
    ]
    results: list[dict[str, Any]] = []
    if result.outcome != "passed":
        rules.append({"id": GATE_RULE, "shortDescription": {"text": "The gate did not pass"}})
        level = "error" if result.outcome == "failed" else "warning"
        text = f"The gate {WORDS[result.outcome]}. The other reports have the reason."
        results.append(_sarif_result(GATE_RULE, level, text, location, GATE_RULE))
    for one in result.findings:
        text = f"{one.kind} ({one.severity}) in case {one.case}{_times(one.count)}"
        found = _sarif_result(one.kind, LEVELS.get(one.severity, "warning"), text, location, one.case)
        if result.outcome == "passed":
            found["suppressions"] = [
                {"kind": "external", "justification": "the policy of the gate allows it"}
            ]
        results.append(found)
    driver = {"name": "assay", "version": __version__, "rules": rules}
    invocation = {
        "executionSuccessful": True,
        "exitCode": result.exit_code,
        "exitCodeDescription": result.outcome,
        "toolExecutionNotifications": [
            {"level": "note", "message": {"text": missing}} for missing in result.not_looked_for
        ],
    }
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "invocations": [invocation], "results": results}],
    }


def _sarif_result(rule: str, level: str, text: str, location: str, name: str) -> dict[str, Any]:
    physical = {"artifactLocation": {"uri": quote(location)}, "region": {"startLine": 1}}
    kind = "run" if rule == GATE_RULE else "case"
    return {
        "ruleId": rule,
        "level": level,
        "message": {"text": text},
        "locations": [{"physicalLocation": physical, "logicalLocations": [{"name": name, "kind": kind}]}],
        "partialFingerprints": {"assay/v1": sha256(f"{rule}\0{name}".encode(errors="replace")).hexdigest()},
    }


def _times(count: int) -> str:
    return "" if count == 1 else f", {count:,} times"


def annotations(result: GateResult, reasons: Mapping[str, str]) -> Iterator[str]:
    """Workflow commands of GitHub: the verdict, and the first cases that did not pass."""
    level = {"passed": "notice", "undecided": "warning", "failed": "error"}[result.outcome]
    yield f"::{level} title={_property(f'assay: {result.outcome}')}::{_data(result.reason)}"
    for one in result.failing[:MAX_ANNOTATIONS]:
        text = reasons.get(one.id) or one.outcome
        yield (
            f"::{'notice' if level == 'notice' else 'warning'} "
            f"title={_property(f'{one.id}: {one.outcome}')}::{_data(text)}"
        )


def _data(text: str) -> str:
    text = _CONTROL.sub(" ", text[:1000].replace("\n", "\x00"))
    return text.replace("%", "%25")


def _property(text: str) -> str:
    return _data(text[:200]).replace(":", "%3A").replace(",", "%2C")
