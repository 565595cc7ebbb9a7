"""What one test of promptfoo becomes: its checks and judges, of a configuration or of results."""

import re
from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple

from assay.interchange.imported import NO_PLACE, CannotCarry, ImportReport, members
from assay.interchange.made_checks import check, named
from assay.interchange.own_files import CODE, SCHEME, OwnFiles
from assay.interchange.promptfoo.assertions import ASSERTIONS, Assertion, base_type
from assay.interchange.templates import render, resolved
from assay.protocol.json_types import JSON, is_list, is_object

MOST_COMBINATIONS = 10_000  # of the values of the variables of one test
MOST_PARTS = 100
SET = "assert-set"
DEEPEST = 3  # sets inside one another
MEASURES = ("bleu", "gleu", "rouge-n", "tool-call-f1")  # that count by their score
THRESHOLDS = frozenset(
    (
        "cost",
        "latency",
        "levenshtein",
        "similar",
        "similar:cosine",
        "similar:dot",
        "similar:euclidean",
        *MEASURES,
    )
)
_ASSERTION = frozenset(("type", "value", "weight", "metric", "metricOnly", "transform", "contextTransform"))
_SET = frozenset(("type", "assert", "weight", "metric", "threshold"))
_WHY = {
    "metric": "each check of the set has a name of its own",
    "threshold": "promptfoo has no threshold for it",
    "provider": "it asks no model",
    "rubricPrompt": "it asks no model",
}
_OF_JUDGE = {
    "provider": "the judge has a prompt and a model of its own",
    "rubricPrompt": "the judge has a prompt and a model of its own",
    "threshold": "the judge says whether it passes",
}
TEMPLATES = "assertionTemplates"
_RED_TEAM = "promptfoo:redteam:"


def combinations(variables: JSON, files: OwnFiles | None) -> Iterator[JSON]:
    """Each combination of the values of the variables, in promptfoo's order; a list of texts is several values."""
    count = 1
    columns: list[list[Any]] = []
    for value in variables.values():
        several = is_list(value) and bool(value) and isinstance(value[0], str)
        column: list[Any] = value if several else [value]
        count *= len(column)
        if count > MOST_COMBINATIONS:
            raise CannotCarry(f"its variables have more than {MOST_COMBINATIONS:,} combinations")
        columns.append(column)
    for values in product(*columns):
        filled = dict(zip(variables, values, strict=True))
        for name, value in filled.items():
            if isinstance(value, str) and value.startswith(SCHEME):
                if files is None:
                    raise CannotCarry("a variable is a file")
                filled[name] = files.value(value)
        yield resolved(filled)


class Part(NamedTuple):
    """The check of an assertion, how much it counts, and by which member of its answer."""

    name: str
    judged: bool
    check: JSON
    weight: float = 1
    member: str = ""
    place: str = ""
    what: str = ""


def _all(*lists: Any) -> Iterator[Any]:
    """The assertions of some lists; what is no list has none."""
    return (one for found in lists if is_list(found) for one in found)


def _is_weighted(assertion: Any, depth: int = 0) -> bool:
    """Whether an assertion counts otherwise than once, or is a set with a rule of its own."""
    if not is_object(assertion) or depth > DEEPEST:
        return False
    held = _all(assertion.get("assert")) if assertion.get("type") == SET else iter(())
    inner = any(_is_weighted(one, depth + 1) for one in held)
    own = assertion.get("type") == SET and assertion.get("threshold") is not None
    return inner or own or assertion.get("weight") not in (None, 1) or assertion.get("metricOnly") is True


def _weight(assertion: Any) -> float:
    weight = assertion.get("weight") if is_object(assertion) else None
    if is_object(assertion) and assertion.get("metricOnly") is True:
        return 0
    if weight is None:
        return 1
    if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 <= weight < 1e300:
        raise CannotCarry("its weight is no number of at least 0")
    return weight


def _split(parts: list[Part]) -> tuple[list[JSON], list[JSON]]:
    """Checks that need no model, and judges."""
    groups = ([(one.name, one.check) for one in parts if one.judged is judged] for judged in (False, True))
    checks, judges = (named(group) for group in groups)
    return checks, judges


