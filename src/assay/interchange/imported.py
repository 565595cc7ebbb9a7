"""The neutral form between the files of another tool and those that assay takes."""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import msgspec

from assay.ports import Limits
from assay.protocol.json_types import JSON, is_list, is_object

MOST_FUNCTIONS, LONGEST_FUNCTION = 100, 100_000
LISTED = 1_000  # parts that were not carried, one by one; all of them are counted
LONGEST = 300  # characters of a text in the report
NO_PLACE = "it has no place here"
_NO_REASONS: Mapping[str, str] = {}


class Imported(msgspec.Struct):
    """
    One case with its output, if one was recorded.

    `checks` answer without a model, `judges` need one. `variant` names the system that answered: cases of different
    ones go to different files, so that they can be compared.
    """

    case: JSON
    output: JSON | None = None
    checks: list[JSON] = msgspec.field(default_factory=list[JSON])
    judges: list[JSON] = msgspec.field(default_factory=list[JSON])
    variant: str = ""


class CannotCarry(Exception):
    """A part of a file has no equal here. The message says why."""


class NotCarried(NamedTuple):
    """A part of a file that has no place here, with the place where it stands and the reason."""

    place: str
    what: str
    why: str


class ImportReport:
    """What was carried, and what was not."""

    def __init__(self) -> None:
        self.carried: Counter[str] = Counter()
        self.not_carried: list[NotCarried] = []
        self.counts: Counter[tuple[str, str]] = Counter()  # of what was not carried: what and why
        self.members: set[tuple[str, str]] = set()  # kinds that are members beside what a reader looks for
        self.first: dict[tuple[str, str], str] = {}  # and the first place of each
        self.about: dict[str, JSON] = {}  # what the files say of themselves
        self._offered: set[str] = set()
        self.functions: dict[
            str, str
        ] = {}  # source code that a person may accept: the name of a check and its text

    def carry(self, what: str, count: int = 1) -> None:
        """Count a part that was carried."""
        if count:
            self.carried[what] += count

    def leave(self, place: str, what: str, why: str, *, is_member: bool = False) -> None:
        """Note a part that was not carried. A member beside what a reader looks for is one of many."""
        what, why = what[:LONGEST], why[:LONGEST]
        kind = what, why
        if kind not in self.first and len(self.first) >= LISTED:
            kind = "other parts", "more kinds than are listed"
        self.counts[kind] += 1
        if is_member:
            self.members.add(kind)
        self.first.setdefault(kind, place[:LONGEST])
        if len(self.not_carried) < LISTED:
            self.not_carried.append(NotCarried(place[:LONGEST], what, why))

    def leave_others(
        self,
        document: JSON,
        carried: Collection[str],
        place: str,
        prefix: str = "",
        why: Mapping[str, str] = _NO_REASONS,
    ) -> None:
        """Note the members of an object that have no place here. One without a value says nothing."""
        for member, value in document.items():
            if member not in carried and not _says_nothing(value):
                self._leave_member(member, place, prefix, why)

    def plain_others(
        self,
        document: JSON,
        carried: Collection[str],
        place: str,
        prefix: str = "",
        why: Mapping[str, str] = _NO_REASONS,
    ) -> JSON:
        """The other numbers, texts and truth values of an object, to be carried as they are; the rest is noted."""
        plain: JSON = {}
        for member, value in document.items():
            if member in carried or value is None or value == "":
                continue
            if isinstance(value, str | int | float):
                plain[prefix + member] = value
            elif value:
                self._leave_member(member, place, prefix, why)
        return plain

    def _leave_member(self, member: str, place: str, prefix: str, why: Mapping[str, str]) -> None:
        reason = why.get(member, NO_PLACE)
        self.leave(place_in(place, member), prefix + member, reason, is_member=True)

    def describe(
        self,
        name: str,
        document: JSON,
        carried: Collection[str],
        why: Mapping[str, str] = _NO_REASONS,
        inside: str = "",
    ) -> None:
        """Carry the short values of the head of a file to `import.json`, also those one level below; note the rest."""
        about = self.about.setdefault(name, {}) if len(self.about) < LISTED else {}
        flat = {member: one for member, one in document.items() if member not in carried}
        for member in [member for member, one in flat.items() if is_object(one) and member not in why]:
            below: JSON = flat.pop(member)
            flat |= {f"{member}.{inner}": one for inner, one in below.items()}
        plain = {
            member: one
            for member, one in flat.items()
            if isinstance(one, int | float) or (isinstance(one, str) and len(one) <= LONGEST)
        }
        plain = dict(list(plain.items())[: LISTED - len(about)])
        about |= {f"{inside}{'.' if inside else ''}{member}": one for member, one in plain.items()}
        self.leave_others(flat, plain, f"{name}: {inside}", why=why)

    def offer(self, write: Callable[[str, str, str], str], code: Any, place: str) -> None:
        """Keep source code for a person to read. `write` makes a file of its name, the code and its place."""
        if not isinstance(code, str) or code in self._offered or len(code) > LONGEST_FUNCTION:
            return
        if len(self._offered) < MOST_FUNCTIONS:
            self._offered.add(code)
            name = f"assertion_{len(self._offered)}"
            self.functions[name] = write(name, code, place)

    def document(self) -> JSON:
        """For `import.json`."""
        left = self.counts.total()
        return {
            "about": {name: one for name, one in self.about.items() if one},
            "carried": dict(sorted(self.carried.items())),
            "not_carried": {
                "count": left,
                "kinds": [
                    {"what": what, "why": why, "count": count, "first": self.first[what, why]}
                    for (what, why), count in self.counts.items()
                ],
                "items": [one._asdict() for one in self.not_carried],
                "unlisted": left - len(self.not_carried),
            },
        }


class Reader(Protocol):
    """Reads the files of one tool."""

    def __call__(self, files: Sequence[str], report: ImportReport, limits: Limits) -> Iterator[Imported]: ...


def recorded(
    tool: str, scores: JSON, version: str | None = None, details: Any = None, other: JSON | None = None
) -> JSON:
    """The scores of another tool, for the metadata of an output. They are evidence, and no score of assay."""
    document: JSON = {"tool": tool}
    if version:
        document["version"] = version
    document["scores"] = scores
    if details:
        document["details"] = details
    if other:
        document["other"] = other
    return document


def place_in(place: str, member: str) -> str:
    """The place of a member. That of a whole file ends with a colon."""
    return f"{place}{'' if place.endswith(': ') else '.'}{member}"


def _says_nothing(value: Any) -> bool:
    return value is None or value is False or value in ("", [], {})


def without_nulls(document: JSON) -> JSON:
    """The members that have a value."""
    return {name: one for name, one in document.items() if one is not None}


def members(document: JSON, name: str) -> JSON:
    """A member that is an object, or an empty one."""
    found = document.get(name)
    return found if is_object(found) else {}


def listed(document: JSON, name: str) -> list[Any]:
    """A member that is a list, or an empty one."""
    found = document.get(name)
    return found if is_list(found) else []
