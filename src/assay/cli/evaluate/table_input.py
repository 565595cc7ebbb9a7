"""A table as the only input of `assay evaluate`: `assay evaluate eval.csv --checks checks.yaml`."""

import re
import shlex

import msgspec

from assay.cli.evaluate.inputs_outputs import EvaluateOptions
from assay.errors import UsageError
from assay.inputs.files import check_readable, format_of
from assay.inputs.rows import ROW_KINDS, UnclearColumns


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
    files = [re.sub(r"[^\w.-]+", "-", column) + ".jsonl" for column in unclear.outputs]
    lines = [
        f"next: {shlex.join([*words, '--map', f'output={column}', '-o', file])}"
        for column, file in zip(unclear.outputs, files, strict=True)
    ]
    if len(files) > 1:
        lines.append(f"then: {shlex.join(['assay', 'compare', *files])}")
    return UsageError(str(unclear), *lines)
