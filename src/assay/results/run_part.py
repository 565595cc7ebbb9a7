"""
A part of a run: which cases `--only` and `--limit` chose, of how many, and why these.

What was not run is not known. Cases that were chosen because they did not pass look better by chance alone when they
run again, so a comparison with them has no verdict.
"""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec
from msgspec import Struct

MEMBER = "part"  # of the metadata of a stored run
DATA = "data"  # of the metadata of a stored evaluation: a digest of the names of its files
CASES_OF_DATA = "cases of its data"
NAMED = 3  # runs that a text names

Rule = Literal["failing", "ids", "failing and ids", "first", "decided", "shard"]


class RunPart(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """
    The number of cases that were chosen, of how many (None: it is not known), and the rule.

    `runs`: those in which the chosen cases did not pass, the newest first. `shard`: `2/5`, the second of five.
    """

    cases: int
    of: int | None
    rule: Rule
    runs: tuple[str, ...] = ()
    shard: str = ""

    @property
    def by_outcome(self) -> bool:
        """Whether an earlier outcome chose the cases."""
        return self.rule in ("failing", "failing and ids")

    def text(self, whole: str = CASES_OF_DATA) -> str:
        """`3 of 10 cases of its data, those that did not pass in eval_1`."""
        of = "" if self.of is None else f" of {self.of:,}"
        return f"{self.cases:,}{of} {whole}{self._why}"

    @property
    def _why(self) -> str:
        if self.rule == "first":
            return ""
        if self.rule == "decided":
            left = "" if self.of is None else f" ({self.of - self.cases:,} not run)"
            return f", in random order until the run had decided{left}"
        if self.rule == "shard":
            return f", shard {self.shard}"
        if self.rule == "ids":
            return ", those that were named"
        more = f" and {len(self.runs) - NAMED:,} more" if len(self.runs) > NAMED else ""
        named = " and those that were named" if self.rule == "failing and ids" else ""
        return f", those that did not pass in {', '.join(self.runs[:NAMED])}{more}{named}"


def rule_of(*, failing: bool, ids: bool) -> Rule:
    """The rule of `--only`."""
    return "failing and ids" if failing and ids else "failing" if failing else "ids"


def part_in(metadata: Mapping[str, Any]) -> RunPart | None:
    """The part that the metadata of a run names; None: the run has every case."""
    if MEMBER not in metadata:
        return None
    try:
        return msgspec.convert(metadata[MEMBER], RunPart)
    except msgspec.ValidationError:
        return None
