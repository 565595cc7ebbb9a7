"""The folder that an import writes: cases or contexts line by line, checks, recorded scores as checks, import.json."""

import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO, NamedTuple

import msgspec

from assay.errors import InvalidRequest, UsageError
from assay.inputs.context import too_long
from assay.inputs.yaml_writer import as_yaml
from assay.interchange.imported import Imported, ImportReport
from assay.ports import Limits
from assay.protocol.json_types import JSON, is_deeper, is_object
from assay.terminal import one_line

MOST_VARIANTS = 50
MOST_SCORES = 100  # names of recorded scores that are followed
CHECKS, JUDGES, RECORDED = "checks.yaml", "judges.yaml", "recorded.yaml"
_encode = msgspec.json.Encoder().encode


class Written(NamedTuple):
    """The files of one system. `path` has its cases; `judged` those with judges of their own."""

    variant: str
    path: Path
    cases: int
    has_outputs: bool
    has_own_checks: bool
    judged: Path | None


class WrittenFolder(NamedTuple):
    """What an import has written. A name is None if there is no such file."""

    path: Path
    variants: list[Written]
    checks: Path | None
    judges: Path | None
    recorded: Path | None
    functions: Path | None

    @property
    def files(self) -> list[Path]:
        of_variants = [one for written in self.variants for one in (written.path, written.judged)]
        return [one for one in (*of_variants, *self[2:]) if isinstance(one, Path)]


class _Lines:
    """The lines of one system, without their checks; these are beside them from the first difference on."""

    def __init__(self, folder: Path, number: int, variant: str, files: ExitStack, *, recorded: bool) -> None:
        self.variant, self.recorded, self.count = variant, recorded, 0
        self.path, self.beside = folder / f"lines-{number}", folder / f"checks-{number}"
        self.file = files.enter_context(self.path.open("wb"))
        self.checks: IO[bytes] = files.enter_context(self.beside.open("wb"))
        self.alike = 0  # lines before the first difference


