"""How far a run is: one line that changes on a terminal, a plain line now and then elsewhere."""

import os
import sys
import time
from contextlib import suppress
from typing import TextIO

QUICK, SLOW = 0.1, 10.0


class ProgressLine:
    """Call it as often as you like: it looks at the clock and mostly returns."""

    def __init__(self, *, to: TextIO | None = None, quiet: bool = False) -> None:
        self._to = to or sys.stderr
        self._live = self._to.isatty()
        self._quiet = quiet
        self._began = self._last = time.monotonic()
        self._shown = False

    def __call__(self, done: int, errors: int, total: int | None, part: float | None = None) -> None:
        """`part` is how much of the input was read, where nobody knows how many cases it holds."""
        now = time.monotonic()
        if self._quiet or now - self._last < (QUICK if self._live else SLOW):
            return
        self._last = now
        if total is None and part and done:
            known = f"{done:,}/~{max(done, round(done / part)):,}"
        else:
            known = f"{done:,}/{total:,}" if total is not None else f"{done:,}"
        rate = done / max(now - self._began, 1e-9)
        wrong = f"  {errors:,} with errors" if errors else ""
        self._say(f"{known} cases  {rate:,.0f}/s{wrong}")

    def clear(self) -> None:
        if self._shown and self._live:
            self._write("\r\x1b[K")

    def _say(self, text: str) -> None:
        self._write(f"\r\x1b[K{text[: self._room()]}" if self._live else f"{text}\n")
        self._shown = True

    def _room(self) -> int | None:
        """A line that runs over could not be taken back."""
        try:
            columns = os.get_terminal_size(self._to.fileno()).columns
        except OSError:
            return None
        return columns - 1 if columns > 1 else None

    def _write(self, text: str) -> None:
        with suppress(OSError):  # nobody looks any more, and that ends no run
            self._to.write(text)
            self._to.flush()
