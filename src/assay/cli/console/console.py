"""All that the command prints: lines on standard output and standard error, JSON documents, and a progress line."""

import io
import os
import re
import sys
import time
import unicodedata
from collections.abc import Generator
from contextlib import contextmanager, redirect_stdout, suppress
from typing import Any, Protocol, TextIO

from assay.terminal import as_json_escapes, escape_characters, lines, one_line
from assay.terminal import count_of as count_of

_NEXT = re.compile("(?:assay: )?(?:next|then|measure it again): ")
TERMINAL_INTERVAL, FILE_INTERVAL = 0.1, 10.0  # seconds between two progress lines


def echo_err(text: str) -> None:
    """Print one line on standard error, after `assay: `."""
    if not _log(text, is_problem=True) and not send({"message": one_line(text)}):
        _print_lines(f"assay: {one_line(text)}", sys.stderr)


def echo_err_plain(text: str) -> None:
    """Print one line on standard error."""
    if not _log(text) and not send({"message": one_line(text)}):
        _print_lines(one_line(text), sys.stderr)


class MessageLog(Protocol):
    """Writes a message as a line of a log."""

    def __call__(self, message: str, *, is_problem: bool) -> None: ...


_message_log: MessageLog | None = None


def log_messages(log: MessageLog) -> None:
    """Write every message of this process to a log, in place of standard output and standard error."""
    global _message_log  # noqa: PLW0603  # as standard output, there is one in a process
    _message_log = log


def _log(text: str, *, is_problem: bool = False) -> bool:
    if _message_log is None:
        return False
    _message_log(one_line(text), is_problem=is_problem)
    return True


_program: TextIO | None = None  # that started this process and reads its messages and its progress


def send_to(program: TextIO) -> None:
    """Send every message and the progress to a program, a line of JSON each, in place of standard error."""
    global _program  # noqa: PLW0603  # as standard error, there is one in a process
    _program = program


def send(document: dict[str, Any]) -> bool:
    """Send a line to the program that started this process. False: a person started it."""
    if _program is None:
        return False
    import msgspec  # deferred import: the help of the command needs none of it

    with suppress(OSError):  # it is gone, and must not end the run
        _program.write(msgspec.json.encode(document).decode() + "\n")
        _program.flush()
    return True


def echo_command(text: str, *, to_stderr: bool) -> None:
    """Print a command to the runner of a workflow, on a line of its own."""
    _print(escape_characters(text), sys.stderr if to_stderr else sys.stdout)


def echo(text: str, *, flush: bool = False) -> None:
    """Print one line on standard output."""
    if _log(text):
        return
    _print_lines(one_line(text), sys.stdout)
    if flush:
        sys.stdout.flush()


def echo_lines(text: str) -> None:
    """Print a text of several lines on standard output, the later ones indented."""
    _print_lines(lines(text), sys.stdout)


