"""`assay try`: one check on one case."""

import json

import pytest

OUTPUT = ["--output", "It is Lyon."]


@pytest.mark.parametrize(
    ("arguments", "code", "line"),
    [
        (["contains: [Lyon]", *OUTPUT], 0, "✓ contains: contains all of 'Lyon'"),
        (["contains: [Paris]", *OUTPUT], 3, "✗ contains: expected a text that contains 'Paris', got 'It is Lyon.'"),
        (["exact_match", *OUTPUT, "--expected", "Paris"], 3, "✗ exact_match: expected 'Paris', got 'It is Lyon.'"),
        (["{type: regex, arguments: {text: $.output.value, pattern: Lyo}}", *OUTPUT], 0, "✓ regex: "),
        (["threshold: 3", "--output", "4"], 1, "? threshold: value: expected a number but got a string"),
        (["checks.yaml", "--case", "case.json"], 3, "✗ short"),
        (["json_match: $.test_case.expected", "--case", "context.json"], 3, "$.a[1]: expected 3, got 2"),
        (["short", "--output", "one two three", "--check-module", "own.py:short"], 3, "✗ short"),
    ],
)  # fmt: skip
def test_a_check_is_tried_on_one_case(command, tmp_path, arguments, code, line):
    (tmp_path / "own.py").write_text("def short(output):\n    return len(output.split()) < 3\n")
    (tmp_path / "checks.yaml").write_text("- contains: [one]\n- {regex: '^.{3}$', name: short}\n")
    (tmp_path / "case.json").write_text('{"input": "count", "output": "one two"}')
    (tmp_path / "context.json").write_text(
        '{"test_case": {"id": "a", "input": "q", "expected": {"a": [1, 3]}}, "output": {"value": {"a": [1, 2]}}}'
    )
    tried = command("try", *arguments, folder=tmp_path)
    assert (tried.code, tried.err) == (code, "")
    assert line in tried.out
    assert not (tmp_path / ".assay").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["contain: [Paris]", *OUTPUT], "no check of assay is called 'contain' (did you mean contains?)"),
        (["regex: [", *OUTPUT], "CHECK:2: not YAML"),
        (["[]", *OUTPUT], "CHECK: expected a check, such as 'contains: [Paris]', or a file of checks, got none"),
        (["5", *OUTPUT], "CHECK: expected a check, such as 'contains: [Paris]', or a file of checks, got a number"),
        (["contains: [a]", "--input", "q"], "expected --output TEXT, which the check looks at, got none"),
        (["contains: [a]", "--case", "case.json", "--input", "q"], "--case: expected it alone, got --input beside it"),
        (["contains: [a]", "--case", "list.json"], "case: expected an object with output, and input and expected"),
    ],
)  # fmt: skip
def test_what_cannot_be_tried_is_refused(command, tmp_path, arguments, message):
    (tmp_path / "list.json").write_text("[1]")
    refused = command("try", *arguments, folder=tmp_path)
    assert (refused.code, refused.out) == (2, "")
    assert message in " ".join(refused.err.split())


def test_the_case_comes_from_standard_input_and_the_answer_is_json(command, tmp_path):
    tried = command("try", "contains: [Lyon]", "--json", folder=tmp_path, stdin=b'{"output": "It is Lyon."}')
    assert tried.code == 0
    document = json.loads(tried.out)
    assert (document["outcome"], document["data"]["got"]) == ("passed", "It is Lyon.")
    (reason,) = document["data"]["reasons"]
    assert (reason["check"], reason["passed"], reason["reason"]) == (
        "contains",
        True,
        "contains all of 'Lyon'",
    )
    assert document["data"]["result"]["status"] == "completed"