class TestChecks:
    """Makes the checks of tests, and notes what it cannot carry."""

    __test__ = False

    def __init__(
        self, report: ImportReport, files: OwnFiles | None, configuration: JSON | None = None
    ) -> None:
        self._report, self._files, self._configuration = report, files, configuration or {}
        self._named: set[str] = set()  # by `$ref`

    def note_templates(self, name: str) -> None:
        """Note the templates of assertions that no test names."""
        for template in members(self._configuration, TEMPLATES):
            if f"#/{TEMPLATES}/{template}" not in self._named:
                place = f"{name}: {TEMPLATES}.{template}"
                self._report.leave(place, f"template {template}", "no test names it")

    def of(
        self, variables: JSON, *places: tuple[str, Any], threshold: Any = None
    ) -> tuple[list[JSON], list[JSON]]:
        """The checks and the judges of a test, from the lists of assertions at some places."""
        parts: list[Part] = []
        lost = 0
        nested = threshold is not None or any(map(_is_weighted, _all(*(one for _, one in places))))
        for place, assertions in places:
            found, missing = self._parts(assertions, place, variables, nested=nested)
            parts += found
            lost += missing
        place = places[-1][0]
        if threshold is not None:
            try:
                return _split([self._whole(parts, lost, threshold)])
            except CannotCarry as why:
                self._report.leave(f"{place}.threshold", "threshold of a test", str(why))
        if threshold is None and not lost:
            groups = [[one for one in parts if one.judged is judged] for judged in (False, True)]
            weighted = [any(one.weight != 1 for one in group) for group in groups]
            if any(weighted) and all(groups):
                self._report.leave(place, "score of a test", "checks and judges have scores of their own")
            parts = []
            for group, heavy in zip(groups, weighted, strict=True):
                parts += (
                    [self._whole(group, 0, None)] if heavy and any(one.weight for one in group) else group
                )
        elif any(one.weight != 1 for one in parts):
            self._report.leave(
                place, "weights", "an assertion of the test is not carried; each check counts once"
            )
        for one in parts:
            if not one.weight:
                self._report.leave(one.place, one.what, "its weight is 0: it always passes")
        return _split([one for one in parts if one.weight])

    def _parts(
        self, assertions: Any, place: str, variables: JSON, *, nested: bool, depth: int = 0
    ) -> tuple[list[Part], int]:
        """The parts of a list of assertions, and how many of it are not carried."""
        parts: list[Part] = []
        lost = 0
        if assertions is None:
            return parts, lost
        if not is_list(assertions):
            self._report.leave(place, "assert", "it is no list")
            return parts, 1
        for number, given in enumerate(assertions):
            at = f"{place}.assert[{number}]"
            one = self._referenced(given, at)
            is_set = is_object(one) and one.get("type") == SET
            if is_set and depth == DEEPEST:
                self._report.leave(at, f"assertion {SET}", f"it is nested more than {DEEPEST} deep")
                lost += 1
                continue
            if is_set and not nested and not _is_weighted(one):
                inner, missing = self._parts(one.get("assert"), at, variables, nested=False, depth=depth + 1)
                self._report.leave_others(one, ("type", "assert", "weight"), at, f"{SET}.", _WHY)
                parts += inner
                lost += missing
                continue
            kind = one.get("type") if is_object(one) else None
            what = f"assertion {kind}" if isinstance(kind, str) else "an assertion"
            try:
                weight = _weight(one)
                made = self._set(one, variables, at, depth) if is_set else self._check(one, variables, at)
            except CannotCarry as why:
                self._report.leave(at, what, str(why))
                lost += 1
                continue
            self._report.carry(f"{what}: {made.check['type']}")
            parts.append(made._replace(weight=weight, place=at, what=what))
        return parts, lost

    def _set(self, one: JSON, variables: JSON, place: str, depth: int) -> Part:
        """A set of assertions as one part."""
        threshold = one.get("threshold")
        parts, lost = self._parts(one.get("assert"), place, variables, nested=True, depth=depth + 1)
        made = self._whole(parts, lost, threshold)
        self._report.leave_others(one, _SET, place, f"{SET}.", _WHY)
        metric = one.get("metric")
        return made._replace(name=render(metric, variables) if isinstance(metric, str) and metric else SET)

    def _whole(self, parts: list[Part], lost: int, threshold: Any) -> Part:
        """One check of all parts: their weighted mean, and the threshold that it has to reach."""
        if lost:
            raise CannotCarry("not all of its assertions are carried")
        if threshold is not None and (isinstance(threshold, bool) or not isinstance(threshold, int | float)):
            raise CannotCarry("its threshold is no number")
        if not any(one.weight for one in parts):
            raise CannotCarry("no assertion of it counts")
        if len(parts) > MOST_PARTS:
            raise CannotCarry(f"it has more than {MOST_PARTS} assertions")
        checks = named([(one.name, one.check) for one in parts])
        weights = {
            f"{made['name']}{one.member}": one.weight
            for one, made in zip(parts, checks, strict=True)
            if one.weight != 1 or one.member
        }
        more: JSON = {"weights": weights} if weights else {}
        more |= {} if threshold is None else {"threshold": {"min_value": threshold}}
        return Part("test", any(one.judged for one in parts), check("combination", checks=checks, **more))

    def _referenced(self, one: Any, place: str) -> Any:
        """What `$ref` names inside the configuration. Anything else it names stays as it is, and has no type."""
        reference = one.get("$ref") if is_object(one) else None
        if not isinstance(reference, str) or not reference.startswith("#/"):
            return one
        found: Any = self._configuration
        for step in reference[2:].split("/"):
            found = found.get(step.replace("~1", "/").replace("~0", "~")) if is_object(found) else None
        if not is_object(found) or "$ref" in found:
            return one
        self._named.add(reference)
        self._report.leave_others(one, ("$ref",), place, "reference.")
        return found

    def _check(self, one: Any, variables: JSON, place: str) -> Part:
        if not is_object(one) or not isinstance(one.get("type"), str):
            raise CannotCarry("it has no type")
        base, inverse = base_type(one["type"])
        row = ASSERTIONS.get(base)
        if base.startswith(_RED_TEAM):
            raise CannotCarry("its judge is promptfoo's; see `assay suite attack`")
        if row is None:
            raise CannotCarry("there is no such type")
        if one.get("transform") or one.get("contextTransform"):
            raise CannotCarry("its transform is code, and code is not run")
        if row.make is None:
            if base == "python" and not str(one.get("value")).startswith(SCHEME):
                self._report.offer(_function, one.get("value"), place)
            raise CannotCarry(row.text)
        threshold = one.get("threshold")
        if threshold is not None and (isinstance(threshold, bool) or not isinstance(threshold, int | float)):
            raise CannotCarry("its threshold is no number")
        value = self._value(one.get("value"), variables)
        made = row.make(Assertion(value, threshold, inverse, variables))
        self._note(one, row.how, base, place)
        if base == "word-count" and is_object(value):
            self._report.leave_others(value, ("min", "max"), f"{place}.value", "word-count.")
        metric = one.get("metric")
        name = render(metric, variables) if isinstance(metric, str) and metric else one["type"]
        # promptfoo counts a distance or several patterns by the verdict, and what is negated by what is left to 1
        by_verdict = made["type"] in ("edit_distance", "combination") and row.how == "exactly"
        member = ".passed" if (inverse or by_verdict) and base not in MEASURES else ""
        return Part(name, row.how == "as a judge", made, member=member)

    def _value(self, value: Any, variables: JSON) -> Any:
        if isinstance(value, str):
            if value.startswith(SCHEME):
                return self._file(value)
            if value.startswith("package:"):
                raise CannotCarry("code is not run")
            return render(value, variables)
        if is_list(value):
            return [self._value(one, variables) if isinstance(one, str) else one for one in value]
        return value

    def _file(self, reference: str) -> Any:
        if any(f"{suffix}:" in reference or reference.endswith(suffix) for suffix in CODE):
            raise CannotCarry("its value is code, and code is not run")
        if self._files is None:
            raise CannotCarry("its value is in a file; import the configuration")
        return self._files.value(reference)

    def _note(self, one: JSON, how: str, base: str, place: str) -> None:
        """What an assertion says beside what was carried."""
        if base == "select-best":
            self._report.leave(
                place, "the choice of select-best", "`assay compare` says which system is best"
            )
        carried = _ASSERTION | {"threshold"} if base in THRESHOLDS else _ASSERTION
        why = _OF_JUDGE if how == "as a judge" else _WHY
        suffix = "of a judge" if how == "as a judge" else f"of {base}"
        for member, value in one.items():
            if member not in carried and value not in (None, {}, []):
                self._report.leave(f"{place}.{member}", f"{member} {suffix}", why.get(member, NO_PLACE))


def _function(name: str, code: str, place: str) -> str:
    lines = code.strip("\n").splitlines()
    body = lines if len(lines) > 1 else [f"return {lines[0].strip()}" if lines else "return None"]
    about = re.sub(r"[^ -~]|[\\\"]", "?", place)
    return "\n".join(
        (
            f'"""The python assertion at {about}. It has not been read yet: it runs as your own code."""',
            "",
            "",
            "def _assertion(output, context):",
            *(f"    {line}" for line in body),
            "",
            "",
            f"def {name}(output, test_case):",
            '    context = {"vars": test_case["metadata"].get("vars", {}), "prompt": test_case["input"]}',
            "    answer = _assertion(output, context)",
            '    if isinstance(answer, dict) and "pass" in answer:',
            '        return {"passed": bool(answer["pass"]), "score": answer.get("score", float(answer["pass"]))}',
            "    return answer",
            "",
        )
    )
