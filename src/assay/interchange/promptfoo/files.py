"""promptfoo: configurations (prompts, tests, scenarios) and results (.json, .jsonl)."""

from collections.abc import Iterator, Sequence
from typing import Any

from assay.errors import InvalidRequest, Problem
from assay.inputs.files import format_of, open_file, read_items
from assay.interchange.imported import CannotCarry, Imported, ImportReport, members
from assay.interchange.json_reader import JsonReader
from assay.interchange.own_files import OwnFiles
from assay.interchange.promptfoo.prompts import Prompt, prompts_of
from assay.interchange.promptfoo.results import PromptfooResults
from assay.interchange.promptfoo.suite import SuiteTest, SuiteTests
from assay.interchange.promptfoo.test_checks import TestChecks, combinations
from assay.interchange.sources import Candidate, item_of, whole_document
from assay.interchange.templates import render_inside
from assay.ports import Limits
from assay.protocol.json_types import JSON, is_list, is_object

CONFIGS = tuple(f"promptfooconfig.{ending}" for ending in ("yaml", "yml", "json"))
RESULTS = ("results", "results")
_CARRIED = frozenset(("prompts", "tests", "scenarios", "defaultTest", "assertionTemplates"))
_ABOUT = frozenset(("description", "metadata", "tags", "$schema"))
_HEAD = {
    "config": "the results have the tests; import the configuration for what else it says",
    "results.prompts": "each result has its prompt",
    "vars": "each case has its variables",
    "results.stats": "it is counted again from the results",
    "runtimeOptions": "use the options of `assay evaluate`",
}


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
            head: JSON = {}
            with open_file(name, compressed=compressed) as file:
                rows = PromptfooResults(name, report)
                reader, found = JsonReader(file, name, limits, [RESULTS]), False
                for path, value in reader.members():
                    if path[:2] == RESULTS and len(path) > len(RESULTS):
                        found = True
                        yield from rows.case(value, f"{name}: results.results[{path[2]}]")
                    else:
                        head[".".join(map(str, path))] = value
            if found:
                report.describe(name, head, (), _HEAD)
                continue
        yield from _Configuration(name, report, limits).cases()


class _Configuration:
    """One configuration. A part that cannot be carried is noted, and the others are carried."""

    def __init__(self, name: str, report: ImportReport, limits: Limits) -> None:
        document = whole_document(name, limits)
        if not is_object(document):
            raise InvalidRequest(
                Problem(name, "expected a configuration of promptfoo: an object with prompts")
            )
        self._name, self._report = name, report
        self._document = document
        self._files = OwnFiles(name, limits)
        self._suite = SuiteTests(document, name, self._files, report, limits)
        self._checks = TestChecks(report, self._files, document)

    def cases(self) -> Iterator[Imported]:
        """Each test with each prompt, numbered as promptfoo does."""
        prompts = list(prompts_of(self._document.get("prompts"), self._files, self._name, self._report))
        about = {name: one for name, one in self._document.items() if name in _ABOUT}
        self._report.describe(self._name, about, ())
        self._suite.note(self._document, f"{self._name}: ", _CARRIED | frozenset(about))
        defaults = self._suite.defaults()
        number = 0
        for one in self._suite.tests(defaults):
            try:
                for variables in self._variables(one.test, defaults):
                    number += 1
                    yield from self._of_test(number, one, defaults, variables, prompts)
            except CannotCarry as why:
                self._report.leave(one.place, "a test", str(why))
        self._checks.note_templates(self._name)

    def _of_test(
        self, number: int, one: SuiteTest, defaults: JSON, variables: JSON, prompts: list[Prompt]
    ) -> Iterator[Imported]:
        place, test = one.place, one.test
        options = members(defaults, "options") | members(test, "options")
        without = members(test, "options").get("disableDefaultAsserts") is True
        inherited = None if without else defaults.get("assert")
        general = f"{self._name}: defaultTest", inherited
        threshold = test.get("threshold", defaults.get("threshold"))
        before = [one.before] if one.before else []
        own = place, test.get("assert")
        checks, judges = self._checks.of(variables, general, *before, own, threshold=threshold)
        wanted = test.get("prompts", defaults.get("prompts"))
        chosen = [each for each in prompts if each.is_one_of(wanted)] if is_list(wanted) else prompts
        if prompts and not chosen:
            self._report.leave(
                place, "a test", f"it names no prompt of the configuration: {str(wanted)[:100]}"
            )
        for prompt in chosen:
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
