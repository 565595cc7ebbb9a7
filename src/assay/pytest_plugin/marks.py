"""`@pytest.mark.assay`: reads its arguments, and makes one item of each case or task."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from assay.errors import Refusal
from assay.pytest_plugin.cases import (
    CaseGroup,
    CaseRun,
    SampleRun,
    read_cases,
    read_checks,
    test_case_of,
    validate,
)
from assay.pytest_plugin.mark_options import (
    CHOICES,
    MAX_SAMPLES,
    RATES,
    TEXTS,
    MarkOptions,
    claim,
    parametrize_columns,
)
from assay.pytest_plugin.outcome import CASE
from assay.terminal import lines as terminal_lines


def parametrize(metafunc: pytest.Metafunc) -> None:
    """One item for each case. A problem of the mark is an error of the collection that names the function."""
    definition = metafunc.definition
    mark = definition.get_closest_marker("assay")
    assert mark is not None
    try:
        if mark.args:
            raise pytest.UsageError("expected arguments by name, such as cases='cases.jsonl'")
        options = read_options(mark.kwargs, definition.path.parent)
        if options.suite is not None:
            from assay.pytest_plugin.suites import parametrize_suite  # deferred import

            parametrize_suite(metafunc, options)
            return
        group = group_of(options, definition.nodeid, definition.path.parent)
    except (Refusal, pytest.UsageError) as wrong:
        lines = wrong.lines if isinstance(wrong, Refusal) else (str(wrong),)
        text = "\n".join(f"{definition.nodeid}: {terminal_lines(line)}" for line in lines)
        raise pytest.Collector.CollectError(f"@pytest.mark.assay on {text}") from None
    if isinstance(source := options.cases, str | Path):
        claim(metafunc.config, definition.path.parent / source)
    cases, ids = group.cases, [str(case["id"]) for case in group.cases]
    columns: dict[str, list[Any]] = {CASE: [CaseRun(group, index) for index in range(len(ids))]}
    if options.pass_mode == "sample":  # noqa: S105  # not a password
        columns, cases, ids = {CASE: [SampleRun(group)]}, cases[:1], ["samples"]
    if "test_case" in metafunc.fixturenames:
        columns["test_case"] = [test_case_of(case) for case in cases]
    if "input" in metafunc.fixturenames:
        columns["input"] = [case["input"] for case in cases]
    parametrize_columns(metafunc, columns, ids)


def read_options(arguments: Mapping[str, Any], folder: Path) -> MarkOptions:
    """The arguments, validated. Every problem is one line of the UsageError."""
    known = MarkOptions.__struct_fields__
    problems = [
        f"no argument {name!r}; there are {', '.join(known)}" for name in arguments if name not in known
    ]
    options = MarkOptions(**{name: value for name, value in arguments.items() if name in known})
    samples = options.samples
    if type(samples) is not int or not 1 <= samples <= MAX_SAMPLES:
        problems.append(f"samples: expected a whole number from 1 to {MAX_SAMPLES}, got {samples!r}")
    for name in RATES:
        rate = getattr(options, name)
        if rate is not None and (type(rate) not in (int, float) or not 0 <= rate <= 1):
            problems.append(f"{name}: expected a number from 0 to 1, got {rate!r}")
    problems += wrong_values(options)
    problems += contradictions(options)
    if not problems and options.suite is None and not options.bar.accepts([True] * samples):
        problems.append(
            f"decide_by='lower_bound': {samples} of {samples} samples have a lower bound below "
            f"{options.bar.min_pass_rate:g}, so no case "
            "can pass: use more samples or a lower min_pass_rate"
        )
    if problems:
        raise pytest.UsageError("\n".join(problems))
    if options.cases is None and options.test_cases is None and options.suite is None:
        _use_files_beside(options, folder)
    return options


def wrong_values(options: MarkOptions) -> Iterator[str]:
    """Texts that are none, or not among those that are possible."""
    for name, choices in CHOICES.items():
        value = getattr(options, name)
        if value is not None and value not in choices:
            yield f"{name}: expected {' or '.join(map(repr, choices))}, got {value!r}"
    for name, kinds, expected in TEXTS:
        value = getattr(options, name)
        if value is not None and not isinstance(value, kinds):
            yield f"{name}: expected {expected}, got {type(value).__name__}"


def contradictions(options: MarkOptions) -> list[str]:
    """Arguments that exclude each other."""
    sources = [name for name in ("cases", "test_cases", "suite") if getattr(options, name) is not None]
    problems = (
        [f"expected one of cases, test_cases and suite, got {' and '.join(sources)}"]
        if len(sources) > 1
        else []
    )
    rates = [name for name in RATES if getattr(options, name) is not None]
    if len(rates) > 1:
        problems.append(f"{' and '.join(rates)} are names of one number: use one of them")
    names = ("checks", *CHOICES)
    given = [name for name in names if getattr(options, name) is not None]
    if options.suite is not None and given:
        problems.append(f"a suite has its own expectations and thresholds: leave out {', '.join(given)}")
    if options.suite is None and options.judge is not None:
        problems.append("judge is an argument of suite; a check names its own model")
    return problems


def _use_files_beside(options: MarkOptions, folder: Path) -> None:
    if not (folder / "cases.jsonl").is_file():
        raise pytest.UsageError(
            "expected cases=, test_cases= or suite=, or a file cases.jsonl beside the test"
        )
    options.cases = "cases.jsonl"
    if options.checks is None and (folder / "checks.yaml").is_file():
        options.checks = "checks.yaml"


def group_of(options: MarkOptions, name: str, folder: Path) -> CaseGroup:
    """The cases and checks that the mark names, read and validated."""
    place = "cases" if options.cases is not None else "test_cases"
    cases = read_cases(getattr(options, place), folder, place)
    checks = read_checks(options.checks, folder)
    validate(cases, checks)
    return CaseGroup(
        name=name,
        cases=cases,
        checks=checks,
        samples=options.samples,
        bar=options.bar,
        agent=options.agent,
    )
