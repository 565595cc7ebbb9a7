"""`assay import`: files of other tools become cases, checks and recorded outputs that `assay evaluate` takes."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from assay.cli.console.console import count_of, echo, echo_err
from assay.cli.evaluate.evaluate import main as evaluate
from assay.cli.evaluate.evaluate_options import EvaluateOptions
from assay.errors import BadLine, EnvironmentFailure, InvalidRequest, UsageError
from assay.errors.exit_codes import NOT_PASSED, PASSED
from assay.interchange.folder import ImportFolder, Written, WrittenFolder
from assay.interchange.formats import FORMATS, Format, find_files, format_named, recognise
from assay.interchange.imported import ImportReport
from assay.runs.run_names import name_tag
from assay.settings import load
from assay.version import __version__

FOLDER = "imported"
SHOWN = 20  # kinds of what was not carried, on standard error
AGENT = "module:function"


def list_formats() -> None:
    """Print the formats."""
    longest = max(len(one.name) for one in FORMATS)
    for one in FORMATS:
        echo(f"{one.name:{longest}}  {one.files}")


def import_files(
    files: list[str], *, tool: str | None, output: str | None, save: bool, name: str | None, strict: bool
) -> int:
    """Write the folder, and say what to do with it. The result is the exit code."""
    if not files:
        raise UsageError("expected a file or a folder of another tool; `assay import --list` says which")
    limits = load().limits
    report = ImportReport()
    known = format_named(tool) if tool else None
    found = find_files(files)
    path = Path(output or FOLDER)
    run = name or re.sub(r"[^A-Za-z0-9._-]+", "-", path.resolve().name).strip("-._") or FOLDER
    name_tag(run, "--name")
    try:
        known = known or recognise(found, limits)
        written = _write(found, known, path, report)
    except BadLine as bad:  # nothing was written: the file is refused as a whole
        raise InvalidRequest(bad.problems) from None
    except OSError as error:
        reason = error.strerror or error
        raise EnvironmentFailure(f"-o {path}: expected a folder that can be written, got {reason}") from None
    _say(written, known, report)
    code = PASSED
    if save:
        code = _save(written, run)
    else:
        for line in _commands(written, run):
            echo(line)
    return NOT_PASSED if strict and report.counts else code


def _write(files: list[str], known: Format, path: Path, report: ImportReport) -> WrittenFolder:
    limits = load().limits
    with ImportFolder(path, limits, report) as folder:
        for one in known.read(files, report, limits):
            folder.add(one)
        about = {"from": known.name, "assay": __version__, "sources": files}
        return folder.finish(", ".join(files), about)


def _say(written: WrittenFolder, known: Format, report: ImportReport) -> None:
    outputs = sum(one.cases for one in written.variants if one.has_outputs)
    cases = sum(one.cases for one in written.variants) - outputs
    counts = {"recorded output": outputs, "case": cases}
    came = " and ".join(count_of(count, what) for what, count in counts.items() if count)
    echo(f"{known.name}: {came} in {written.path}")
    for path in written.files:
        echo(f"  {path.name}{_about(path, written)}")
    parts = [(kind, count) for kind, count in report.counts.most_common() if kind not in report.members]
    for (what, why), count in parts[:SHOWN]:
        times = f" ({count:,} times)" if count > 1 else ""
        echo_err(f"not carried: {what}{times}: {why}; at {report.first[what, why]}")
    reasons = written.path / "import.json"
    if (more := len(parts) - SHOWN) > 0:
        echo_err(f"not carried: {more:,} more kinds, in {reasons}")
    names = [what for what, why in report.counts if (what, why) in report.members]
    if names:
        listed = ", ".join(names[:SHOWN]) + (", …" if len(names) > SHOWN else "")
        echo_err(f"not carried: {count_of(len(names), 'member')} ({listed}); reasons in {reasons}")
    if written.functions:
        echo_err(
            f"python assertions are in {written.functions}: read them before you use one with --check-module"
        )


def _about(path: Path, written: WrittenFolder) -> str:
    notes = {
        written.checks: "checks that need no model",
        written.judges: "checks that ask a judge or an embedding",
        written.recorded: "the recorded verdicts of the other tool, for a run of their own",
        written.functions: "code of the other tool that was not run",
    }
    for one in written.variants:
        system = f" of {one.variant}" if one.variant and len(written.variants) > 1 else ""
        notes[one.path] = count_of(one.cases, "output" if one.has_outputs else "case") + system
        if one.judged:
            notes[one.judged] = f"the cases with a judge{system}"
    return f": {notes[path][:150]}"


def _run_names(written: WrittenFolder, name: str) -> list[tuple[Written, str]]:
    """A name for the run of each file with outputs."""
    with_outputs = [one for one in written.variants if one.has_outputs]
    if len(with_outputs) == 1:
        return [(with_outputs[0], name)]
    return [(one, f"{name}-{number}") for number, one in enumerate(with_outputs, 1)]


def _save(written: WrittenFolder, name: str) -> int:
    """Score the recorded outputs, and store a run for each system."""
    runs = _run_names(written, name)
    if not runs:
        raise InvalidRequest("--save: there are no recorded outputs to store; run the cases with --agent")
    code = PASSED
    for one, run in runs:
        checks = _checks_of(one, written)
        if checks is None:
            echo_err(f"--save: {one.path.name}: no check was carried, so there is nothing to score")
            continue
        options = EvaluateOptions(
            contexts=str(one.path), checks=checks or None, save=True, name=run, experiment=name
        )
        code = max(code, evaluate(options))
    for line in _comparisons(written, runs):
        echo(line)
    return code


def _checks_of(one: Written, written: WrittenFolder) -> str | None:
    """The file of checks for a file of cases, nothing if each case has its own, None if there are none."""
    if written.checks:
        return str(written.checks)
    if one.has_own_checks:
        return ""
    return str(written.recorded) if written.recorded else None


def _commands(written: WrittenFolder, name: str) -> Iterator[str]:
    runs = _run_names(written, name)
    for one, run in runs:
        checks = _checks_of(one, written)
        if checks is None:
            yield f"next: write checks for {one.path}, and name them with --checks"
            continue
        yield f"next: {_evaluate('--contexts', one.path, checks)} --name {shlex.quote(run)}"
    for one in written.variants:
        judges = str(written.judges) if written.judges else None
        if one.has_outputs and (judges or one.judged):
            yield "with a model:"
            yield f"next: {_evaluate('--contexts', one.judged or one.path, '' if one.judged else judges)}"
    yield from _comparisons(written, runs)


def _comparisons(written: WrittenFolder, runs: list[tuple[Written, str]]) -> Iterator[str]:
    names = [shlex.quote(run) for _, run in runs]
    if len(names) > 1:
        yield f"next: assay compare {' '.join(names[:3])}"
    for one in written.variants[:1]:
        checks = _checks_of(one, written)
        option = "--contexts" if one.has_outputs else "--cases"
        baseline = f" --baseline {names[0]}" if names else ""
        yield "with your system:"
        yield f"next: {_evaluate(option, one.path, checks or '')} --agent {AGENT}{baseline}"


def _evaluate(option: str, path: Path, checks: str | None) -> str:
    with_checks = f" --checks {shlex.quote(checks)}" if checks else ""
    return f"assay evaluate {option} {shlex.quote(str(path))}{with_checks}"
