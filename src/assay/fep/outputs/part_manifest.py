"""
The manifest of a part of a run, which a shard writes last: a part without it is not finished.

It stands beside the results: `part-1.jsonl` has `part-1.jsonl.manifest.json`.
"""

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from assay.errors import EnvironmentFailure, UsageError
from assay.fep.outputs import resume
from assay.fep.planning.plan import Plan
from assay.inputs.places import Places
from assay.inputs.portions import Portion
from assay.stats.intervals import Range

SUFFIX = ".manifest.json"
SAMPLE = 1 << 20  # bytes at both ends of an input that are compared


class CheckColumn(Struct, frozen=True):
    """A check of the run: its label, its type, and the ranges that it declares for its numbers."""

    label: str
    type: str
    ranges: dict[str, Range]


class InputFile(Struct, frozen=True):
    """What recognises an input on every machine: its name without folders, its size, and a digest of both ends."""

    name: str
    size: int
    digest: str


class PartManifest(Struct, frozen=True, kw_only=True):
    """A finished part. `size`: the bytes of its results; `bad_lines`: the lines that were skipped."""

    checks: str  # a digest of the checks, their versions and the options of results
    inputs: list[InputFile]
    shard: tuple[int, int]
    results: int
    bad_lines: int
    size: int
    labels: list[CheckColumn]
    columns: dict[str, list[str]] = {}  # of the table that is the input


def manifest_path(name: str) -> Path:
    return Path(f"{name}{SUFFIX}")


def remove_manifest(name: str) -> None:
    """The part is not finished any more."""
    try:
        manifest_path(name).unlink(missing_ok=True)
    except OSError as wrong:
        raise _not_writable(manifest_path(name), wrong) from None


def write_manifest(
    name: str,
    plan: Plan,
    inputs: Sequence[str],
    portion: Portion,
    columns: Places,
    results: int,
    bad_lines: int,
) -> None:
    """Write the manifest of the finished results in the file `name`."""
    assert plan.shared is not None
    shared, target = plan.shared, manifest_path(name)
    labels = [
        CheckColumn(label, bound.checker.type, dict(ranges))
        for label, bound, ranges in zip(shared.labels, shared.checks, shared.ranges, strict=True)
    ]
    draft = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        manifest = PartManifest(
            checks=resume.fingerprint(plan, []).checks,
            inputs=[_input_file(one) for one in inputs],
            shard=(portion.number, portion.of),
            results=results,
            bad_lines=bad_lines,
            size=Path(name).stat().st_size,
            labels=labels,
            columns={column: list(place) for column, place in columns.items()},
        )
        draft.write_bytes(msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n")
        draft.replace(target)
    except OSError as wrong:
        raise _not_writable(target, wrong) from None


def read_manifest(name: str) -> PartManifest:
    """The manifest of a part. Raises UsageError if the part is not finished, or has changed since."""
    path = manifest_path(name)
    try:
        manifest = msgspec.json.decode(path.read_bytes(), type=PartManifest)
        size = Path(name).stat().st_size
    except FileNotFoundError:
        raise UsageError(
            f"{name}: expected a finished part of `assay evaluate --shard`, with {path.name} beside it; got none:"
            " run its shard again, with --resume to continue it"
        ) from None
    except (OSError, msgspec.DecodeError) as wrong:
        raise UsageError(f"{path}: expected the manifest of a part, got {wrong}") from None
    if size != manifest.size:
        raise UsageError(
            f"{name}: expected the {manifest.size:,} bytes that its manifest names, got {size:,}; run its shard again"
        )
    return manifest


def _input_file(name: str) -> InputFile:
    with Path(name).open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        digest = hashlib.sha256(file.read(SAMPLE))
        file.seek(max(0, size - SAMPLE))
        digest.update(file.read(SAMPLE))
    return InputFile(Path(name).name, size, digest.hexdigest())


def _not_writable(path: Path, wrong: OSError) -> EnvironmentFailure:
    return EnvironmentFailure(f"{path}: expected a file that can be written, got {wrong.strerror}")
