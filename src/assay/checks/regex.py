"""regex (FEP 2.3.5): a pattern is found in a text, or with `negate` is not. Python's dialect, one second (decision 22)."""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import regex
from msgspec import Struct

from assay.checks.backtracking import longest_safe_text, written_out
from assay.checks.checker import (
    FAILED,
    PASSED,
    PASSED_SCHEMA,
    PLAIN,
    Answer,
    Checker,
    Run,
    Text,
    Unfit,
    verdict,
)
from assay.errors import TimeFault, ValueFault
from assay.ports import Services

SECONDS = 1.0
LONGEST = 20_000  # characters
WRITTEN_OUT = 20_000  # items, every repeat written out


class Flags(Struct, frozen=True, forbid_unknown_fields=True):
    case_insensitive: bool = False
    multiline: bool = False
    dot_all: bool = False


class Regex(Checker):
    type = "regex"
    waits = False
    results_schema = PASSED_SCHEMA

    text: Text
    pattern: str
    negate: bool = False
    flags: Flags = Flags()

    def run(self, services: Services) -> Answer:
        try:
            search = compiled(self.pattern, self.flags)
        except ValueError as wrong:
            raise ValueFault(f"pattern: {wrong}") from None
        return verdict(search(str(self.text)) != self.negate)

    @classmethod
    def vet(cls, literals: Mapping[str, Any]) -> None:
        if "pattern" in literals:
            try:
                compiled(literals["pattern"], literals.get("flags", Flags()))
            except ValueError as wrong:
                raise Unfit("pattern", str(wrong)) from None

    @classmethod
    def compile(cls, literals: Mapping[str, Any]) -> Run | None:
        if set(literals) != {"pattern", "negate", "flags"}:
            return None
        search = compiled(literals["pattern"], literals["flags"])
        found, missing = (FAILED, PASSED) if literals["negate"] else (PASSED, FAILED)

        def look(text: Any) -> Answer:
            if type(text) is not str:
                return PLAIN
            return found if search(text) else missing

        return look


@lru_cache(maxsize=1024)
def compiled(pattern: str, flags: Flags, seconds: float = SECONDS) -> Callable[[str], bool]:
    """
    Whether the pattern is found in a text, within a deadline; a ValueError says what is wrong with the pattern.

    `re` decides what is a pattern, so that the dialect is Python's own; `regex` runs it, because it can be timed.
    Where the text is so short that no match of this pattern can take long, `re` runs it too, four times as fast.
    """
    if len(pattern) > LONGEST:
        raise ValueError(f"the pattern has {len(pattern)} characters; at most {LONGEST} are taken")
    chosen = [flags.case_insensitive, flags.multiline, flags.dot_all]
    try:
        quick = re.compile(
            pattern,
            sum(
                flag for flag, on in zip((re.IGNORECASE, re.MULTILINE, re.DOTALL), chosen, strict=True) if on
            ),
        )
    except re.error as wrong:
        at = "" if wrong.pos is None else f" at position {wrong.pos}"
        raise ValueError(f"not a regular expression: {wrong.msg}{at}") from None
    except (OverflowError, RecursionError):
        raise ValueError("not a regular expression: it is too large or nested too deeply") from None
    if (size := written_out(pattern, quick.flags)) > WRITTEN_OUT:
        raise ValueError(f"its repeats come to {size:,} items written out; at most {WRITTEN_OUT:,} are taken")
    theirs = sum(flag for flag, on in zip((regex.I, regex.M, regex.S), chosen, strict=True) if on)
    try:
        timed = regex.compile(pattern, theirs | regex.V0).search
    except (regex.error, RecursionError) as wrong:
        raise ValueError(f"not a regular expression that can be timed: {wrong}") from None
    short, search = longest_safe_text(pattern, quick.flags), quick.search

    def found(text: str) -> bool:
        if len(text) <= short:
            return search(text) is not None
        try:
            return timed(text, timeout=seconds) is not None
        except TimeoutError:
            raise TimeFault(
                f"pattern: no answer within {seconds:g} s; this pattern backtracks too much on this text"
            ) from None

    return found
