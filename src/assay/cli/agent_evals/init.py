"""`assay init`: write a folder with cases, checks, a policy, a workflow of CI and assay.toml, which runs as it is."""

import os
import re
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import typer
from msgspec import Struct
from msgspec.structs import replace

from assay.cli.agent_evals import init_files
from assay.cli.agent_evals.suite import TEMPLATE
from assay.cli.console.console import echo
from assay.errors import UsageError
from assay.inputs.files import FORMATS, read_items
from assay.inputs.rows import (
    ROW_KINDS,
    ColumnMap,
    UnclearColumns,
    find_columns,
    has_expected,
    list_columns,
    read_map,
)
from assay.settings import load

KINDS = {  # what it is, what to ask for, the default
    "table": ("a table of answers, of one model or of two", "Which file?", "eval.csv"),
    "function": ("a function that answers questions", "Which one, as module:function?", "bot:answer"),
    "agent": ("an agent that does tasks, with tools", "Which one, as module:function?", "agent:act"),
    "endpoint": ("an HTTP endpoint", "Which address?", "http://127.0.0.1:8000/answer"),
}
MUSTS = {"contain": "contain the expected text", "equal": "be equal to the expected value"}
AGENT = "local.mine.bot"
BASELINE = "base-branch.jsonl"  # results of the base branch
SUGGESTED = 3  # tables that a refusal names
ANY_TEXT = "so checks.yaml asks only for any text; say --map expected=COLUMN if there is one"


class InitOptions(Struct, frozen=True, kw_only=True):
    folder: str = "."
    kind: str | None = None
    source: str = ""
    must: str | None = None  # None: contain, or any text if the table has no expected values
    columns: list[str] = []  # --map
    force: bool = False
    yes: bool = False


class Plan(Struct, kw_only=True):
    """The files to write, by name, and the commands that use them."""

    files: dict[str, str]
    measure: list[list[str]]
    results: list[str]
    extras: str = "compare"
    copies: dict[str, Path] = {}  # the files to copy, by the new name
    note: str | None = None  # what a person must know about the files


def main(options: InitOptions) -> None:
    """Ask if there is nobody who said it, plan everything, refuse what exists, and write."""
    options = _complete(options)
    plan = PLANS[options.kind or "function"](options)
    plan.files |= {"gate.yaml": init_files.POLICY, init_files.WORKFLOW: _workflow(plan)}
    folder = Path(options.folder)
    existing = [name for name in (*plan.copies, *plan.files) if (folder / name).exists()]
    if existing and not options.force:
        raise UsageError(
            f"{', '.join(existing)}: expected a folder without these files; nothing was written",
            "--force overwrites them",
        )
    for name, text in plan.files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8")
    for name, source in plan.copies.items():
        shutil.copyfile(source, folder / name)
    echo(f"wrote {', '.join((*plan.copies, *plan.files))}")
    if plan.note is not None:
        echo(plan.note)
    change = "" if folder.resolve() == Path.cwd() else f"cd {shlex.quote(options.folder)} && "
    first, *others = [*plan.measure, [*_gate(plan), "--policy", "gate.yaml"]]
    echo(f"next: {change}{shlex.join(first)}")
    for words in others:
        echo(f"then: {shlex.join(words)}")


def _complete(options: InitOptions) -> InitOptions:
    """The options, with the answers of the questions if none of them was given."""
    if options.must is not None and options.must not in MUSTS:
        raise UsageError(f"--must {options.must}: expected one of {', '.join(MUSTS)}")
    if options.kind is not None:
        return options
    if options.yes:
        return replace(options, kind="function", source=KINDS["function"][2])
    tables = _tables()
    if not sys.stdin.isatty():
        known = [f"--table {shlex.quote(name)}" for name in tables[:SUGGESTED]] or ["--function bot:answer"]
        raise UsageError(
            "expected --table, --function, --agent or --endpoint, because there is no terminal to ask",
            *(f"next: assay init {one}" for one in known),
        )
    kind = _choose("What do you have?", {name: what for name, (what, _, _) in KINDS.items()})
    default = tables[0] if kind == "table" and tables else KINDS[kind][2]
    source = typer.prompt(KINDS[kind][1], default=default)
    must = options.must or _choose("What must its answer do?", MUSTS)
    options = replace(options, kind=kind, source=source, must=must)
    if kind != "table" or not Path(source).exists():
        return options
    columns = _columns(source)
    outputs, found = _outputs(columns, options)
    free = [column for column in columns if column not in (*found.columns.values(), *outputs)]
    if has_expected(columns, found) or not free:
        return options
    expected = _choose("Which column has the expected value?", dict.fromkeys(free, ""))
    return replace(options, columns=[*options.columns, f"expected={expected}"])


