"""`assay validate`: every problem with its file, line and column."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.inputs.positions import find_positions

SUITE = """\
suiteId: local.mine.evals.first
version: 1.0.0
modes: [golden]
tasks:
  - taskId: a
    input: {x: 1}
    expectd: {kind: golden}
"""
FILES = {
    "suite.yaml": SUITE,
    "good.yaml": SUITE.replace(
        "expectd: {kind: golden}", "expected: {kind: golden, match: {strategy: exact, value: 1}}"
    ),
    "checks.yaml": "- {containss: {phrases: [a]}}\n- {type: exact_match, arguments: {actua: x}}\n",
    "cases.jsonl": '{"input": "a"}\n{"input": "b"}\n',
    "rows.jsonl": '{"input": "a", "output": "b"}\n{"input": }\n{"output": 1}\n',
    "missing.jsonl": '{"test_case": {"id": "a", "input": 1}, "output": {"value": 1}}\n'
    '  {"test_case": {"id": "b"}, "output": {"value": 1}}\n'
    '{"test_case": {"id": "c", "input": 1}, "output": {}}\n'
    '  {"output": {"value": 1}}\n'
    " [1]\n"
    '{"test_case": {"id": 5, "input": 1}, "output": {"value": 1}}\n',
    "own.jsonl": '{"id": "a", "input": 1}\n   {"id": "b"}\n {"id": 5, "input": 1}\n',
    "table.csv": "question,answer\na,b\n",
    "unknown.toml": "home = 'x'\nconcurency = 3\n",
    "wrong.toml": 'hom = 1\n[limits]\nmax_cases = "x"\nmax_cas = 1\n[agents."local.a"]\nurll = "http://x"\n',
    "policy.yaml": "gate:\n  presett: x\nagents:\n  a.*: {min_score: 3}\n",
    "short.yaml": "- contain: [a]\n- regex: {pattern: a, flag: i}\n- exact_match:\n    actal: 1\n",
    "modes.yaml": SUITE.replace("golden]", "goldn]"),
    "rules.yaml": "min_meen: 1\npreset: strct\n",
    "gate.yaml": "gate: {preset: strict}\n",
    "bad.yaml": "a: 1\nb: [1\n",
    "bad.json": '{\n "a": 1,\n}\n',
    "other.yaml": "a: 1\n",
    "short.json": '{"suiteId": "x", "tasks": []}',
    "request.json": '{"test_cases": [{"id": 5, "input": "a"}], "outputs": [{"value": 1}], "checks": []}',
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("files")
    for name, text in FILES.items():
        (made / name).write_text(text)
    (made / "pack").mkdir()
    (made / "pack" / "pack.json").write_text('{"versin": "1"}')
    return made


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("good.yaml", "good.yaml: suite, local.mine.evals.first 1.0.0, 1 task"),
        ("cases.jsonl", "cases.jsonl: cases, 2 cases"),
        ("table.csv", "table.csv: cases, 1 case with its output"),
        ("gate.yaml", "gate.yaml: policy, rules of a gate"),
    ],
)
def test_a_valid_file_is_named_as_what_it_is(command, folder, name, line):
    done = command("validate", name, folder=folder)
    assert (done.code, done.out, done.err) == (0, f"{line}\n", "")


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("suite.yaml", ["5:5: tasks[0].expected: this is missing",
                        "7:5: tasks[0].expectd: there is no such member; did you mean expected?"]),
        ("checks.yaml", ["1:3: checks[0].type: there is no check 'containss' (did you mean contains",
                         "2:35: checks[1].arguments.actua: exact_match takes no such argument"]),
        ("short.yaml", ["1:3: checks[0].contain: no check of assay is called 'contain' (did you mean contains?)",
                        "2:23: checks[1].regex.flag: regex takes no such argument; it takes text, pattern, negate, "
                        "flags; did you mean flags?",
                        "4:5: checks[2].exact_match.actal: exact_match takes no such argument"]),
        ("modes.yaml", ["3:9: modes[0]: expected one of adversarial, golden, live-shadow, regression, rubric, got 'goldn'; "
                        "did you mean golden?"]),
        ("rows.jsonl", ["2:11: not JSON", "3:1: "]),
        ("missing.jsonl", ["2:4: test_case.input: expected any JSON value", "3:40: output.value: expected",
                           "4:3: test_case: expected", "5:2: expected an object", "6:16: test_case.id: expected"]),
        ("own.jsonl", ["2:4: test_case.input: expected any JSON value", "3:3: test_case.id: expected a string"]),
        ("unknown.toml", ["2:1: concurency: there is no setting 'concurency' (did you mean concurrency?)"]),
        ("wrong.toml", ["1:1: hom: there is no setting 'hom'", "3:1: limits.max_cases: expected a whole number, got 'x'",
                        "4:1: limits.max_cas: no such setting; it may have max_line_bytes",
                        '6:1: agents."local.a".urll: no such setting']),
        ("rules.yaml", ["1:1: min_meen: no such member", "2:1: preset: expected one of balanced, "
                        "lenient, strict, got 'strct'; did you mean strict?"]),
        ("pack", ["/pack.json:1:2: versin: pack.json has no such member"]),
        ("policy.yaml", ["2:3: gate.presett: no such member", '4:9: agents."a.*".min_score: expected a number <= 1.0']),
        ("bad.yaml", ["3:1: not YAML"]),
        ("bad.json", ["2:9: not JSON: trailing comma in object"]),
        ("other.yaml", ["1:1: expected a suite, checks, cases, request, policy, pack or settings, got the members a"]),
        ("short.json", ["1:1: version: this is missing", "1:18: tasks: "]),
        ("request.json", ["1:18: test_cases[0].id: expected a string"]),
    ],
)  # fmt: skip
def test_every_problem_has_its_line_and_column(command, folder, name, lines):
    done = command("validate", name, folder=folder)
    assert (done.code, done.out) == (2, "")
    errors = " ".join(done.err.split())
    assert [
        line for line in lines if f"{name}{'' if line.startswith('/') else ':'}{line}" not in errors
    ] == []


def test_all_files_are_reported_as_json(command, folder):
    done = command("validate", "good.yaml", "suite.yaml", "--json", folder=folder)
    good, bad = json.loads(done.out)["files"]
    assert (done.code, good["valid"], good["kind"]) == (2, True, "suite")
    assert [(one["data"]["place"], one["line"], one["column"]) for one in bad["problems"]] == [
        ("tasks[0].expected", 5, 5),
        ("tasks[0].expectd", 7, 5),
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["good.yaml", "--as", "suit"], "--as suit: expected one of suite, checks, cases"),
        (["good.yaml", "--as", "checks"], "expected a list of checks"),
        (["none.yaml"], "none.yaml"),
    ],
)
def test_what_cannot_be_read_is_refused(command, folder, arguments, message):
    done = command("validate", *arguments, folder=folder)
    assert done.code in (1, 2)
    assert message in " ".join(done.err.split())


names = st.text("abcxyz-", min_size=1, max_size=5)
documents = st.recursive(
    st.integers() | names,
    lambda inner: (
        st.lists(inner, min_size=1, max_size=3) | st.dictionaries(names, inner, min_size=1, max_size=3)
    ),
    max_leaves=12,
)


def paths(value, path=""):
    if isinstance(value, dict):
        for name, inner in value.items():
            yield (place := f"{path}.{name}".lstrip(".")), name
            yield from paths(inner, place)
    elif isinstance(value, list):
        for at, inner in enumerate(value):
            yield from paths(inner, f"{path}[{at}]")


@given(st.dictionaries(names, documents, min_size=1, max_size=3), st.sampled_from([None, 1]))
def test_the_position_of_a_member_is_that_of_its_name(document, indent):
    text = json.dumps(document, indent=indent)
    found = find_positions(text.encode(), [place for place, _ in paths(document)])
    for place, name in paths(document):
        line, column = found[place]
        assert text.splitlines()[line - 1][column - 1 :].startswith(f'"{name}"')
