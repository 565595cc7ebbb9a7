"""A table as the only input of `assay evaluate`: `assay evaluate eval.csv --checks checks.yaml`."""

import re
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from assay.cli.console.console import echo_err
from assay.cli.evaluate.evaluate_options import EvaluateOptions
from assay.errors import BadLine, UsageError
from assay.fep.planning.sources import checks_in
from assay.inputs.files import check_readable, format_of, table_columns
from assay.inputs.rows import (
    ROW_KINDS,
    Part,
    UnclearColumns,
    find_columns,
    has_expected,
    list_columns,
    read_map,
    split_columns,
)
from assay.ports import Limits
from assay.protocol.json_types import is_list, is_object
from assay.settings import load

EXPECTED = re.compile(r"\$\.test_case\.expected\b")


def with_table(options: EvaluateOptions) -> EvaluateOptions:
    """The options; a table or JSON lines as FILE are --contexts, or --cases if an agent answers."""
    name = options.request
    if name is None or name == "-" or options.contexts or options.cases or options.outputs:
        return options
    form, _ = format_of(name, "json")
    if form not in (*ROW_KINDS, "jsonl"):
        return options
    check_readable(name)
    if form in ROW_KINDS and not options.checks and not options.modules:
        raise UsageError(
            f"{name}: expected --checks with what the outputs must do; a table has none",
            f"next: assay init --table {shlex.quote(name)}",
        )
    place = {"contexts": name} if options.agent is None else {"cases": name}
    return msgspec.structs.replace(options, request=None, **place)


def require_expected(options: EvaluateOptions, checks: Any, limits: Limits) -> None:
    """
    Say that checks read the expected value and no column of the table is it.

    Raises UsageError if every check reads it: nothing would be measured.
    """
    name = options.contexts or options.cases
    readers = [_reads_expected(check) for check in checks] if is_list(checks) else []
    if name is None or not any(readers):
        return
    columns, part = _columns(name, limits), "case" if options.contexts is None else "context"
    mapping = read_map(options.columns)
    if part == "case":
        mapping, _ = split_columns(mapping)
    if not columns or _finds_expected(columns, mapping, part, name):
        return
    message = (
        f"{name}: the checks read $.test_case.expected, and no column is recognised as the expected value; "
        f"{list_columns(columns)}; say --map expected=COLUMN"
    )
    if all(readers):
        raise UsageError(message)
    echo_err(message)


def _finds_expected(columns: Sequence[str], mapping: Mapping[str, str], part: Part, name: str) -> bool:
    kind = ROW_KINDS.get(format_of(name, "jsonl")[0], "csv")
    return has_expected(columns, find_columns(columns, mapping, part, name, kind=kind))


def _columns(name: str, limits: Limits) -> tuple[str, ...]:
    """The columns of a table; none for another file."""
    with suppress(BadLine):  # reported by the run
        return table_columns(name, limits)
    return ()


def _reads_expected(value: Any) -> bool:
    if isinstance(value, str):
        return EXPECTED.match(value) is not None
    items = value.values() if is_object(value) else value if is_list(value) else ()
    return any(map(_reads_expected, items))


def with_commands(unclear: UnclearColumns, options: EvaluateOptions) -> UsageError:
    """The refusal, with the commands that evaluate each column that may be the output, and compare them."""
    name = options.contexts
    if not unclear.outputs or name is None or name == "-":
        return unclear
    words = ["assay", "evaluate", name]
    for option, values in (
        ("--checks", [options.checks] if options.checks else []),
        ("--check-module", options.modules),
        ("--map", options.columns),
    ):
        words += [word for value in values for word in (option, value)]
    if _lacks_expected(unclear.outputs[0], name, options):
        words += ["--map", "expected=COLUMN"]
    files = [re.sub(r"[^\w.-]+", "-", column) + ".jsonl" for column in unclear.outputs]
    lines = [
        f"next: {shlex.join([*words, '--map', f'output={column}', '-o', file])}"
        for column, file in zip(unclear.outputs, files, strict=True)
    ]
    if len(files) > 1:
        lines.append(f"then: {shlex.join(['assay', 'compare', *files])}")
    return UsageError(str(unclear), *lines)


def _lacks_expected(output: str, name: str, options: EvaluateOptions) -> bool:
    """Whether a person must say which column is the expected value, too."""
    limits = load().limits
    checks = checks_in(options.checks, limits) if options.checks and options.checks != "-" else ()
    columns = _columns(name, limits)
    mapping = read_map(options.columns) | {"output": output}
    reads = bool(columns) and any(map(_reads_expected, checks))
    return reads and not _finds_expected(columns, mapping, "context", name)