def _tables() -> list[str]:
    """The tables in this folder."""
    suffixes = {suffix for suffix, form in FORMATS.items() if form in ROW_KINDS}
    return sorted(
        path.name for path in Path().iterdir() if path.suffix.lower() in suffixes and path.is_file()
    )


def _choose(question: str, choices: Mapping[str, str]) -> str:
    echo(question)
    for number, (name, text) in enumerate(choices.items(), 1):
        echo(f"  {number}  {name}{': ' if text else ''}{text}")
    names = list(choices)
    while True:
        choice = str(typer.prompt("Number or name", default="1")).strip()
        if choice in names:
            return choice
        if choice.isascii() and choice.isdigit() and 1 <= int(choice) <= len(names):
            return names[int(choice) - 1]
        echo(f"expected 1 to {len(names)}, or one of {', '.join(names)}; got {choice!r}")


# a table


def _plan_table(options: InitOptions) -> Plan:
    folder, path = Path(options.folder), Path(options.source)
    files: dict[str, str] = {}
    copies: dict[str, Path] = {}
    if path.exists():
        columns = _columns(str(path))
        name = os.path.relpath(path, folder)
        if not path.resolve().is_relative_to(folder.resolve()):  # a repository has no file beside it
            name = path.name
            copies[name] = path
    else:
        if path.suffix != ".csv":
            raise UsageError(
                f"--table {options.source}: expected a file that exists, or a new one that ends in .csv"
            )
        name, columns = path.name, init_files.TABLE.partition("\n")[0].split(",")
        files[name] = init_files.TABLE
    outputs, found = _outputs(columns, options)
    expected = has_expected(columns, found)
    if not expected and options.must is not None:
        raise UsageError(
            f"{options.source}: --must {options.must} needs a column with the expected value, and none is recognised; "
            f"{list_columns(columns)}; say --map expected=COLUMN",
        )
    files |= {
        "checks.yaml": _checks(options.must) if expected else init_files.CHECKS_WITHOUT_EXPECTED,
        "assay.toml": init_files.SETTINGS,
    }
    maps = [word for one in options.columns for word in ("--map", one)]
    measure: list[list[str]] = []
    results: list[str] = []
    for output in outputs:
        result = "results.jsonl" if output is None else re.sub(r"[^\w.-]+", "-", output) + ".jsonl"
        words = ["assay", "evaluate", name, "--checks", "checks.yaml", *maps]
        words += [] if output is None else ["--map", f"output={output}"]
        measure.append([*words, "-o", result])
        results.append(result)
    note = None if expected else f"no column is recognised as the expected value, {ANY_TEXT}"
    return Plan(files=files, measure=measure, results=results, copies=copies, note=note)


def _columns(name: str) -> list[str]:
    first = next(read_items(name, load().limits), None)
    if first is None or not first.columns:
        raise UsageError(f"--table {name}: expected a table with a header and rows: .csv, .tsv or .parquet")
    return list(first.columns)


def _outputs(columns: Sequence[str], options: InitOptions) -> tuple[list[str | None], ColumnMap]:
    """The columns of outputs, None if it is found by its name, and what every column is."""
    mapping, file = read_map(options.columns), options.source
    kind = ROW_KINDS.get(Path(file).suffix.removeprefix("."), "csv")
    try:
        return [None], find_columns(columns, mapping, "context", file, kind=kind)
    except UnclearColumns as unclear:
        if not unclear.outputs:
            raise
        chosen = mapping | {"output": unclear.outputs[0]}
        return list(unclear.outputs), find_columns(columns, chosen, "context", file, kind=kind)


