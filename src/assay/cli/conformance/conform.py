"""`assay conform`: checks of a host, with an exit code and reports."""

import os
from collections.abc import Iterable
from pathlib import Path

import msgspec
from msgspec import Struct

from assay import settings
from assay.cli.console.console import echo, echo_err, echo_json, echo_rows
from assay.conform.catalog import all_checks
from assay.conform.check import WORDS, Host, Keys, Outcome, RpcClient
from assay.conform.grpc.checks import grpc_checks
from assay.conform.http_client import HttpClient
from assay.conform.openwop.rules import rule_table
from assay.conform.reports import ListedRule, Report, as_json, as_junit, as_markdown
from assay.conform.run import Unreachable, chosen, clean_up, run_checks
from assay.conform.shapes import check_shape
from assay.errors import UsageError
from assay.errors.exit_codes import NOT_PASSED, PASSED
from assay.extras import require
from assay.fep.outputs.output_file import OutputFile
from assay.inputs.files import document_of

KEY = "ASSAY_API_KEY"
INTERRUPTED = 10.0  # seconds for what is deleted after Ctrl-C


class ConformOptions(Struct, frozen=True, kw_only=True):
    """The command line of `assay conform`."""

    url: str | None
    key: str | None = None
    other_key: str | None = None
    reader_key: str | None = None
    approver_key: str | None = None
    replica: tuple[str, ...] = ()
    agent: str | None = None
    suite: str | None = None
    grpc: str | None = None
    only: tuple[str, ...] = ()
    strict: bool = False
    markdown: str | None = None
    junit: str | None = None
    verbose: bool = False
    rate: float
    timeout: float
    json: bool = False


def main(options: ConformOptions) -> int:
    """Run the checks, print and write the reports, and return the exit code."""
    if options.url is None and options.grpc is None:
        raise UsageError("expected the address of a host: assay conform http://127.0.0.1:8321")
    checks = chosen(all_checks() if options.url is not None else grpc_checks(), options.only)
    if options.replica and options.url is None:
        raise UsageError("--replica: expected the first address of the host before it: assay conform URL")
    client, *others = [_client(one, options) for one in (options.url, *options.replica)]
    host = Host(
        client,
        _keys(options),
        others=[one for one in others if one is not None],
        agent=options.agent,
        suite=options.suite,
        rpc=None if options.grpc is None else _grpc_client(options.grpc, options),
    )
    lines = Lines(verbose=options.verbose)
    trouble = ""
    try:
        outcomes = run_checks(host, checks, None if options.json else lines.add)
    except Unreachable as wrong:
        outcomes, trouble = wrong.outcomes, str(wrong)
    except KeyboardInterrupt:
        _say_left(clean_up(host, seconds=INTERRUPTED))
        raise
    lines.end()
    left = clean_up(host) if not trouble else len(host.made)
    report = Report(
        " and ".join(filter(None, (options.url, options.grpc))), outcomes, trouble, options.strict, left
    )
    if options.markdown is not None:
        _write(options.markdown, [as_markdown(report)])
    if options.junit is not None:
        _write(options.junit, as_junit(report))
    if options.json:
        echo_json(as_json(report))
    else:
        echo(report.headline)
    _advise(report, hints=not options.json)
    return report.exit_code


def _advise(report: Report, *, hints: bool) -> None:
    """Say what the counts do not: that the host is away, that nothing was checked, where to read on, what is left."""
    failed = next((one.check.name for one in report.outcomes if one.result == "failed"), None)
    if report.trouble:
        echo_err(report.trouble)
    elif report.empty:
        echo_err("no check passed: the address may be that of another host, or the key of nobody")
    elif failed is not None and hints:
        echo_err(f"`assay conform --explain {failed}` prints the rule, what is sent and what must come")
    _say_left(report.left)


def _say_left(left: int) -> None:
    if left:
        echo_err(f"{left} evaluations and runs stay there: the host did not let them be deleted")


def _client(address: str | None, options: ConformOptions) -> HttpClient | None:
    return None if address is None else HttpClient(address, timeout=options.timeout, rate=options.rate)


def _keys(options: ConformOptions) -> Keys:
    more = {
        "--other-key": options.other_key,
        "--reader-key": options.reader_key,
        "--approver-key": options.approver_key,
    }
    return Keys(
        _key(options.key, "--key"),
        *(None if given is None else _key(given, option) for option, given in more.items()),
    )