def echo_rows(rows: list[tuple[str, ...]]) -> None:
    """Print a table of plain columns on standard output."""
    cells = [[one_line(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        _print_lines("  ".join(map(str.ljust, row, widths)).rstrip(), sys.stdout)


def echo_json(document: bytes | str, stream: TextIO | None = None) -> None:
    """Print a JSON document on standard output, or to `stream`."""
    text = document.decode() if isinstance(document, bytes) else document
    _print(as_json_escapes(text), stream or sys.stdout)


def echo_text(text: str) -> None:
    """Print a text on standard output as it is. Its writer has escaped it."""
    sys.stdout.write(text)


def _print_lines(text: str, stream: TextIO) -> None:
    """Print lines that wrap at words. A command may be copied: a line of it that goes on ends with a backslash."""
    width = width_of(stream)
    for line in text.split("\n"):
        for part in wrap_command(line, width) if _NEXT.match(line) else wrap(line, width):
            _print(part, stream)


def _print(text: str, stream: TextIO) -> None:
    print(text, file=stream)


def case_count(cases: int, results: int, noun: str = "case") -> str:
    """`3 cases`, or `3 cases, 6 trials` where cases are repeated and each repeat has a result."""
    trials = f", {count_of(results, 'trial')}" if results > cases else ""
    return f"{count_of(cases, noun)}{trials}"


def distinct_cases(results: int, trials: int) -> int:
    """
    The number of cases that have these results; the trials of a case follow one another, and the last may be cut off.
    """
    return -(-results // trials)


@contextmanager
def stdout_to_stderr() -> Generator[None]:
    """
    Send to standard error what agents, tools and checks print, so that standard output has only results.

    It redirects the file descriptor too: foreign code and its child processes may write to it directly.
    """
    out, err = sys.stdout, sys.stderr
    try:
        out_fd, err_fd = out.fileno(), err.fileno()
    except io.UnsupportedOperation:  # a stream without a descriptor, such as a StringIO
        with redirect_stdout(err):
            yield
        return
    out.flush()
    saved = os.dup(out_fd)
    os.dup2(err_fd, out_fd)
    try:
        yield
    finally:
        out.flush()
        os.dup2(saved, out_fd)
        os.close(saved)


class StatusLine:
    """One line that is rewritten on a terminal, and a new line every 10 seconds elsewhere."""

    def __init__(
        self, *, stream: TextIO | None = None, quiet: bool = False, seconds: float | None = None
    ) -> None:
        """`seconds`: between two texts."""
        self.stream = stream or sys.stderr
        self.is_terminal = self.stream.isatty()
        self._quiet = quiet
        usual = TERMINAL_INTERVAL if self.is_terminal else FILE_INTERVAL
        self._seconds = usual if seconds is None else seconds
        self._last = time.monotonic()
        self._visible = False
        self.note = ""  # what is known so far

    @property
    def is_due(self) -> bool:
        return not self._quiet and time.monotonic() - self._last >= self._seconds

    def show(self, text: str) -> None:
        """Show a text and the note."""
        self._last = time.monotonic()
        text = f"{text}  {self.note}" if self.note else text
        self.write(f"\r\x1b[K{text[: self._width()]}" if self.is_terminal else f"{text}\n")
        self._visible = True

    def clear(self) -> None:
        """Remove the line from the terminal."""
        if self._visible and self.is_terminal:
            self.write("\r\x1b[K")
            self._visible = False

    def write(self, text: str) -> None:
        with suppress(OSError):  # a closed terminal must not end the run
            self.stream.write(text)
            self.stream.flush()

    def _width(self) -> int | None:
        """The columns of the terminal but one: a line that wraps cannot be rewritten."""
        try:
            columns = os.get_terminal_size(self.stream.fileno()).columns
        except OSError:
            return None
        return columns - 1 if columns > 1 else None


class ProgressLine(StatusLine):
    """How far an evaluation is."""

    def __init__(self, *, stream: TextIO | None = None, quiet: bool = False, noun: str = "cases") -> None:
        super().__init__(stream=stream, quiet=quiet)
        self._noun, self._start = noun, time.monotonic()

    def __call__(self, done: int, errors: int, total: int | None, part: float | None = None) -> None:
        """Cheap to call often. `part` is the fraction of the input that was read, if the number of cases is unknown."""
        if not self.is_due:
            return
        if total is None and part and done:
            count = f"{done:,}/~{max(done, round(done / part)):,}"
        else:
            count = f"{done:,}/{total:,}" if total is not None else f"{done:,}"
        rate = done / max(time.monotonic() - self._start, 1e-9)
        errored = f"  {errors:,} with errors" if errors else ""
        self.show(f"{count} {self._noun}  {rate:,.0f}/s{errored}")


# Lines: they wrap at words, a number keeps its unit, and a later line is indented. JSON and rows of CSV do not wrap.

WIDEST, MIN_WIDTH = 120, 20  # columns of a line
_BREAK = re.compile(
    r" +(?!(?:ms|s|min|h|%|of|MB|kB)\b)|(?<![0-9]) +"
)  # no break between a number and its unit


def width_of(stream: TextIO) -> int:
    """The columns of a line: those of the terminal, at most `WIDEST`; and `WIDEST` in a file or a pipe."""
    if not stream.isatty():
        return WIDEST
    try:
        columns = os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):
        columns = 0
    given = os.environ.get("COLUMNS", "")
    columns = int(given) if given.isdigit() and int(given) else columns
    return max(min(columns or WIDEST, WIDEST), MIN_WIDTH)


def wrap(text: str, width: int, indent: str | None = None) -> list[str]:
    """
    The lines of one line of text, none wider than `width`. Only spaces are lost, where a line ends. A word that is
    wider than a line goes on in the next; only an address stays whole, so that it can be copied.

    A later line begins with `indent`, at most half a line. Default: the indent of the text and two more columns.
    """
    if columns_of(text) <= width:
        return [text]
    starts = break_points(text, width, indent)
    own = later_indent(text, width, indent)
    lines = [text[at:end].rstrip(" ") for at, end in zip([0, *starts], [*starts, len(text)], strict=True)]
    return [lines[0], *(own + line for line in lines[1:])]


def wrap_command(text: str, width: int) -> list[str]:
    """The lines of a command, each but the last with a backslash at its end. A word of it stays whole."""
    lines: list[str] = []
    for word in re.findall(r"""(?:'[^']*'|"[^"]*"|[^ ])+""", text):
        if lines and columns_of(f"{lines[-1]} {word} \\") <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word if not lines else f"  {word}")
    return [text] if columns_of(text) <= width else [f"{line} \\" for line in lines[:-1]] + lines[-1:]


def break_points(text: str, width: int, indent: str | None = None) -> list[int]:
    """Where the later lines of a text begin."""
    later = width - len(later_indent(text, width, indent))
    points: list[int] = []
    start, last, space = 0, None, width
    for match in [*_BREAK.finditer(text, len(text) - len(text.lstrip(" "))), None]:
        end = len(text.rstrip(" ")) if match is None else match.start()
        if last is not None and _fit(text, start, end, space) < end:
            points.append(last)
            start, space = last, later
        while (fitting := _fit(text, start, end, space)) < end and "://" not in text[start:end]:
            points.append(fitting)
            start, space = fitting, later
        last = None if match is None else match.end()
    return points


def _fit(text: str, start: int, end: int, space: int) -> int:
    """The end of the part of `text[start:end]` that fits; it has at least one character."""
    if text.isascii():
        return min(end, start + space)
    for at in range(start, end):
        space -= _columns(text[at])
        if space < 0 and at > start:
            return at
    return end


def later_indent(text: str, width: int, indent: str | None = None) -> str:
    """The indent of the lines after the first."""
    return (" " * (len(text) - len(text.lstrip(" ")) + 2) if indent is None else indent)[: width // 2]


def columns_of(text: str) -> int:
    """The columns that a text takes: a wide character takes two."""
    if text.isascii():
        return len(text)
    return sum(_columns(character) for character in text)


def _columns(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