def _checks(must: str | None) -> str:
    return init_files.CHECKS.replace(
        "CHECK", {"contain": "contains", "equal": "exact_match"}[must or "contain"]
    )


# a function, an endpoint, an agent


def _plan_function(options: InitOptions) -> Plan:
    files = _example(options, init_files.FUNCTION)
    return _dataset(options, files, "callable")


def _plan_endpoint(options: InitOptions) -> Plan:
    if not re.fullmatch(r"https?://[^\s/?#]+\S*", options.source):
        raise UsageError(
            f"--endpoint {options.source}: expected an address such as http://127.0.0.1:8000/answer"
        )
    plan = _dataset(options, {}, "http")
    plan.extras = "agents,compare"
    return plan


def _dataset(options: InitOptions, files: dict[str, str], kind: str) -> Plan:
    files |= {
        "cases.jsonl": init_files.CASES,
        "checks.yaml": _checks(options.must),
        "assay.toml": init_files.SETTINGS + _agent_settings(kind, options.source),
    }
    line = "assay evaluate --cases cases.jsonl --checks checks.yaml -o results.jsonl --agent"
    return Plan(files=files, measure=[[*line.split(), AGENT]], results=["results.jsonl"])


def _plan_agent(options: InitOptions) -> Plan:
    strategy = {"contain": "contains", "equal": "exact"}[options.must or "contain"]
    suite = TEMPLATE.replace(
        "strategy: contains, value: Ada", f"strategy: {strategy}, value: {init_files.GREETING[strategy]}"
    )
    files = _example(options, init_files.ACTING) | {
        "suite.yaml": suite,
        "assay.toml": init_files.SETTINGS + _agent_settings("callable", options.source),
    }
    measure = ["assay", "run", "suite.yaml", "--agent", AGENT, "-o", "results.jsonl"]
    return Plan(files=files, measure=[measure], results=["results.jsonl"], extras="compare,store")


def _example(options: InitOptions, template: str) -> dict[str, str]:
    """A first file for `module:function`, if there is none."""
    module, colon, function = options.source.rpartition(":")
    if not colon or not module or not function.isidentifier():
        raise UsageError(f"--{options.kind} {options.source}: expected module:function or file.py:function")
    name = module if module.endswith(".py") else f"{module.replace('.', '/')}.py"
    folder = Path(options.folder)
    if (folder / name).exists() or (folder / name.removesuffix(".py")).is_dir():
        return {}
    if not re.fullmatch(r"\w+", name.removesuffix(".py")):
        raise UsageError(f"--{options.kind} {options.source}: there is no {name} in {options.folder}")
    return {name: template.replace("FUNCTION", function)}


def _agent_settings(kind: str, target: str) -> str:
    quoted = target.replace("\\", "\\\\").replace('"', '\\"')
    return f'\n[agents."{AGENT}"]\nkind = "{kind}"\ntarget = "{quoted}"\n'


def _gate(plan: Plan) -> list[str]:
    """The gate of two models compares them; that of one decides on its results alone."""
    *baseline, last = plan.results[:2]
    against = ["--baseline", baseline[0]] if baseline else []
    return ["assay", "gate", last, *against]


def _workflow(plan: Plan) -> str:
    """Two models are compared with each other; anything else with what the base branch gives."""
    lines = "\n".join(f"          {shlex.join(words)} || goes_on" for words in plan.measure)
    gate, single = shlex.join(_gate(plan)), len(plan.results) == 1
    decide = init_files.AGAINST_BASE if single else init_files.BETWEEN_MODELS
    base = shlex.join([f"../{BASELINE}" if word in plan.results else word for word in plan.measure[0]])
    return (
        init_files.GITHUB.replace("EXTRAS", plan.extras)
        .replace("COMPARES", f"compares {'it with its base branch' if single else 'the models'}")
        .replace("DECIDE\n", decide.replace("GATE", gate).replace("MEASURE", base))
        .replace("MEASURE", lines)
    )


PLANS = {"table": _plan_table, "function": _plan_function, "agent": _plan_agent, "endpoint": _plan_endpoint}
