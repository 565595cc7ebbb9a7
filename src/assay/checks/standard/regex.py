"""
regex (FEP 2.3.5): passes if a pattern is found in a text, or with `negate` if it is not. Uses `re` (FEP-22, FEP-47).
"""

import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from assay.cache import ByteCache
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
from assay.checks.worker_tasks import WorkerTask
from assay.concurrency.loop_budget import spend
from assay.concurrency.workers import batch
from assay.concurrency.workers.batch import Outcome
from assay.errors import Fault, TimeFault, ValueFault
from assay.patterns.bounded_search import SECONDS, TASK, Search, common, estimated_bytes, item
from assay.ports import Services

MAX_PATTERN = 20_000  # characters
CACHE_BYTES = 32 << 20  # bytes of all cached patterns


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

    def run(self, services: Services) -> Answer | WorkerTask:
        try:
            pattern = compile_pattern(self.pattern, self.flags)
        except ValueError as wrong:
            raise ValueFault(f"pattern: {wrong}") from None
        matches = pattern.search.matches(text := str(self.text))
        return pattern.task(text, self.negate) if matches is None else verdict(matches != self.negate)

    @classmethod
    def validate_literals(cls, literals: Mapping[str, Any]) -> None:
        if "pattern" in literals:
            spend(len(literals["pattern"]))
            try:
                compile_pattern(literals["pattern"], literals.get("flags", Flags()))
            except ValueError as wrong:
                raise InvalidArgument("pattern", str(wrong)) from None

    @classmethod
    def held_bytes(cls, literals: Mapping[str, Any]) -> int:
        return estimated_bytes(literals["pattern"]) if "pattern" in literals else 0

    @classmethod
    def compile(cls, literals: Mapping[str, Any]) -> Run | None:
        if set(literals) != {"pattern", "negate", "flags"}:
            return None
        pattern, negate = compile_pattern(literals["pattern"], literals["flags"]), literals["negate"]
        if pattern.search.pattern is None:
            return None
        found, missing = (FAILED, PASSED) if negate else (PASSED, FAILED)
        quick, search = pattern.search.quick, pattern.search.pattern.search

        def find(text: Any) -> Answer | WorkerTask:
            if type(text) is not str:
                return FALLBACK
            if len(text) <= quick:
                return found if search(text) is not None else missing
            matches = pattern.search.matches(text)
            return pattern.task(text, negate) if matches is None else found if matches else missing

        return find


class RegexPattern:
    """A pattern with its flags, searched in a text here or in a worker process."""

    def __init__(self, text: str, flags: int) -> None:
        self.search = Search(text, flags)
        self._common = common(text, flags)

    def task(self, text: str, negate: bool) -> WorkerTask:
        return WorkerTask(TASK, self._common, item(text), SECONDS, _negative if negate else _positive)


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


def compile_pattern(pattern: str, flags: Flags) -> RegexPattern:
    """Compile a pattern. Raises ValueError if it is not a pattern or too long."""
    if len(pattern) > MAX_PATTERN:
        raise ValueError(f"the pattern has {len(pattern)} characters; the limit is {MAX_PATTERN}")
    found = cached_pattern(pattern, flags)
    if found is None:
        re_flags = _re_flags(flags)
        found = RegexPattern(pattern, re_flags)
        _patterns.put((pattern, re_flags), found, estimated_bytes(pattern), batch.owner.get())
    return found


def cached_pattern(pattern: str, flags: Flags) -> RegexPattern | None:
    """The compiled pattern if it is in the cache, else None."""
    return _patterns.get((pattern, _re_flags(flags)), batch.owner.get())


def _re_flags(flags: Flags) -> int:
    pairs = (
        (re.IGNORECASE, flags.case_insensitive),
        (re.MULTILINE, flags.multiline),
        (re.DOTALL, flags.dot_all),
    )
    return sum(flag for flag, on in pairs if on)


_patterns = ByteCache[RegexPattern](CACHE_BYTES)
