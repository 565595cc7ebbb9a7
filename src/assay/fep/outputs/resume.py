"""
Resumes a run that was killed: results that a `.jsonl` already has are not evaluated again.

A small hidden file next to the results holds the fingerprint of the run: its checks and options. The inputs need no
such record: a result contains its context, which is compared with the input at the same position.
"""

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from assay.errors import EnvironmentFailure, UsageError
from assay.fep.execution.execute import FOLD
from assay.fep.planning.plan import Plan
from assay.inputs.context import Context
from assay.protocol.canonical import canonical
from assay.protocol.duplicates import TWICE, duplicate_in
from assay.protocol.results import Status
from assay.results.case_answers import Answers
from assay.results.run_end import without_end
from assay.results.spending import NOTHING, Spending
from assay.results.tally import Tally

UNREPEATABLE = "standard input"


class Fingerprint(Struct, frozen=True, omit_defaults=True):
    """The checks and inputs that a run was started with."""

    checks: str  # a digest of the checks, their versions, and the result options
    inputs: str = ""  # a digest of the inputs, if the cases have own checks, which results do not repeat


class _Error(Struct, frozen=True):
    message: str = ""


class _Result(Struct):
    check_type: str
    status: Status
    results: dict[str, Any]
    error: _Error = _Error()


class StoredResult(Struct):
    """What a tally counts of a result."""

    status: Status
    check_results: list[_Result]
    metadata: Spending = NOTHING


_read = msgspec.json.Decoder(StoredResult).decode


def fingerprint(plan: Plan, inputs: list[str]) -> Fingerprint:
    checks = None if plan.checks is None else msgspec.to_builtins(plan.checks)
    return Fingerprint(
        _digest([checks, plan.versions, list(plan.options)]), _files(inputs) if checks is None else ""
    )


def fingerprint_path(name: str) -> Path:
    path = Path(name)
    return path.with_name(f".{path.name}.assay")


def write_fingerprint(name: str, fingerprint: Fingerprint) -> None:
    """Write the fingerprint of a run before its first result."""
    target = fingerprint_path(name)
    draft = target.with_name(f"{target.name}.{os.getpid()}")
    try:
        draft.write_bytes(msgspec.json.encode(fingerprint))
        draft.replace(target)
    except OSError as wrong:
        raise EnvironmentFailure(
            f"{target}: expected a file that can be written, got {wrong.strerror}"
        ) from None


def check_fingerprint(name: str, fingerprint: Fingerprint) -> None:
    """Raise UsageError if the results were started with other checks, options or inputs."""
    try:
        previous = msgspec.json.decode(fingerprint_path(name).read_bytes(), type=Fingerprint)
    except (OSError, msgspec.DecodeError):
        raise UsageError(
            f"--resume: {name}: expected the file {fingerprint_path(name).name}, which says how its results were made,"
            " got none; remove the results, or write to another file"
        ) from None
    if fingerprint.inputs == UNREPEATABLE:
        raise UsageError(
            "--resume: expected a file with the cases, because they have checks of their own; got standard input"
        )
    for part, difference in (("checks", "checks and options"), ("inputs", "inputs")):
        if getattr(previous, part) != getattr(fingerprint, part):
            raise UsageError(
                f"--resume: {name}: expected the {difference} of its results, got others; remove it, or write to"
                " another file"
            )


def read_existing(name: str, contexts: Iterator[Context], plan: Plan, tally: Tally) -> Iterator[bytes]:
    """
    Yield the existing results. Each is counted and compared with its context; an incomplete last line is cut off.

    After the last result, `contexts` continues with the cases that have no result.
    """
    complete_bytes, length, last = 0, 0, b""
    try:
        with Path(name).open("r+b") as file:
            for at, line in enumerate(file):
                if not line.endswith(b"\n"):
                    break
                _count(line, name, at, contexts, plan, tally)
                complete_bytes += len(line)
                length, last = len(line), without_end(line[:-1])
                yield last
            file.truncate(complete_bytes)
            if len(last) + 1 < length:  # it said that the run ended there
                file.seek(complete_bytes - length)
                file.write(last + b"\n")
                file.truncate()
    except FileNotFoundError:
        return
    except OSError as wrong:
        raise EnvironmentFailure(
            f"{name}: expected a file that can be read and cut, got {wrong.strerror}"
        ) from None


def _count(
    line: bytes, name: str, line_number: int, contexts: Iterator[Context], plan: Plan, tally: Tally
) -> None:
    context = next(contexts, None)
    try:
        case, twice = _read(line), duplicate_in(line[:-1])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise UsageError(f"--resume: {name}:{line_number + 1}: expected a result of assay") from None
    if twice is not None:
        raise UsageError(f"--resume: {name}:{line_number + 1}: {twice}: {TWICE}")
    if context is None:
        raise UsageError(f"--resume: {name} has more results than there are inputs ({line_number})")
    expected = b'{"status":"%b","execution_context":%b,"check_results":' % (
        case.status.encode(),
        context.line,
    )
    if not line.startswith(expected):
        raise UsageError(
            f"--resume: {name}:{line_number + 1}: expected {_other_input(line, context, line_number + 1)}; restore"
            f" the input, or remove {name} to evaluate every case again"
        )
    answers = plan.scorer_for(line_number, context).answers_in(tally)
    count_result(case, context.document["test_case"]["id"], answers, tally, line_number)


def count_result(case: StoredResult, id: str, answers: Answers, tally: Tally, number: int) -> None:
    """Count a stored result. `number`: how many were counted before."""
    code = 0
    for at, result in enumerate(case.check_results):
        code |= answers.record(at, result.status, result.results, id, result.error.message)
    answers.close(id, code)
    tally.count_case(case.status, case.metadata)
    if number % FOLD == 0:
        tally.fold()


def _digest(value: Any) -> str:
    return hashlib.sha256(canonical(value).encode()).hexdigest()


def _files(names: list[str]) -> str:
    digest = hashlib.sha256()
    for name in names:
        if name == "-":
            return UNREPEATABLE
        try:
            with Path(name).open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
        except OSError as wrong:
            raise UsageError(f"{name}: expected a file that can be read, got {wrong.strerror}") from None
    return digest.hexdigest()


def _other_input(line: bytes, context: Context, number: int) -> str:
    """What differs between a result and the input in its place."""
    before, now = msgspec.json.decode(line)["execution_context"], msgspec.json.decode(context.line)
    ids = [str(one["test_case"].get("id"))[:100] for one in (now, before)]
    if ids[0] != ids[1]:
        return f"the result of case {ids[0]!r}, which is input {number}, got that of {ids[1]!r}"
    members = [
        f"{part}.{name}"
        for part in ("test_case", "output")
        for name in sorted(before[part] | now[part])
        if before[part].get(name, ...) != now[part].get(name, ...)
    ]
    differs = ", ".join(members[:5]) or "the order of its members"
    return f"the result of input {number} as it is, got that of another: {differs} of case {ids[0]!r} differs"
