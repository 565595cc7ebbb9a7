"""Where the problems of a file stand: the line and the column of each, and the nearest valid name."""

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct

from assay.errors import Problem
from assay.errors.nearest import did_you_mean
from assay.inputs.positions import Position, find_positions, path_of, syntax_position

PACKS = (".tgz", ".tar.gz")
ROW = re.compile(r":(\d+)(?:: |$)")
MEMBER = re.compile(
    r'([A-Za-z_][\w-]*(?:\.[A-Za-z_][\w-]*|\."[^"]*"|\[\d+\])*): '
)  # that a message begins with
CASE = "test_case"
TABLES = (".csv", ".tsv")  # whose rows are not JSON
MAX_READ = 64 * 1024 * 1024  # bytes of a file in which positions are looked for
CHOICES = re.compile(r"(?:expected one of|there are|it may have|it takes) ([\w.-]+(?:, [\w.-]+)+)")
GOT = re.compile(r"(?:, got '|unknown field `)([^'`]+)")


class ProblemData(Struct, omit_defaults=True):
    """The message, which may quote the file, and the member that it is about."""

    message: str
    place: str = ""


class FileProblem(Struct, omit_defaults=True):
    """One problem and where it stands. `line` and `column` are 0 where the file has none, as in a pack."""

    file: str
    data: ProblemData
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        at, about = f":{self.line}:{self.column}" if self.line else "", self.data
        return f"{self.file}{at}: {f'{about.place}: ' if about.place else ''}{about.message}"


def locate(name: str, problems: Iterable[Problem]) -> Iterator[FileProblem]:
    """The problems of a file, or of the files of a pack in a folder, each with its line and its column."""
    found = [Problem(without_name(name, one.place), one.message) for one in problems]
    if not Path(name).is_dir():
        yield from _locate(name, found)
        return
    for place, message in found:
        file, _, rest = place.partition(": ")
        inner = Path(name, file)
        if file and inner.is_file():
            yield from _locate(str(inner), [Problem(rest, message)])
        else:
            yield FileProblem(name, ProblemData(message, place))


def _locate(name: str, problems: list[Problem]) -> Iterator[FileProblem]:
    data, is_json = _data(name), not name.endswith(TABLES)
    lines = data.split(b"\n") if any(ROW.match(one.place) for one in problems) else []
    inner = [one.place for one in problems if not ROW.match(one.place)]
    places = (
        _toml_positions(data, problems)
        if name.endswith(".toml")
        else find_positions(data, inner)
        if data
        else {}
    )
    for place, message in problems:
        row = ROW.match(place)
        if row is None:
            position = places.get(place, Position(0, 0))
            if not place:
                position = _wrong_position(data, message) or position
            yield FileProblem(name, ProblemData(_with_nearest(place, message), place), *position)
            continue
        number, rest = int(row[1]), place[row.end() :]
        line = lines[number - 1] if 0 < number <= len(lines) else b""
        member = None if rest else MEMBER.match(message)
        about = Problem(member[1], message[member.end() :]) if member else Problem(rest, message)
        column = _column_of_row(line, *about) if is_json else 1
        yield FileProblem(name, ProblemData(_with_nearest(*about), about.place), number, column)


def _column_of_row(line: bytes, place: str, message: str) -> int:
    """Where a member stands in a row of JSON; the nearest one around it, or the object of the row, if it is missing."""
    if not place and (wrong := _wrong_position(line, message)) is not None:
        return wrong.column
    if path_of(place)[:1] == (CASE,) and f'"{CASE}"'.encode() not in line:  # the row is the case itself
        place = place.removeprefix(CASE).removeprefix(".")
    return find_positions(line, [place])[place].column


def _with_nearest(place: str, message: str) -> str:
    """The message with the nearest of the names that it lists: to the value that came, or to the member."""
    listed = CHOICES.search(message)
    if listed is None or "did you mean" in message:
        return message
    got = GOT.search(message)
    word = got[1] if got else str([*path_of(place), ""][-2]) if path_of(place) else ""
    return message + did_you_mean(word[:100], listed[1].split(", "), "; ")


def _wrong_position(data: bytes, message: str) -> Position | None:
    """Where a text stops being JSON, YAML or TOML: the message says it, or reading it once more does."""
    if found := re.search(r"\(byte (\d+)\)", message):
        before = data[: int(found[1])]
        return Position(before.count(b"\n") + 1, len(before) - (before.rfind(b"\n") + 1) + 1)
    if found := re.search(r"\(at line (\d+), column (\d+)\)", message):
        return Position(int(found[1]), int(found[2]))
    return syntax_position(data)


def without_name(name: str, place: str) -> str:
    """The place without the name of the file before it, which may have the number of a line."""
    place = place.removeprefix("settings: ")
    rest = place.removeprefix(name)
    return rest.removeprefix(": ") if rest != place and rest[:1] in ("", ":") else place


def _data(name: str) -> bytes:
    path = Path(name)
    with suppress(OSError):
        if (
            path.is_file()
            and path.stat().st_size <= MAX_READ
            and not name.endswith((*PACKS, ".gz", ".parquet", ".xlsx"))
        ):
            return path.read_bytes()
    return b""


def _toml_positions(data: bytes, problems: Iterable[Problem]) -> dict[str, Position]:
    """The line of the member that a problem names, in the table that it names; that of the table if it is not there."""
    return {
        one.place: _toml_position(data.decode(errors="replace").splitlines(), path_of(one.place))
        for one in problems
    }


def _toml_position(lines: list[str], path: tuple[Any, ...]) -> Position:
    table: tuple[Any, ...] = ()
    best, most = Position(1, 1), 0
    for number, line in enumerate(lines, 1):
        text = line.strip()
        header = re.match(r"\[+([^\]]+)\]", text)
        key = re.match(r'(?:"([^"]+)"|([\w-]+))\s*=', text)
        if header:
            table = path_of(header[1])
        here = (*table, key[1] or key[2]) if key and not header else table
        same = next(
            (at for at, pair in enumerate(zip(here, path, strict=False)) if pair[0] != pair[1]),
            min(len(here), len(path)),
        )
        if same > most and (header or key) and same == len(here):
            best, most = Position(number, len(line) - len(line.lstrip()) + 1), same
    return best