def _grpc_client(address: str, options: ConformOptions) -> RpcClient:
    require("assay conform --grpc", "grpc")
    from assay.conform.grpc.client import GrpcClient  # deferred import: grpcio is an extra

    return GrpcClient(address, timeout=options.timeout, rate=options.rate)


def list_checks(*, json: bool) -> None:
    """Print every check, and every rule of OpenWOP that no client can see."""
    checks = all_checks()
    if json:
        rows = [ListedRule(one.name, one.reference, one.rule) for one in checks]
        echo_json(msgspec.json.encode(rows))
    else:
        table = rule_table()
        unseen = [one for one in table.rules if one.unseen]
        echo_rows([(one.name, one.reference) for one in checks])
        echo(f"\nnot observable ({len(unseen)} of {len(table.rules)} sentences of docs/openwop-contract.md):")
        echo_rows([(f"§{one.id}", one.rule, table.reasons[one.unseen]) for one in unseen])


def explain_check(name: str) -> None:
    """Print what a check is about."""
    found = next((one for one in all_checks() if one.name == name), None)
    if found is None:
        raise UsageError(f"--explain {name}: there is no such check; `assay conform --list` lists them")
    echo(f"{found.name} ({found.reference})")
    for title, text in (("rule", found.rule), ("sent", found.sends), ("must come", found.expects)):
        echo(f"{title}: {text}")


def check_shapes(names: list[str], *, json: bool) -> int:
    """Print what is wrong with each document, and return the exit code."""
    found = [(name, check_shape(document_of(name, settings.load().limits))) for name in names]
    if json:
        rows = [{"file": name, "kind": one.kind, "problems": one.problems} for name, one in found]
        echo_json(msgspec.json.encode(rows))
    else:
        for name, one in found:
            echo(f"{name}: {one.kind}: {_counted(one.problems)}")
            for problem in one.problems:
                echo(f"  {problem}")
    return NOT_PASSED if any(one.problems for _, one in found) else PASSED


def _counted(problems: list[str]) -> str:
    return f"{len(problems)} {'problem' if len(problems) == 1 else 'problems'}" if problems else "no problem"


class Lines:
    """
    Prints a line for each check, as it ends. Checks that follow each other and were not run for the same reason have
    one.

    What passed, and every single check, is only printed if it is verbose.
    """

    def __init__(self, *, verbose: bool) -> None:
        self._verbose, self._alike = verbose, list[Outcome]()

    def add(self, outcome: Outcome) -> None:
        if self._alike and (self._verbose or _reason(outcome) != _reason(self._alike[0])):
            self.end()
        if outcome.result in ("not_offered", "not_tried"):
            self._alike.append(outcome)
            return
        self.end()
        if outcome.result == "failed" or self._verbose:
            _print(outcome, f"{outcome.check.name} ({outcome.check.reference})")

    def end(self) -> None:
        """Print what is left."""
        if self._alike:
            first, last = self._alike[0], self._alike[-1]
            name = f"{first.check.name} ({first.check.reference})"
            many = f"{len(self._alike)} checks, {first.check.name} to {last.check.name}"
            _print(first, name if first is last else many)
        self._alike.clear()


def _reason(outcome: Outcome) -> tuple[str, str]:
    return outcome.result, outcome.message


def _print(outcome: Outcome, name: str) -> None:
    what = f"{WORDS[outcome.result]}: {name}"
    echo(f"{what}: {outcome.message}" if outcome.message else what, flush=True)


def _key(given: str | None, option: str) -> str:
    """The key that an option gives, or names the file of; else that of the environment."""
    key, source = os.environ.get(KEY, "").strip(), KEY
    if given is not None:
        key, source = given, option
    if given is not None and given.startswith("@"):
        try:
            key = Path(given[1:]).read_text("utf-8-sig").strip()
        except (OSError, UnicodeDecodeError) as wrong:
            why = wrong.strerror if isinstance(wrong, OSError) else "other bytes than UTF-8"
            raise UsageError(f"{option} {given}: expected a file that can be read, got {why}") from None
    if not key:
        raise UsageError(f"{option}: expected a key, @FILE, or a key in {KEY}; got none")
    if not key.isascii() or not key.isprintable():
        raise UsageError(
            f"{source}: expected a key of printable ASCII characters, got others; copy the key again"
        )
    return key


def _write(name: str, parts: Iterable[str]) -> None:
    file = OutputFile(name)
    for part in parts:
        file.write(part.encode(errors="replace"))
    file.close()
