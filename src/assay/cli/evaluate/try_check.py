"""`assay try`: one check, or a file of checks, on one case. It answers at once and stores nothing."""

import sys
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from assay.api.evaluate import evaluate_sync
from assay.api.evaluation import with_short_forms
from assay.cli.console.console import echo_json
from assay.cli.console.console_table import Page
from assay.cli.render.case import LABEL, case_lines
from assay.cli.render.failing_cases import NOTE, TriedCase, data_of, outcome_of
from assay.comparison.views.shown_cases import ShownCase, case_of
from assay.errors import BadLine, UsageError
from assay.errors.exit_codes import ERROR, NOT_PASSED, PASSED
from assay.fep.planning.sources import checks_in
from assay.host import parts
from assay.inputs.files import document_of
from assay.inputs.yaml_reader import read_yaml
from assay.protocol.json_types import is_list, is_object, kind_of
from assay.results.reasons import is_failing
from assay.settings import Settings, load

STDIN = "-"
FILES = (".yaml", ".yml", ".json")
CASE = (
    "an object with output, and input and expected if the check reads them; or one with test_case and output"
)


class TryOptions(Struct, frozen=True, kw_only=True):
    """The command line of `assay try`."""

    check: str
    case: str | None = None
    input: str | None = None
    output: str | None = None
    expected: str | None = None
    modules: list[str] = []
    json: bool = False


def main(options: TryOptions) -> int:
    """Run the check, print its result and return the exit code."""
    settings = load()
    checks = with_short_forms(_checks(options, settings))
    case, output = _case_and_output(options, settings)
    result = evaluate_sync([case], [output], checks, registry=parts.registry(settings, options.modules))
    shown = case_of(msgspec.json.decode(msgspec.json.encode(result.results[0])))
    if options.json:
        echo_json(msgspec.json.encode(_document(shown)))
    else:
        _print(shown)
    return _exit_code(shown)


def _checks(options: TryOptions, settings: Settings) -> list[Any]:
    """The checks of a file, or the one that is written on the command line: a name, a short form or FEP's form."""
    text = options.check
    if text.endswith(FILES) and Path(text).is_file():
        return checks_in(text, settings.limits)
    try:
        check = read_yaml(text.encode(), "CHECK")
    except BadLine as wrong:
        raise UsageError(str(wrong)) from None
    if isinstance(check, str) and options.expected is not None and ":" not in check:
        check = {check: "$.test_case.expected"}
    if isinstance(check, str | dict):
        return [check]
    if is_list(check) and check:
        return check
    raise UsageError(
        f"CHECK: expected a check, such as 'contains: [Paris]', or a file of checks, "
        f"got {kind_of(check) if check else 'none'}"
    )


def _case_and_output(options: TryOptions, settings: Settings) -> tuple[Any, Any]:
    """Of a file, standard input, or the options."""
    row = _row(options, settings)
    if not is_object(row) or "output" not in row:
        got = f"the members {', '.join(map(str, row))}" if is_object(row) else kind_of(row)
        raise UsageError(f"case: expected {CASE}, got {got}")
    if "test_case" in row:
        return row["test_case"], row["output"]
    case = {"id": "1", "input": "", **{name: value for name, value in row.items() if name != "output"}}
    return case, {"value": row["output"]}


def _row(options: TryOptions, settings: Settings) -> Any:
    given = {
        name: value
        for name, value in (
            ("input", options.input),
            ("output", options.output),
            ("expected", options.expected),
        )
        if value is not None
    }
    if options.case is not None and given:
        names = ", ".join(f"--{name}" for name in given)
        raise UsageError(f"--case: expected it alone, got {names} beside it")
    if given and options.output is None:
        raise UsageError("expected --output TEXT, which the check looks at, got none")
    if given:
        return given
    if options.case is not None and options.case != STDIN:
        return document_of(options.case, settings.limits)
    if options.case is None and sys.stdin.isatty():
        raise UsageError(f"expected --output TEXT, --case FILE, or a case on standard input: {CASE}")
    return read_yaml(sys.stdin.buffer.read(settings.limits.max_line_bytes), "standard input")


def _document(case: ShownCase) -> TriedCase:
    """What every check said. The content stands under `data`."""
    checks = (case.result or {})["check_results"]
    data = data_of(case, checks)
    data.result = case.result
    return TriedCase(outcome_of(case, checks), NOTE, data)


def _exit_code(case: ShownCase) -> int:
    checks = (case.result or {})["check_results"]
    if any(one["status"] != "completed" for one in checks):
        return ERROR
    return NOT_PASSED if any(map(is_failing, checks)) else PASSED


def _print(case: ShownCase) -> None:
    page = Page()
    for label, text in case_lines(case):
        if label == "input" and not text:
            continue
        page.put(f"{label:<{LABEL}}{text}", indent=" " * LABEL)
