"""The rows as Markdown, with a description of the machine."""

import os
import platform
from collections.abc import Sequence
from pathlib import Path

import msgspec

from bench.measure import FIXED, HOME, Row

PAGE = HOME / "docs" / "performance.md"
BEGIN, END = "<!-- bench: begin -->", "<!-- bench: end -->"


def table(rows: Sequence[Row]) -> str:
    lines = ["| measurement | measured | spread | expected | met | |", "|---|--:|--:|--:|---|---|"]
    for row in rows:
        if row.values:
            spread = f"{_number(min(row.values), row)}–{_number(max(row.values), row)}"
            spread = spread if len(row.values) > 1 else "–"
            cells = [f"{_number(row.measured, row)} {row.unit}", spread, "yes" if row.met else "**no**"]
        else:
            cells = ["–", "–", "–"]
        expected = f"{row.sense} {row.bar:g} {row.unit}"
        lines.append(f"| {row.name} | {cells[0]} | {cells[1]} | {expected} | {cells[2]} | {row.note} |")
    return "\n".join(lines).replace(" x |", "x |")


def machine() -> str:
    anchor = "the fixed one" if FIXED.exists() else "the bench's own, `bench/straight.py`"
    return (
        f"Made on {os.cpu_count()} cores of {_processor()}, {platform.system()}, "
        f"{platform.python_implementation()} {platform.python_version()}. The straight loop is {anchor}."
    )


def _short_machine() -> str:
    return f"{os.cpu_count()} cores of {_processor()}"


def write(text: str, page: Path = PAGE) -> None:
    """Write the table between the markers of the page."""
    before, _, after = _parts(page)
    page.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}", "utf-8")


def renew(rows: Sequence[Row], page: Path = PAGE) -> None:
    """Replace the measured rows only; append new rows at the end. Rows of another machine than the table's say so."""
    _, old, _ = _parts(page)
    if machine() not in old:
        rows = [
            msgspec.structs.replace(row, note="; ".join(filter(None, (row.note, f"on {_short_machine()}"))))
            for row in rows
        ]
    fresh = table(rows).splitlines()[2:]
    bars = {_bar(line) for line in fresh}
    lines = list[str]()
    for line in old.strip().splitlines():
        if not line and fresh:  # the table ends here
            lines += fresh
            fresh = []
        if _bar(line) not in bars:
            lines.append(line)
        else:
            lines += [one for one in fresh if _bar(one) == _bar(line)]
            fresh = [one for one in fresh if _bar(one) != _bar(line)]
    write("\n".join(lines + fresh), page)


def _parts(page: Path) -> tuple[str, str, str]:
    before, _, rest = page.read_text("utf-8").partition(BEGIN)
    between, found, after = rest.partition(END)
    if not found:
        raise ValueError(f"{page.name} has no markers for the table: {BEGIN} … {END}")
    return before, between, after


def _bar(line: str) -> str:
    return line.partition(" | ")[0]


def _number(value: float, row: Row) -> str:
    return (
        f"{value:.0f}"
        if row.unit != "x" or value >= 100
        else f"{value:.1f}"
        if value >= 10
        else f"{value:.2f}"
    )


def _processor() -> str:
    try:
        info = Path("/proc/cpuinfo").read_text("utf-8")
    except OSError:
        return platform.machine()
    names = (line.partition(":")[2].strip() for line in info.splitlines() if line.startswith("model name"))
    return next(names, platform.machine())