class ImportFolder:
    """Writes a folder in a hidden place beside it. `finish` gives it its name; until then nothing is there."""

    def __init__(self, path: Path, limits: Limits, report: ImportReport) -> None:
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise UsageError(f"-o {path}: expected a new or empty folder")
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path, self._limits, self._report = path, limits, report
        self._temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=path.parent))
        self._files = ExitStack()
        self._lines: dict[tuple[str, bool], _Lines] = {}
        self._first: tuple[list[JSON], list[JSON]] | None = None  # the checks and judges of the first case
        self._mixed = [False, False]  # whether another case has other checks, other judges
        self._scores: dict[
            str, list[int]
        ] = {}  # of outputs: how many have this recorded score, and as 0 or 1
        self.cases = self.outputs = self._failed = 0

    def __enter__(self) -> "ImportFolder":
        return self

    def __exit__(self, *_: object) -> None:
        self._files.close()
        shutil.rmtree(self._temporary, ignore_errors=True)

    def add(self, one: Imported) -> None:
        """Write a case. One that assay could not read again is left out, with the reason."""
        line = {"test_case": one.case, "output": one.output} if one.output is not None else one.case
        raw = _encode(line)
        own = one.checks, one.judges
        space = self._limits.max_line_bytes - len(raw)
        reason = too_long(self._limits) if space < len(_encode(own)) else None
        if is_deeper(line, self._limits.max_depth) or is_deeper(list(own), self._limits.max_depth):
            reason = f"nested more than {self._limits.max_depth} deep, which is the limit"
        if reason is not None:
            self._report.leave(str(one.case.get("id", "")), "a case", reason)
            return
        lines = self._lines_of(one.variant, recorded=one.output is not None)
        if self._first is None:
            self._first = own
        if not any(self._mixed) and own != self._first:
            for other in self._lines.values():
                other.alike = other.count
        for at, group in enumerate(own):
            self._mixed[at] |= group != self._first[at]
        if any(self._mixed):
            lines.checks.write(_encode(own) + b"\n")
        lines.file.write(raw + b"\n")
        lines.count += 1
        self.cases += 1
        if one.output is not None:
            self.outputs += 1
            self._follow_scores(one.output)

    def finish(self, origin: str, about: JSON) -> WrittenFolder:
        """Write what belongs to all cases, and give the folder its name."""
        self._files.close()
        if not self._lines:
            raise InvalidRequest(f"{origin}: there is no case in it; nothing is written")
        made = self._temporary / "made"
        made.mkdir()
        own_checks, own_judges = self._first or ([], [])
        head = f"# From {one_line(origin)}, by `assay import`.\n"
        checks = self._write_checks(made / CHECKS, head, [] if self._mixed[0] else own_checks)
        judges = self._write_checks(made / JUDGES, head, [] if self._mixed[1] else own_judges)
        recorded = self._write_checks(
            made / RECORDED, head, [] if self._mixed[0] else self._recorded_checks()
        )
        functions = self._write_functions(made)
        variants = [
            self._write_lines(made, number, one) for number, one in enumerate(self._lines.values(), 1)
        ]
        document = about | {"cases": self.cases, "outputs": self.outputs, **self._report.document()}
        written = WrittenFolder(self._path, variants, checks, judges, recorded, functions)
        document["files"] = [one.name for one in written.files]
        (made / "import.json").write_bytes(msgspec.json.format(_encode(document), indent=2) + b"\n")
        if self._path.exists():
            self._path.rmdir()
        made.rename(self._path)
        return written

    def _lines_of(self, variant: str, *, recorded: bool) -> _Lines:
        key = variant, recorded
        if key not in self._lines:
            if len(self._lines) == MOST_VARIANTS:
                raise InvalidRequest(
                    f"more than {MOST_VARIANTS} systems (models, or providers with prompts); import them one by one"
                )
            self._lines[key] = _Lines(
                self._temporary, len(self._lines) + 1, variant, self._files, recorded=recorded
            )
        return self._lines[key]

    def _follow_scores(self, output: JSON) -> None:
        metadata = output.get("metadata", {})
        self._failed += "error" in metadata  # a system that failed has no score
        found = metadata.get("recorded", {}).get("scores", {})
        for name, value in found.items() if is_object(found) else ():
            if name in self._scores or len(self._scores) < MOST_SCORES:
                counts = self._scores.setdefault(name, [0, 0])
                counts[0] += 1
                counts[1] += type(value) in (int, float) and value in (0, 1)

    def _recorded_checks(self) -> list[JSON]:
        """The verdicts of the other tool as checks, for a run of their own: those that every output has."""
        return [
            {
                "name": f"recorded {name}"[:128],
                "type": "threshold",
                "arguments": {"value": _path_to(name), "min_value": 1},
            }
            for name, (count, plain) in self._scores.items()
            if count == plain == self.outputs - self._failed and count
        ]

    def _write_checks(self, path: Path, head: str, checks: list[JSON]) -> Path | None:
        if not checks:
            return None
        path.write_text(head + as_yaml(checks), encoding="utf-8")
        return self._path / path.name

    def _write_functions(self, made: Path) -> Path | None:
        if not self._report.functions:
            return None
        folder = made / "functions"
        folder.mkdir()
        for name, text in self._report.functions.items():
            (folder / f"{name}.py").write_text(text, encoding="utf-8")
        return self._path / folder.name

    def _write_lines(self, made: Path, number: int, lines: _Lines) -> Written:
        kind = "contexts" if lines.recorded else "cases"
        name = kind if len(self._lines) == 1 else f"{kind}-{number}-{_slug(lines.variant)}"
        path = made / f"{name}.jsonl"
        if not any(self._mixed):
            lines.path.rename(path)
            return Written(lines.variant, self._path / path.name, lines.count, lines.recorded, False, None)
        judged = made / f"judged{name.removeprefix(kind)}.jsonl" if self._mixed[1] else None
        with ExitStack() as files:
            to = files.enter_context(path.open("wb"))
            to_judged = files.enter_context(judged.open("wb")) if judged else None
            for line, (checks, judges) in self._with_checks(lines):
                case = line["test_case"] if lines.recorded else line
                own = {"checks": checks} if self._mixed[0] else {}
                to.write(_encode(_with_case(line, case | own, lines)) + b"\n")
                if to_judged is not None and judges:
                    to_judged.write(_encode(_with_case(line, case | {"checks": judges}, lines)) + b"\n")
        if judged is not None and not judged.stat().st_size:
            judged.unlink()
            judged = None
        at = self._path / judged.name if judged else None
        return Written(lines.variant, self._path / path.name, lines.count, lines.recorded, self._mixed[0], at)

    def _with_checks(self, lines: _Lines) -> Iterator[tuple[JSON, tuple[list[JSON], list[JSON]]]]:
        """Each line with its checks and judges."""
        first = self._first or ([], [])
        with lines.path.open("rb") as file, lines.beside.open("rb") as beside:
            for number, raw in enumerate(file):
                own = first if number < lines.alike else msgspec.json.decode(beside.readline())
                yield msgspec.json.decode(raw), own


def _with_case(line: JSON, case: JSON, lines: _Lines) -> JSON:
    return line | {"test_case": case} if lines.recorded else case


def _path_to(name: str) -> str:
    quoted = name.replace("\\", "\\\\").replace("'", "\\'")
    return f"$.output.metadata.recorded.scores['{quoted}']"


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9.]+", "-", text.lower()).strip("-.")[:24].strip("-.") or "unnamed"
