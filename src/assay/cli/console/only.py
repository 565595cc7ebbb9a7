"""`--only failing`, `--only failing:RUN` and `--only ID`, of `assay run` and `assay evaluate`."""

from collections.abc import Collection, Iterable, Sequence

from msgspec import Struct

from assay.errors import InvalidRequest, Problem, UsageError
from assay.errors.nearest import did_you_mean
from assay.results.run_part import Rule, rule_of

FAILING = "failing"
NAMED = 5  # ids that a message names
MAX_IDS = 1_000  # that are searched for one that is spelled alike
LONGEST = 100  # characters of an id in a message


class NothingToRun(Exception):  # it is no error: everything passed
    """No case is left to run."""


class Only(Struct, frozen=True):
    """What `--only` asks for: what did not pass in the latest runs or in those of `runs`, and these ids."""

    latest: bool = False
    runs: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self.failing or bool(self.ids)

    @property
    def failing(self) -> bool:
        return self.latest or bool(self.runs)

    @property
    def rule(self) -> Rule:
        return rule_of(failing=self.failing, ids=bool(self.ids))


def read_only(values: Sequence[str]) -> Only:
    """Read the values of the option. Raises UsageError."""
    latest, runs, ids = False, list[str](), list[str]()
    for value in values:
        if value == FAILING:
            latest = True
        elif value.startswith(f"{FAILING}:"):
            if not (run := value.removeprefix(f"{FAILING}:")):
                raise UsageError("--only failing:: expected failing, failing:RUN or an id, got no run")
            runs.append(run)
        elif value:
            ids.append(value)
        else:
            raise UsageError("--only: expected failing, failing:RUN or an id, got an empty text")
    return Only(latest, tuple(dict.fromkeys(runs)), tuple(dict.fromkeys(ids)))


def refuse_unknown(ids: Iterable[str], known: Collection[str], whole: str, noun: str) -> None:
    """Refuse ids that are not among the known ones, and name the nearest that are. `whole` has the known ones."""
    problems: list[Problem] = []
    for id in ids:
        if id not in known:
            some = list(known)[:MAX_IDS]
            listed = ", ".join(one[:LONGEST] for one in some[:NAMED])
            more = f" and {len(known) - NAMED:,} more" if len(known) > NAMED else ""
            near = did_you_mean(id, some) or f"it has {listed}{more}"
            problems.append(Problem("--only", f"{whole} has no {noun} {id[:LONGEST]!r}; {near}"))
    if problems:
        raise InvalidRequest(problems)


def names(ids: Iterable[str], noun: str) -> str:
    """`task a`, `cases a, b and 3 more`."""
    many = list(ids)
    more = f" and {len(many) - NAMED:,} more" if len(many) > NAMED else ""
    listed = ", ".join(id[:LONGEST] for id in many[:NAMED])
    return f"{noun}{'s' if len(many) > 1 else ''} {listed}{more}"
