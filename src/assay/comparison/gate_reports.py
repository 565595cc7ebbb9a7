"""The result of a gate for others: Markdown for a pull request, JUnit XML, SARIF, and annotations of GitHub."""

import re
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from typing import Any
from urllib.parse import quote
from xml.sax.saxutils import quoteattr

from assay.comparison.gate import GateResult, level_text
from assay.comparison.level import CaseOutcome
from assay.comparison.wording import interval_text, verdict_line
from assay.version import __version__

MAX_ROWS = 100  # in one table of Markdown
MAX_ANNOTATIONS = 10
MAX_CELL = 200  # characters of a cell
ALERTS = {"passed": "TIP", "failed": "CAUTION", "refused": "WARNING"}
LEVELS = {"critical": "error", "high": "error", "medium": "warning", "low": "note"}
SECURITY = {"critical": "9.5", "high": "8.0", "medium": "5.5", "low": "2.0"}  # as GitHub reads them
_ACTIVE = re.compile(r"[!-+/:<-@\[-`{-~]|www(?=\.)")  # what Markdown or HTML could read as more than text
_REFERENCES = "@#!~%$&"  # begin a mention or a reference on GitHub or GitLab
_NOT_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]+")


def plain(text: str, limit: int = MAX_CELL) -> str:
    """Text that stays text in Markdown: every active character is an entity, and a long text is cut."""
    line = _CONTROL.sub(" ", text)
    line = line if len(line) <= limit else f"{line[: limit - 1]}…"
    return _ACTIVE.sub(_entity, line)


def _entity(match: re.Match[str]) -> str:
    """An active character as an entity. A host looks for mentions after it has decoded entities, so an empty one follows."""
    text = "".join(f"&#{ord(one)};" for one in match[0])
    return f"{text}&#8203;" if match[0] in _REFERENCES and match.string[match.end() :][:1].strip() else text


def markdown(result: GateResult, reasons: Mapping[str, str]) -> str:
    """The verdict first; the tables are folded."""
    word = {"passed": "passed", "failed": "failed", "refused": "cannot decide"}[result.outcome]
    lines = [f"> [!{ALERTS[result.outcome]}]", f"> **assay: {word}.** {plain(result.reason, 1000)}", ""]
    lines += [plain(level_text(result.level))]
    pair = result.comparison
    if pair is not None:
        lines += ["", plain(verdict_line(pair.result))]
        lines += _folded(
            f"{pair.worse:,} worse, {pair.better:,} better, {pair.unchanged:,} unchanged",
            ("case", "before", "after", "reason before", "reason after"),
            (
                (one.id, f"{one.before:.2f}", f"{one.after:.2f}", one.reason_before, one.reason_after)
                for one in pair.changes
            ),
        )
        lines += _folded(
            "Slices",
            ("by", "slice", "cases", "difference (adjusted)", "verdict"),
            (
                (one.by, one.slice, f"{one.result.cases:,}", interval_text(one.result), one.result.verdict)
                for one in pair.slices
            ),
        )
    total = len(result.failing) + result.more_failing
    lines += _folded(
        f"{total:,} did not pass",
        ("case", "outcome", "reason"),
        ((one.id, one.outcome, reasons.get(one.id, "")) for one in result.failing),
    )
    lines += _folded(
        "Safety findings",
        ("severity", "kind", "case", "count"),
        ((one.severity, one.kind, one.case, f"{one.count:,}") for one in result.findings),
    )
    return "\n".join(lines) + "\n"


def _folded(title: str, columns: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    every = list(rows)
    if not every:
        return []
    more = [f"\n… and {len(every) - MAX_ROWS:,} more"] if len(every) > MAX_ROWS else []
    return [
        "",
        f"<details><summary>{plain(title)}</summary>",
        "",
        f"| {' | '.join(columns)} |",
        f"|{'---|' * len(columns)}",
        *(f"| {' | '.join(map(plain, row))} |" for row in every[:MAX_ROWS]),
        *more,
        "",
        "</details>",
    ]


def junit(result: GateResult, outcomes: Iterable[CaseOutcome], reasons: Mapping[str, str]) -> Iterator[str]:
    """JUnit XML: a test case for each case, and one for the gate itself. An unmeasured case is an error, not a failure."""
    tests, failures, errors = 1, int(result.outcome == "failed"), int(result.outcome == "refused")
    parts: list[str] = []
    for one in outcomes:
        tests += 1
        failures += one.outcome == "failed"
        errors += one.outcome == "unmeasured"
        parts.append(_test_case(one, reasons.get(one.id, "")))
    name = _attribute(result.run)
    yield '<?xml version="1.0" encoding="UTF-8"?>\n'
    yield f'<testsuites name="assay" tests="{tests}" failures="{failures}" errors="{errors}">\n'
    yield f'<testsuite name={name} tests="{tests}" failures="{failures}" errors="{errors}">\n'
    tag = {"failed": "failure", "refused": "error"}.get(result.outcome)
    inner = f"<{tag} message={_attribute(result.reason)}/>" if tag else ""
    yield f'<testcase classname="assay" name="gate">{inner}</testcase>\n'
    yield from parts
    yield "</testsuite>\n</testsuites>\n"


def _test_case(case: CaseOutcome, reason: str) -> str:
    tag = {"failed": "failure", "unmeasured": "error"}.get(case.outcome)
    inner = f"<{tag} message={_attribute(reason or case.outcome)}/>" if tag else ""
    return f'<testcase classname="assay.case" name={_attribute(case.id)}>{inner}</testcase>\n'


def _attribute(text: str) -> str:
    return quoteattr(_NOT_XML.sub("\ufffd", text), {"\n": "&#10;", "\r": "&#13;", "\t": "&#9;"})


def sarif(result: GateResult, location: str) -> dict[str, Any]:
    """SARIF 2.1.0 of the safety findings. It has kinds, severities and case ids, and no content."""
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
    results = [
        {
            "ruleId": one.kind,
            "level": LEVELS.get(one.severity, "warning"),
            "message": {"text": f"{one.kind} ({one.severity}) in case {one.case}{_times(one.count)}"},
            "locations": [
                {
                    "physicalLocation": {
                        "artifactLocation": {"uri": quote(location)},
                        "region": {"startLine": 1},
                    },
                    "logicalLocations": [{"name": one.case, "kind": "case"}],
                }
            ],
            "partialFingerprints": {
                "assay/v1": sha256(f"{one.kind}\0{one.case}".encode(errors="replace")).hexdigest()
            },
        }
        for one in result.findings
    ]
    driver = {"name": "assay", "version": __version__, "rules": rules}
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": results}],
    }


def _times(count: int) -> str:
    return "" if count == 1 else f", {count:,} times"


def annotations(result: GateResult, reasons: Mapping[str, str]) -> Iterator[str]:
    """Workflow commands of GitHub: the verdict, and the first cases that did not pass."""
    level = "notice" if result.outcome == "passed" else "error"
    yield f"::{level} title={_property(f'assay: {result.outcome}')}::{_data(result.reason)}"
    for one in result.failing[:MAX_ANNOTATIONS]:
        text = reasons.get(one.id) or one.outcome
        yield f"::warning title={_property(f'{one.id}: {one.outcome}')}::{_data(text)}"


def _data(text: str) -> str:
    text = _CONTROL.sub(" ", text[:1000].replace("\n", "\x00"))
    return text.replace("%", "%25")


def _property(text: str) -> str:
    return _data(text[:200]).replace(":", "%3A").replace(",", "%2C")
