"""Plain functions as checks, and the short forms of checks in files."""

import json

import pytest

import assay
from assay.checks import STANDARD
from assay.checks.checker import argument_schema
from assay.checks.function_check import function_checker
from assay.errors import UsageError
from assay.fep.planning.short_checks import SHORT_FORMS, expand_checks

OUTPUT = "$.output.value"


def polite(output):
    return "please" in output


async def size(output, limit=3):
    return {"passed": len(output) <= limit, "size": len(output)}


def score(input, output, expected, metadata, test_case):
    return (1 if expected is None else 2) + (10 if metadata is None else 20) + len(test_case["id"]) / 2


def empty(output):
    return None


def raises(output):
    raise KeyError("x")


def run(check, case=None, output=None, **options):
    result = assay.evaluate_sync(
        [{"id": "a", "input": "?", **(case or {})}],
        [{"value": "please", **(output or {})}],
        [check],
        **options,
    )
    (found,) = result.results[0].check_results
    return found.results if found.status == "completed" else found.error.message


@pytest.mark.parametrize(
    ("function", "more", "found"),
    [
        (polite, {}, {"passed": True}),
        (polite, {"output": {"value": "no"}}, {"passed": False}),
        (size, {}, {"passed": False, "size": 6}),
        (score, {}, {"score": 11.5}),
        (score, {"case": {"expected": None}}, {"score": 11.5}),
        (score, {"case": {"expected": "x"}, "output": {"metadata": {}}}, {"score": 22.5}),
        (empty, {}, "empty returned nothing; expected true or false, a number, or an object such as {'passed': True}"),
        (raises, {}, "raises failed with KeyError: 'x'"),
    ],
)  # fmt: skip
def test_a_function_is_a_check(function, more, found):
    assert run(function, **more) == found
    registry = STANDARD.with_checks([function_checker(function)])
    assert run({"type": function.__name__, "arguments": {}}, registry=registry, **more) == found


def test_a_function_has_arguments_and_a_row_of_its_own():
    registry = STANDARD.with_checks([function_checker(size)])
    assert run({"type": "size", "arguments": {"limit": 6}}, registry=registry) == {"passed": True, "size": 6}
    assert run({"type": "size", "arguments": {"output": "$.test_case.input"}}, registry=registry) == {
        "passed": True,
        "size": 1,
    }
    assert set(argument_schema(function_checker(size))["$defs"]["size"]["properties"]) == {"output", "limit"}
    result = assay.evaluate_sync([{"id": "a", "input": "?"}], [{"value": "please"}], [[polite, size, polite]])
    assert list(result.metadata["statistics"]["checks"]) == ["polite", "size"]
    with pytest.raises(assay.InvalidRequest, match="takes no such argument"):
        run({"type": "size", "arguments": {"most": 6}}, registry=registry)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda output: True, "a lambda has no name"),
        (print, "print: expected parameters with names, such as output, input"),
        (dict.fromkeys, "expected parameters with names"),
    ],
)
def test_a_value_that_is_no_check_is_refused(function, words):
    with pytest.raises(UsageError, match=words):
        run(function)


@pytest.mark.parametrize(
    ("short", "arguments"),
    [
        ({"contains": ["Paris"]}, {"text": OUTPUT, "phrases": ["Paris"]}),
        ({"contains": "Paris"}, {"text": OUTPUT, "phrases": ["Paris"]}),
        ({"contains": "$.test_case.phrases"}, {"text": OUTPUT, "phrases": "$.test_case.phrases"}),
        ({"contains": {"phrases": ["P"], "negate": True}}, {"text": OUTPUT, "phrases": ["P"], "negate": True}),
        ({"exact_match": "$.test_case.expected"}, {"actual": OUTPUT, "expected": "$.test_case.expected"}),
        ({"regex": "^P"}, {"text": OUTPUT, "pattern": "^P"}),
        ({"threshold": 0.5}, {"value": OUTPUT, "min_value": 0.5}),
        ({"threshold": {"max_value": 1, "parse": "number"}}, {"value": OUTPUT, "max_value": 1, "parse": "number"}),
        ({"json_schema": {"type": "object"}}, {"value": OUTPUT, "schema": {"type": "object"}}),
        ({"json_schema": {"schema": {}, "parse": "json"}}, {"value": OUTPUT, "schema": {}, "parse": "json"}),
        ({"json_match": {"a": 1}}, {"actual": OUTPUT, "expected": {"a": 1}}),
        ({"exists": OUTPUT}, {"path": OUTPUT}),
        ({"has_items": ["a"]}, {"items": OUTPUT, "required_items": ["a"]}),
        ({"semantic_similarity": "Paris"}, {"text": OUTPUT, "reference": "Paris"}),
        ({"mine": {"a": 1}}, {"a": 1}),
        ({"mine": None}, {}),
        ("mine", {}),
    ],
)  # fmt: skip
def test_a_short_form_is_written_out(short, arguments):
    kind = short if isinstance(short, str) else next(iter(short))
    expanded, problems = expand_checks([short], "checks")
    assert (expanded, problems) == ([{"type": kind, "arguments": arguments}], [])
    assert expand_checks([[short]], "checks") == ([expanded], [])
    if isinstance(short, dict):
        assert expand_checks([{**short, "name": "n"}], "checks")[0] == [{**expanded[0], "name": "n"}]


def test_a_short_form_names_arguments_that_the_check_has():
    for kind, form in SHORT_FORMS.items():
        fields = STANDARD.find(kind, None).__struct_fields__
        assert form.argument in fields
        assert form.subject is None or form.subject in fields
    plain = {"type": "contains", "arguments": {"text": OUTPUT, "phrases": ["a"]}}
    assert expand_checks([plain], "checks") == ([plain], [])
    places = [one.place for one in expand_checks([{"mine": [1]}, {"contains": None}], "checks")[1]]
    assert places == ["checks[0].mine", "checks[1].contains"]


def test_files_take_short_forms_and_functions(command, tmp_path):
    (tmp_path / "x.jsonl").write_text(
        json.dumps({"test_case": {"id": "a", "input": "?"}, "output": {"value": "please"}})
    )
    (tmp_path / "mine.py").write_text("def polite(output):\n    return 'please' in output\n")
    (tmp_path / "c.yaml").write_text("- contains: [please]\n- polite\n- {polite: {}, name: kind}\n")
    ended = command(
        "evaluate",
        "--contexts",
        "x.jsonl",
        "--checks",
        "c.yaml",
        "--check-module",
        "mine:polite",
        "--json",
        folder=tmp_path,
    )
    assert list(json.loads(ended.out)["checks"]) == ["contains", "polite", "kind"], ended.err
    ended = command(
        "evaluate",
        "--contexts",
        "x.jsonl",
        "--check-module",
        "mine.py:polite",
        "--min-pass-rate",
        "polite=1",
        folder=tmp_path,
    )
    assert ended.code == 0, ended.err
    (tmp_path / "mine.py").write_text("def polite(output, limit):\n    return True\n")
    wrong = command("evaluate", "--contexts", "x.jsonl", "--check-module", "mine.py:polite", folder=tmp_path)
    assert "assay: --check-module: checks[0].arguments.limit: polite needs this argument" in wrong.err
    (tmp_path / "c.yaml").write_text("- contains: [please]\n")
    files = ("--contexts", "x.jsonl", "--checks", "c.yaml", "--check-module", "mine.py:polite")
    unused = command("evaluate", *files, folder=tmp_path)
    assert "--check-module mine.py:polite: c.yaml does not name it, so it is not run" in unused.err
