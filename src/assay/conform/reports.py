"""What came of the checks: counts, an exit code, and reports as JSON, Markdown and JUnit."""

from collections import Counter
from collections.abc import Iterator

import msgspec

from assay.comparison.gate_reports import junit_case, plain
from assay.conform.check import WORDS, Outcome, Result
from assay.errors.exit_codes import ERROR, NOT_PASSED, PASSED
from assay.version import __version__

TAGS: dict[Result, str] = {
    "passed": "",
    "failed": "failure",
    "not_offered": "skipped",
    "not_tried": "skipped",
}
LONGEST = 1000  # characters of a message


class Report(msgspec.Struct, frozen=True):
    """The outcomes of a run at an address. `trouble` says why the host could not be reached."""

    address: str
    outcomes: list[Outcome]
    trouble: str = ""
    strict: bool = False
    left: int = 0  # evaluations and runs that could not be deleted

    @property
    def counts(self) -> dict[Result, int]:
        found = Counter(one.result for one in self.outcomes)
        return {result: found[result] for result in WORDS}

    @property
    def empty(self) -> bool:
        """Whether no check says anything about the host."""
        return not self.counts["passed"] and not self.counts["failed"]

    @property
    def exit_code(self) -> int:
        if self.trouble:
            return ERROR
        failed = self.counts["failed"] or (self.strict and (self.counts["not_tried"] or self.empty))
        return NOT_PASSED if failed else PASSED

    @property
    def headline(self) -> str:
        """`http://…: 112 passed, 1 failed`."""
        counted = ", ".join(f"{count} {WORDS[result]}" for result, count in self.counts.items() if count)
        return f"{self.address}: {counted or 'no checks'}"


class ListedRule(msgspec.Struct, frozen=True):
    """One check of `conform --list --json`."""

    name: str
    reference: str
    rule: str


class CheckedRule(msgspec.Struct, frozen=True):
    """The outcome of one check of `conform --json`."""

    name: str
    reference: str
    rule: str
    result: Result
    message: str
    seconds: float


class ConformDocument(msgspec.Struct, frozen=True):
    """The document of `conform --json`."""

    address: str
    assay_version: str
    exit_code: int
    trouble: str
    strict: bool
    counts: dict[Result, int]
    left_behind: int
    checks: list[CheckedRule]


def as_json(report: Report) -> bytes:
    """One document with every check."""
    checks = [
        CheckedRule(
            one.check.name,
            one.check.reference,
            one.check.rule,
            one.result,
            one.message[:LONGEST],
            one.seconds,
        )
        for one in report.outcomes
    ]
    document = ConformDocument(
        address=report.address,
        assay_version=__version__,
        exit_code=report.exit_code,
        trouble=report.trouble,
        strict=report.strict,
        counts=report.counts,
        left_behind=report.left,
        checks=checks,
    )
    return msgspec.json.encode(document)


def as_markdown(report: Report) -> str:
    """What did not pass first, then every check."""
    lines = ["# Conformance", "", plain(report.headline, LONGEST)]
    lines += ["", plain(report.trouble, LONGEST)] if report.trouble else []
    for result in ("failed", "not_tried", "not_offered", "passed"):
        rows = [one for one in report.outcomes if one.result == result]
        if rows:
            lines += ["", f"## {WORDS[result].capitalize()} ({len(rows)})", ""]
            lines += ["| check | reference | rule | message |", "|---|---|---|---|"]
            lines += [
                f"| {plain(one.check.name)} | {plain(one.check.reference)} | {plain(one.check.rule, LONGEST)} "
                f"| {plain(one.message, LONGEST)} |"
                for one in rows
            ]
    return "\n".join(lines) + "\n"


def as_junit(report: Report) -> Iterator[str]:
    """
    A test case for each check, and one for the host. There is a failure or an error exactly if the exit code is not 0.
    """
    tags = [_tag(one, strict=report.strict) for one in report.outcomes]
    counts = Counter([*tags, "error" if report.trouble else ""])
    totals = (
        f'tests="{len(tags) + 1}" failures="{counts["failure"]}" errors="{counts["error"]}" '
        f'skipped="{counts["skipped"]}"'
    )
    yield '<?xml version="1.0" encoding="UTF-8"?>\n'
    yield f'<testsuites name="assay" {totals}>\n<testsuite name="conform" {totals}>\n'
    yield junit_case("assay.conform", "host", "error" if report.trouble else "", report.trouble)
    for one, tag in zip(report.outcomes, tags, strict=True):
        family = one.check.name.rpartition(".")[0]
        message = f"{WORDS[one.result]}: {one.message[:LONGEST]} ({one.check.reference})"
        yield junit_case(f"assay.conform.{family}", one.check.name, tag, message, seconds=one.seconds)
    yield "</testsuite>\n</testsuites>\n"


def _tag(outcome: Outcome, *, strict: bool) -> str:
    return "failure" if strict and outcome.result == "not_tried" else TAGS[outcome.result]
