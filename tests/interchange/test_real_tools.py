"""Files that the real tools write, each in an environment of its own. `make soak` makes them."""

import json
import re

import pytest

import assay
from assay.interchange.formats import format_named, recognise
from assay.interchange.imported import ImportReport
from assay.ports import Limits
from support.agents.frameworks.environments import NotMade
from support.interchange.promptfoo_samples import FILES, TYPES, VERDICTS, WEIGHTED
from support.interchange.tools import INSPECT, PYDANTIC, promptfoo_folder, run_promptfoo, run_python


@pytest.fixture(autouse=True)
def _soak(series):
    if not series(False, True):
        pytest.skip("make soak installs the other tools")


def made(function, *arguments):
    try:
        return function(*arguments)
    except NotMade as why:
        pytest.skip(f"the tool cannot be installed: {why}")


def imported(*files):
    names = [str(one) for one in files]
    report = ImportReport()
    return list(recognise(names, Limits()).read(names, report, Limits())), report


def test_the_types_of_promptfoo_are_those_of_the_package():
    folder = made(promptfoo_folder) / "dist" / "src"
    lists = [
        re.findall(r'"([a-z0-9:-]+)"', found[1])
        for path in folder.glob("tables-*.js")
        for name in ("BaseAssertionTypesSchema", "SpecialAssertionTypesSchema")
        if (found := re.search(rf"const {name} = z\.enum\(\[(.*?)\]\)", path.read_text(), re.DOTALL))
    ]
    assert {one for found in lists for one in found} == set(TYPES)


def test_promptfoo_says_what_the_table_says(tmp_path):
    tests = [
        {"vars": {"city": "Rome"}, "providerOutput": output, "assert": [{"type": type, **more}]}
        for type, more, output, _ in VERDICTS
    ]
    document = {"prompts": ["{{city}}?"], "providers": ["echo"], "tests": tests}
    (tmp_path / "promptfooconfig.json").write_text(json.dumps(document))
    made(run_promptfoo, tmp_path)
    cases, report = imported(tmp_path / "out.json")
    assert report.not_carried == []
    cases.sort(key=lambda one: int(one.case["id"].removeprefix("test-")))
    verdicts = [one.output["metadata"]["recorded"]["scores"]["pass"] for one in cases]
    assert verdicts == [int(passes) for *_, passes in VERDICTS]
    for one, passes in zip(cases, verdicts, strict=True):
        result = assay.evaluate_sync([one.case], [one.output], one.checks)
        assert result.results[0].check_results[0].results["passed"] == bool(passes), one


def test_promptfoo_weighs_as_the_table_says(tmp_path):
    tests = [{"vars": {"n": at}, "providerOutput": "abc"} | test for at, (test, *_) in enumerate(WEIGHTED)]
    document = {"prompts": ["{{n}}?"], "providers": ["echo"], "tests": tests}
    (tmp_path / "promptfooconfig.json").write_text(json.dumps(document))
    made(run_promptfoo, tmp_path)
    cases, report = imported(tmp_path / "out.json")
    assert report.not_carried == []
    cases.sort(key=lambda one: int(one.case["id"].removeprefix("test-")))
    scores = [one.output["metadata"]["recorded"]["scores"] for one in cases]
    assert [(one["score"], one["pass"]) for one in scores] == [
        (pytest.approx(score), int(passes)) for _, score, passes in WEIGHTED
    ]


def test_a_configuration_and_its_results_have_the_same_cases(tmp_path):
    for name, text in FILES.items():
        (tmp_path / name).write_text(text.replace("providers: [", "providers: [echo] #"))
    made(run_promptfoo, tmp_path)
    planned, _ = imported(tmp_path / "promptfooconfig.yaml")
    recorded, _ = imported(tmp_path / "out.json")

    def known(cases):
        return sorted(
            (one.case["id"], one.case["input"], [check["name"] for check in one.checks]) for one in cases
        )

    assert known(planned) == known(recorded)


def test_logs_that_inspect_writes(tmp_path):
    made(run_python, "inspect", INSPECT, tmp_path)
    for form in ("eval", "json"):
        cases, report = imported(*(tmp_path / f"logs-{form}").glob(f"*.{form}"))
        cases.sort(key=lambda one: one.output["metadata"]["trial"])
        assert [one.output["value"] for one in cases] == ["It is 2", "It is 3"]
        assert [one.output["metadata"]["recorded"]["scores"] for one in cases] == [
            {"includes": 1, "match": 1},
            {"includes": 0, "match": 0},
        ]
        assert [step["type"] for step in cases[0].output["metadata"]["trajectory"]] == [
            "tool-called",
            "tool-returned",
        ]
        assert [one.what for one in report.not_carried] == [
            "scorer match",
            "solver use_tools",
            "solver generate",
        ]
        result = assay.evaluate_sync(
            [one.case for one in cases], [one.output for one in cases], cases[0].checks
        )
        assert [one.check_results[0].results["passed"] for one in result.results] == [True, False]


@pytest.mark.parametrize("ending", ["yaml", "json"])
def test_datasets_that_pydantic_evals_writes(tmp_path, ending):
    made(run_python, "pydantic-evals", PYDANTIC, tmp_path)
    (one,), report = imported(tmp_path / f"capitals.{ending}")
    assert (one.case["id"], one.case["input"], one.case["expected"]) == ("fr", "France?", "Paris")
    assert [check["type"] for check in one.checks] == ["json_match", "threshold", "contains"]
    assert report.not_carried == []
    assert format_named("pydantic-evals").name == "pydantic-evals"
