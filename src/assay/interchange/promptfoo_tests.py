"""What one test of promptfoo becomes: its checks and judges, of a configuration or of results."""

import re
from collections.abc import Iterator
from itertools import chain, product
from typing import Any

from assay.interchange.imported import CannotCarry, ImportReport
from assay.interchange.made_checks import named
from assay.interchange.own_files import CODE, SCHEME, OwnFiles
from assay.interchange.promptfoo_assertions import ASSERTIONS, Assertion, base_type
from assay.interchange.templates import render, resolved
from assay.protocol.json_types import JSON, is_list, is_object

MOST_COMBINATIONS = 10_000  # of the values of the variables of one test
MOST_FUNCTIONS = 100
THRESHOLD = "a case passes if all of its checks pass"
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


class TestChecks:
    """Makes the checks of tests, and notes what it cannot carry."""

    __test__ = False

    def __init__(self, report: ImportReport, files: OwnFiles | None) -> None:
        self._report, self._files = report, files
        self._functions: dict[str, str] = {}

    def of(self, variables: JSON, *places: tuple[str, Any]) -> tuple[list[JSON], list[JSON]]:
        """The checks and the judges of a test, from the lists of assertions at some places."""
        checks: list[tuple[str, JSON]] = []
        judges: list[tuple[str, JSON]] = []
        for at, assertion in chain.from_iterable(self._flat(one, place) for place, one in places):
            try:
                name, how, made = self._check(assertion, variables, at)
            except CannotCarry as why:
                what = assertion.get("type") if is_object(assertion) else None
                self._report.leave(
                    at, f"assertion {what}" if isinstance(what, str) else "an assertion", str(why)
                )
                continue
            self._report.carry(f"assertion {assertion['type']}: {made['type']}")
            (judges if how == "as a judge" else checks).append((name, made))
        return named(checks), named(judges)

    def _flat(self, assertions: Any, place: str) -> Iterator[tuple[str, Any]]:
        """The assertions with their places; those of a set without a threshold must all pass, as all others."""
        if assertions is None:
            return
        if not is_list(assertions):
            self._report.leave(place, "assert", "it is no list")
            return
        for number, one in enumerate(assertions):
            at = f"{place}.assert[{number}]"
            if not is_object(one) or one.get("type") != "assert-set":
                yield at, one
            elif one.get("threshold") is not None:
                self._report.leave(
                    at, "assert-set with a threshold", "a case passes if all of its checks pass"
                )
            else:
                yield from self._flat(one.get("assert"), at)

    def _check(self, one: Any, variables: JSON, place: str) -> tuple[str, str, JSON]:
        if not is_object(one) or not isinstance(one.get("type"), str):
            raise CannotCarry("it has no type")
        base, inverse = base_type(one["type"])
        row = ASSERTIONS.get(base)
        if base.startswith(_RED_TEAM):
            raise CannotCarry("its judge is promptfoo's; see `assay suite attack`")
        if row is None:
            raise CannotCarry("there is no such type")
        if one.get("weight") == 0:
            raise CannotCarry("its weight is 0: it always passes")
        if one.get("transform") or one.get("contextTransform"):
            raise CannotCarry("its transform is code, and code is not run")
        if row.make is None:
            self._offer(base, one.get("value"), place)
            raise CannotCarry(row.text)
        threshold = one.get("threshold")
        if threshold is not None and (isinstance(threshold, bool) or not isinstance(threshold, int | float)):
            raise CannotCarry("its threshold is no number")
        value = self._value(one.get("value"), variables)
        made = row.make(Assertion(value, threshold, inverse, variables))
        self._note(one, row.how, base, place)
        metric = one.get("metric")
        name = render(metric, variables) if isinstance(metric, str) and metric else one["type"]
        return name, row.how, made

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
        if one.get("weight") not in (None, 1):
            self._report.leave(
                place, "weight", "weights count in promptfoo's score only; the check counts once"
            )
        if how == "as a judge":
            for member in ("provider", "rubricPrompt"):
                if one.get(member) is not None:
                    self._report.leave(
                        place, f"{member} of a judge", "the judge has a prompt and a model of its own"
                    )
            if one.get("threshold") is not None and not base.startswith("similar"):
                self._report.leave(place, "threshold of a judge", "the judge says whether it passes")

    def _offer(self, base: str, value: Any, place: str) -> None:
        """Keep the source of an assertion in Python, for a person to read."""
        if base != "python" or not isinstance(value, str) or value.startswith(SCHEME):
            return
        if value in self._functions or len(self._functions) >= MOST_FUNCTIONS or len(value) > 100_000:
            return
        name = f"assertion_{len(self._functions) + 1}"
        self._functions[value] = name
        self._report.functions[name] = _function(name, value, place)


def _function(name: str, code: str, place: str) -> str:
    lines = code.strip("\n").splitlines()
    body = lines if len(lines) > 1 else [f"return {lines[0].strip()}" if lines else "return None"]
    about = re.sub(r"[^ -~]|[\\\"]", "?", place)
    return "\n".join(
        (
            f'"""The python assertion at {about}. Nobody has read it yet: it runs as your own code."""',
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
