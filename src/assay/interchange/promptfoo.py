"""promptfoo: configurations (prompts, tests, scenarios) and results (.json, .jsonl)."""

from collections.abc import Iterator, Sequence
from typing import Any

from assay.errors import InvalidRequest, Problem
from assay.inputs.files import document_of, format_of, open_file, read_items
from assay.interchange.imported import CannotCarry, Imported, ImportReport, listed, members
from assay.interchange.json_reader import JsonReader
from assay.interchange.own_files import CODE, SCHEME, OwnFiles
from assay.interchange.promptfoo_prompts import Prompt, prompts_of
from assay.interchange.promptfoo_results import PromptfooResults
from assay.interchange.promptfoo_table import test_of_row
from assay.interchange.promptfoo_tests import TestChecks, combinations
from assay.interchange.sources import Candidate, item_of
from assay.interchange.templates import render_inside
from assay.ports import Limits
from assay.protocol.json_types import JSON, is_list, is_object

CONFIGS = tuple(f"promptfooconfig.{ending}" for ending in ("yaml", "yml", "json"))
RESULTS = ("results", "results")
_CARRIED = frozenset(("prompts", "tests", "scenarios", "defaultTest", "description", "$schema", "metadata"))
_SYSTEMS = "providers", "targets"
_OPTIONS = frozenset(("prefix", "suffix", "disableVarExpansion", "disableDefaultAsserts"))
_TEST = frozenset(
    ("vars", "assert", "description", "options", "metadata", "threshold", "prompts", "providerOutput")
)
_WHY = {
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
_OTHERWISE = "it has no equal here"


def recognises(one: Candidate) -> bool:
    """Whether a file is a configuration or holds results of promptfoo."""
    if one.format == "jsonl":
        return {"promptIdx", "testIdx", "testCase"} <= one.members
    if {"evalId", "results"} <= one.members or (
        "version" in one.inside("results") and "results" in one.members
    ):
        return {"results", "prompts", "version"} & one.inside("results") != set()
    return "prompts" in one.members and bool({"providers", "targets", "tests", "scenarios"} & one.members)


def read(files: Sequence[str], report: ImportReport, limits: Limits) -> Iterator[Imported]:
    """The cases of configurations, or of results."""
    for name in files:
        form, compressed = format_of(name, "json")
        if form == "jsonl":
            rows = PromptfooResults(name, report)
            for item in read_items(name, limits):
                yield from rows.case(item_of(item), item.location)
            continue
        if form == "json":
            with open_file(name, compressed=compressed) as file:
                rows = PromptfooResults(name, report)
                reader, found = JsonReader(file, name, limits, [RESULTS]), False
                for path, value in reader.members():
                    if path[:2] == RESULTS and len(path) > len(RESULTS):
                        found = True
                        yield from rows.case(value, f"{name}: results.results[{path[2]}]")
            if found:
                continue
        yield from _Configuration(name, report, limits).cases()


class _Configuration:
    """One configuration. A part that cannot be carried is noted, and the others are carried."""

    def __init__(self, name: str, report: ImportReport, limits: Limits) -> None:
        document = document_of(name, limits)
        if not is_object(document):
            raise InvalidRequest(
                Problem(name, "expected a configuration of promptfoo: an object with prompts")
            )
        self._name, self._report, self._limits, self._document = name, report, limits, document
        self._files = OwnFiles(name, limits)
        self._checks = TestChecks(report, self._files)

    def cases(self) -> Iterator[Imported]:
        """Each test with each prompt, numbered as promptfoo does."""
        prompts = list(prompts_of(self._document.get("prompts"), self._files, self._name, self._report))
        self._note_members(self._document, "", _CARRIED)
        defaults = self._default_test()
        number = 0
        for place, test in self._tests(defaults):
            try:
                for variables in self._variables(test, defaults):
                    number += 1
                    yield from self._of_test(number, test, defaults, variables, prompts, place)
            except CannotCarry as why:
                self._report.leave(place, "a test", str(why))

    def _of_test(
        self, number: int, test: JSON, defaults: JSON, variables: JSON, prompts: list[Prompt], place: str
    ) -> Iterator[Imported]:
        options = members(defaults, "options") | members(test, "options")
        inherited = None if options.get("disableDefaultAsserts") is True else defaults.get("assert")
        general = f"{self._name}: defaultTest", inherited
        threshold = test.get("threshold", defaults.get("threshold"))
        checks, judges = self._checks.of(variables, general, (place, test.get("assert")), threshold=threshold)
        wanted = test.get("prompts") or defaults.get("prompts")
        for prompt in prompts:
            if is_list(wanted) and prompt.label not in wanted:
                continue
            metadata = members(defaults, "metadata") | members(test, "metadata")
            case: JSON = {"id": f"test-{number}", "input": self._input(prompt, variables, options, place)}
            metadata |= {"vars": variables, "prompt": prompt.label}
            if isinstance(test.get("description"), str):
                metadata["description"] = test["description"]
            case["metadata"] = metadata
            output = {"value": test["providerOutput"]} if "providerOutput" in test else None
            variant = prompt.label if len(prompts) > 1 else ""
            yield Imported(case, output, checks, judges, variant)

    def _variables(self, test: JSON, defaults: JSON) -> Iterator[JSON]:
        variables: Any = test.get("vars") or {}
        if isinstance(variables, str) or is_list(variables):
            references: list[Any] = [variables] if isinstance(variables, str) else variables
            found = [self._files.value(str(reference)) for reference in references]
            variables = {name: one for part in found if is_object(part) for name, one in part.items()}
        if not is_object(variables):
            raise CannotCarry("its vars are no object")
        options = members(defaults, "options") | members(test, "options")
        both = members(defaults, "vars") | variables
        if options.get("disableVarExpansion") is True:
            both = {name: [one] if is_list(one) else one for name, one in both.items()}
        yield from combinations(both, self._files)

    def _input(self, prompt: Prompt, variables: JSON, options: JSON, place: str) -> Any:
        """The prompt with its variables; the variables alone if the prompt is no plain template."""
        try:
            filled = render_inside(prompt.raw, variables)
        except CannotCarry as why:
            self._report.leave(place, "a prompt; the input has the variables", str(why))
            return variables
        if isinstance(filled, str):
            return f"{options.get('prefix') or ''}{filled}{options.get('suffix') or ''}"
        return filled

    def _default_test(self) -> JSON:
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
        self._note_members(given, "defaultTest.", _TEST)
        return given

    def _tests(self, defaults: JSON) -> Iterator[tuple[str, JSON]]:
        given = self._document.get("tests")
        scenarios = self._document.get("scenarios")
        if given is None and not scenarios:
            yield f"{self._name}: tests", {}  # promptfoo runs the prompts once
        for at, one in enumerate(given if is_list(given) else [] if given is None else [given]):
            yield from self._listed_test(one, f"{self._name}: tests[{at}]")
        for at, scenario in enumerate(scenarios if is_list(scenarios) else []):
            yield from self._scenario(scenario, defaults, f"{self._name}: scenarios[{at}]")

    def _listed_test(self, one: Any, place: str) -> Iterator[tuple[str, JSON]]:
        """A test, or those of the files that a text names."""
        if is_object(one) and "path" in one and "assert" not in one and "vars" not in one:
            self._report.leave(place, "generated tests", "code is not run")
        elif is_object(one):
            self._note_test(one, place)
            yield place, one
        elif isinstance(one, str):
            try:
                yield from self._tests_of_files(one)
            except CannotCarry as why:
                self._report.leave(place, "tests", str(why))
        else:
            self._report.leave(place, "a test", "it is no object")

    def _tests_of_files(self, reference: str) -> Iterator[tuple[str, JSON]]:
        if "://" in reference and not reference.startswith(SCHEME):
            raise CannotCarry("nothing is fetched from elsewhere")
        if any(f"{suffix}:" in reference for suffix in CODE):
            raise CannotCarry("code is not run")
        for path in self._files.find(reference):
            if path.suffix in CODE:
                raise CannotCarry("code is not run")
            form, _ = format_of(path.name, "json")
            items = read_items(str(path), self._limits, flat=True)
            for item in items:
                row = item_of(item)
                place = (
                    f"{path.name}:{item.number}"
                    if form in ("csv", "jsonl")
                    else f"{path.name}[{item.number}]"
                )
                test = test_of_row(row) if form == "csv" else row
                if is_object(test):
                    self._note_test(test, place)
                    yield place, test
                else:
                    self._report.leave(place, "a test", "it is no object")

    def _scenario(self, scenario: Any, defaults: JSON, place: str) -> Iterator[tuple[str, JSON]]:
        """Each configuration of a scenario with each of its tests."""
        if not is_object(scenario) or not is_list(scenario.get("config")):
            self._report.leave(place, "a scenario", "it is no object with config and tests")
            return
        tests = [
            one
            for at, test in enumerate(listed(scenario, "tests") or [{}])
            for one in self._listed_test(test, f"{place}.tests[{at}]")
        ]
        for data in scenario["config"]:
            if not is_object(data):
                self._report.leave(place, "a scenario", "its config is no object")
                continue
            for at, test in tests:
                merged = data | test
                merged["vars"] = members(data, "vars") | members(test, "vars")
                merged["metadata"] = members(data, "metadata") | members(test, "metadata")
                merged["assert"] = [*listed(data, "assert"), *listed(test, "assert")]
                yield at, merged

    def _note_test(self, test: JSON, place: str) -> None:
        self._note_members(test, f"{place}.", _TEST, is_place=True)

    def _note_members(
        self, document: JSON, prefix: str, carried: frozenset[str], *, is_place: bool = False
    ) -> None:
        """Note the members that have no place here."""
        start = prefix if is_place else f"{self._name}: {prefix}"
        for member, value in document.items():
            if member not in carried and value not in (None, [], {}, False):
                self._report.leave(start + member, member, _WHY.get(member, _OTHERWISE))
        for member in members(document, "options"):
            if member not in _OPTIONS:
                self._report.leave(
                    f"{start}options.{member}", f"option {member}", _WHY.get(member, _OTHERWISE)
                )
