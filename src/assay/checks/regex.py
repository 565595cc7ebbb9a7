"""regex (FEP 2.3.5): a pattern is found in a text, or with `negate` is not. Python's `re` (decisions 22, 47)."""

import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from assay.checks.checker import (
    FAILED,
    FALLBACK,
    PASSED,
    PASSED_SCHEMA,
    Answer,
    Checker,
    InvalidArgument,
    Run,
    Text,
    verdict,
)
from assay.checks.loop_budget import spend
from assay.checks.work import Work
from assay.errors import Fault, TimeFault, ValueFault
from assay.patterns.search import SECONDS, TASK, Search, common, item
from assay.ports import Services
from assay.protocol.cache import ByteCache
from assay.workers import pool
from assay.workers.pool import Outcome

LONGEST = 20_000  # characters
CACHED = 32 << 20  # bytes of all patterns that are remembered


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

    def run(self, services: Services) -> Answer | Work:
        try:
            pattern = compiled(self.pattern, self.flags)
        except ValueError as wrong:
            raise ValueFault(f"pattern: {wrong}") from None
        found = pattern.search.found(text := str(self.text))
        return pattern.work(text, self.negate) if found is None else verdict(found != self.negate)

    @classmethod
    def vet(cls, literals: Mapping[str, Any]) -> None:
        if "pattern" in literals:
            spend(len(literals["pattern"]))
            try:
                compiled(literals["pattern"], literals.get("flags", Flags()))
            except ValueError as wrong:
                raise InvalidArgument("pattern", str(wrong)) from None

    @classmethod
    def compile(cls, literals: Mapping[str, Any]) -> Run | None:
        if set(literals) != {"pattern", "negate", "flags"}:
            return None
        pattern, negate = compiled(literals["pattern"], literals["flags"]), literals["negate"]
        if pattern.search.pattern is None:
            return None
        found, missing = (FAILED, PASSED) if negate else (PASSED, FAILED)
        quick, search = pattern.search.quick, pattern.search.pattern.search

        def look(text: Any) -> Answer | Work:
            if type(text) is not str:
                return FALLBACK
            if len(text) <= quick:
                return found if search(text) is not None else missing
            there = pattern.search.found(text)
            return pattern.work(text, negate) if there is None else found if there else missing

        return look


class Pattern:
    """A pattern with its flags, searched in a text here or in a worker process."""

    def __init__(self, text: str, flags: int) -> None:
        self.search = Search(text, flags)
        self._common = common(text, flags)

    def work(self, text: str, negate: bool) -> Work:
        return Work(TASK, self._common, item(text), SECONDS, _negative if negate else _positive)


def _positive(outcome: Outcome) -> Answer | Fault:
    return _fault(outcome) if isinstance(outcome, Fault) else verdict(bool(outcome))


def _negative(outcome: Outcome) -> Answer | Fault:
    return _fault(outcome) if isinstance(outcome, Fault) else verdict(not outcome)


def _fault(fault: Fault) -> Fault:
    if isinstance(fault, TimeFault):
        return TimeFault(
            f"pattern: no answer within {SECONDS:g} s; this pattern backtracks too much on this text"
        )
    return ValueFault(f"pattern: {fault}") if isinstance(fault, ValueFault) else fault


def compiled(pattern: str, flags: Flags) -> Pattern:
    """A ValueError says what is wrong with the pattern."""
    if len(pattern) > LONGEST:
        raise ValueError(f"the pattern has {len(pattern)} characters; at most {LONGEST} are taken")
    found = cached(pattern, flags)
    if found is None:
        chosen = _chosen(flags)
        found = Pattern(pattern, chosen)
        _patterns.put((pattern, chosen), found, _held(pattern), pool.owner.get())
    return found


def cached(pattern: str, flags: Flags) -> Pattern | None:
    """The pattern if it is compiled already."""
    return _patterns.get((pattern, _chosen(flags)), pool.owner.get())


def _chosen(flags: Flags) -> int:
    chosen = (
        (re.IGNORECASE, flags.case_insensitive),
        (re.MULTILINE, flags.multiline),
        (re.DOTALL, flags.dot_all),
    )
    return sum(flag for flag, on in chosen if on)


def _held(text: str) -> int:
    """Measured: some 200 bytes a character, compiled and as the nodes of its bound."""
    return 4_000 + 400 * len(text)


_patterns = ByteCache[Pattern](CACHED)
