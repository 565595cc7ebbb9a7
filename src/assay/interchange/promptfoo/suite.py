"""The tests of a promptfoo configuration: those it lists, those of its files, and those of its scenarios."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from assay.inputs.files import format_of, read_items
from assay.interchange.imported import CannotCarry, ImportReport, members, place_in
from assay.interchange.own_files import CODE, SCHEME, OwnFiles
from assay.interchange.promptfoo.table import test_of_row
from assay.interchange.sources import item_of
from assay.ports import Limits
from assay.protocol.json_types import JSON, is_list, is_object

WHY = {
    "providers": "name the system with --agent",
    "targets": "name the system with --agent",
    "provider": "name the system with --agent",
    "transform": "code is not run",
    "postprocess": "code is not run",
    "transformVars": "code is not run",
    "assertScoringFunction": "code is not run",
    "extensions": "code is not run",
    "nunjucksFilters": "code is not run",
    "derivedMetrics": "there are no metrics of metrics",
    "redteam": "use `assay suite attack`",
    "evaluateOptions": "use the options of `assay evaluate`; repeat is --trials",
    "repeat": "use --trials of `assay evaluate`",
    "env": "variables of the environment are not read",
}
OTHERWISE = "it has no equal here"
TEST = frozenset(
    ("vars", "assert", "description", "options", "metadata", "threshold", "prompts", "providerOutput")
)
OPTIONS = frozenset(("prefix", "suffix", "disableVarExpansion", "disableDefaultAsserts"))
DEFAULTS = TEST - {"description", "providerOutput"}


class SuiteTest(NamedTuple):
    """A test with its place, and the assertions of a scenario that stand before its own."""

    place: str
    test: JSON
    before: tuple[str, Any] | None = None


class SuiteTests:
    """The tests of a configuration with their places. A part that cannot be carried is noted."""

    def __init__(
        self, document: JSON, name: str, files: OwnFiles, report: ImportReport, limits: Limits
    ) -> None:
        self._document, self._name, self._files = document, name, files
        self._report, self._limits = report, limits

    def defaults(self) -> JSON:
        """What every test has."""
        given: Any = self._document.get("defaultTest") or {}
        place = f"{self._name}: defaultTest"
        try:
            given = self._files.value(given) if isinstance(given, str) else given
        except CannotCarry as why:
            self._report.leave(place, "defaultTest", str(why))
            return {}
        if not is_object(given):
            self._report.leave(place, "defaultTest", "it is no object")
            return {}
        self.note(given, place, DEFAULTS)
        return given

    def tests(self, defaults: JSON) -> Iterator[SuiteTest]:
        """Every test. A configuration without tests runs its prompts once."""
        tests, scenarios = self._document.get("tests"), self._document.get("scenarios")
        if not tests and scenarios is None:
            yield SuiteTest(f"{self._name}: tests", {})
        for at, one in enumerate(tests if is_list(tests) else [tests] if tests else []):
            yield from self._listed_test(one, f"{self._name}: tests[{at}]")
        for at, one in self._loaded(scenarios, f"{self._name}: scenarios", "scenarios"):
            yield from self._scenario(one, defaults, at)

    def note(self, document: JSON, place: str, carried: frozenset[str] = TEST) -> None:
        """Note the members of a test, or of the configuration, that have no place here."""
        for member, value in document.items():
            if member not in carried and value not in (None, [], {}, False, ""):
                self._report.leave(place_in(place, member), member, WHY.get(member, OTHERWISE))
        for member in members(document, "options"):
            if member not in OPTIONS:
                why = WHY.get(member, OTHERWISE)
                self._report.leave(f"{place}.options.{member}", f"option {member}", why)

    def _loaded(self, value: Any, place: str, what: str) -> Iterator[tuple[str, Any]]:
        """The items of a list, where each may be a file with a list, or of a file."""
        for at, one in enumerate(value if is_list(value) else [] if value is None else [value]):
            here = f"{place}[{at}]" if is_list(value) else place
            if not isinstance(one, str):
                yield here, one
                continue
            try:
                if not one.startswith(SCHEME):
                    raise CannotCarry(f"expected {SCHEME}…, got {one[:40]!r}")
                for path in self._files.find(one):
                    if path.suffix in CODE:
                        raise CannotCarry("code is not run")
                    document = self._files.document(path)
                    for number, part in enumerate(document if is_list(document) else [document]):
                        yield f"{path.name}[{number}]", part
            except CannotCarry as why:
                self._report.leave(here, what, str(why))

    def _listed_test(self, one: Any, place: str) -> Iterator[SuiteTest]:
        """A test, or those of the files that a text names."""
        if is_object(one) and "path" in one and "assert" not in one and "vars" not in one:
            self._report.leave(place, "generated tests", "code is not run")
        elif is_object(one):
            self.note(one, place)
            yield SuiteTest(place, one)
        elif isinstance(one, str):
            try:
                yield from self._tests_of_files(one)
            except CannotCarry as why:
                self._report.leave(place, "tests", str(why))
        else:
            self._report.leave(place, "a test", "it is no object")

    def _tests_of_files(self, reference: str) -> Iterator[SuiteTest]:
        if "://" in reference and not reference.startswith(SCHEME):
            raise CannotCarry("nothing is fetched from elsewhere")
        if any(f"{suffix}:" in reference for suffix in CODE):
            raise CannotCarry("code is not run")
        for path in self._files.find(reference):
            if path.suffix in CODE:
                raise CannotCarry("code is not run")
            form, _ = format_of(path.name, "json")
            for item in read_items(str(path), self._limits, flat=True):
                row = item_of(item)
                by_line = form in ("csv", "jsonl")
                place = f"{path.name}:{item.number}" if by_line else f"{path.name}[{item.number}]"
                test = test_of_row(row, place, self._report) if form == "csv" else row
                if is_object(test):
                    self.note(test, place)
                    yield SuiteTest(place, test)
                else:
                    self._report.leave(place, "a test", "it is no object")

    def _scenario(self, scenario: Any, defaults: JSON, place: str) -> Iterator[SuiteTest]:
        """Each configuration of a scenario with each of its tests."""
        if not is_object(scenario) or not scenario.get("config"):
            self._report.leave(place, "a scenario", "it is no object with config and tests")
            return
        self.note(scenario, place, frozenset(("config", "tests", "description")))
        given: Any = scenario.get("tests")
        tests = [
            one
            for at, test in enumerate(given if is_list(given) else [given] if given else [{}])
            for one in self._listed_test(test, f"{place}.tests[{at}]")
        ]
        for at, data in self._loaded(scenario["config"], f"{place}.config", "config of a scenario"):
            if not is_object(data):
                self._report.leave(at, "a scenario", "its config is no object")
                continue
            self.note(data, at)
            for where, test, _ in tests:
                merged = defaults | data | test
                for part in ("vars", "metadata", "options"):
                    if isinstance(data.get(part) or test.get(part), str):
                        continue  # variables of a file, which the test names
                    merged[part] = members(defaults, part) | members(data, part) | members(test, part)
                if scenario.get("description"):
                    merged["metadata"] = {"scenario": scenario["description"]} | merged["metadata"]
                yield SuiteTest(where, merged | {"assert": test.get("assert")}, (at, data.get("assert")))
