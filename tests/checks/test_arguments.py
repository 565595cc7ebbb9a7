"""Which arguments are paths, what a path yields, what refuses a request (FEP-12 to FEP-17, FEP-26, FEP-33, FEP-37)."""

from typing import Annotated, Any

import pytest
from msgspec import UNSET, Meta, UnsetType

from assay.checks import STANDARD
from assay.checks.arguments import bind
from assay.checks.checker import Checker, Opaque, Template
from assay.checks.registry import Registry
from assay.checks.runner import ResultOptions, run_check
from assay.errors import InvalidRequest, UsageError
from assay.ports import Limits, Services
from assay.protocol.evaluation import Check


class Echo(Checker):
    """Answers what it was given."""

    type = "echo"
    waits = False

    one: Any = UNSET
    many: list[Any] | UnsetType = UNSET
    number: int | UnsetType = UNSET
    config: Opaque | UnsetType = UNSET
    prompt: Template | UnsetType = UNSET
    short: Annotated[str, Meta(max_length=3)] | UnsetType = UNSET

    def run(self, services):
        given = {name: getattr(self, name) for name in self.__struct_fields__}
        return {name: value for name, value in given.items() if value is not UNSET}


REGISTRY = STANDARD.with_checks([Echo])
DOCUMENT = {
    "test_case": {
        "id": "t",
        "input": "in",
        "expected": None,
        "list": [1, 2],
        "nested": [[1], [2]],
        "$.odd": 1,
    },
    "output": {"value": {"steps": [{"tool": "a"}, {"tool": "b"}], "empty": [], "text": "$.not.a.path"}},
}


def ask(arguments, type="echo", **options):
    bound = bind(Check(type=type, arguments=arguments), REGISTRY, "checks[0]")
    return run_check(bound, DOCUMENT, Services(), ResultOptions(**options))


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        ({"one": "$.test_case.input"}, {"one": "in"}),
        ({"one": "plain"}, {"one": "plain"}),
        ({"one": "$x"}, {"one": "$x"}),  # only `$.` begins a path
        ({"one": "$"}, {"one": "$"}),
        ({"one": "\\$.x"}, {"one": "$.x"}),  # the escape loses its backslash
        ({"one": "\\\\$.x"}, {"one": "\\\\$.x"}),
        ({"one": ["$.test_case.input"]}, {"one": ["$.test_case.input"]}),  # inside lists and objects: literal
        ({"one": {"a": "$.test_case.input"}}, {"one": {"a": "$.test_case.input"}}),
        ({"config": {"a": "$.x"}}, {"config": {"a": "$.x"}}),
        ({"prompt": "$.test_case.input"}, {"prompt": "$.test_case.input"}),  # a template is never a path
        ({"one": "$.test_case.expected"}, {"one": None}),  # null is a value (FEP-15)
        ({"one": "$.output.value.text"}, {"one": "$.not.a.path"}),  # what comes from a document is no path
        ({"many": "$.test_case.list"}, {"many": [1, 2]}),  # a single node that is a list is that list
        ({"many": "$.test_case.input"}, {"many": ["in"]}),
        ({"many": "$.output.value.steps[*].tool"}, {"many": ["a", "b"]}),
        ({"many": "$.output.value.empty"}, {"many": []}),
        ({"many": "$.output.value.empty[*]"}, {"many": []}),  # no node of a non-singular query
        ({"many": "$.test_case.nested[*]"}, {"many": [[1], [2]]}),
        ({"one": "$..tool"}, "several"),
        ({"one": "$.test_case.absent"}, "nothing"),
        ({"one": "$.output.value.empty[*]"}, "nothing"),
        ({"many": "$.test_case.absent"}, "nothing"),  # an absent node is an error (FEP-15)
        ({"one": "$.test_case["}, "malformed"),
    ],
)
def test_an_argument_is_a_literal_or_the_value_of_a_path(arguments, answer):
    result = ask(arguments)
    if isinstance(answer, dict):
        assert (result.status, result.results) == ("completed", answer)
    else:
        assert (result.status, result.results, result.error.type) == ("error", {}, "jsonpath_error")
        words = {"several": "finds 2 values", "nothing": "finds nothing", "malformed": "position 12"}
        assert words[answer] in result.error.message


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (
            {"actual": "$.test_case.input", "expected": "in"},
            {
                "actual": {"jsonpath": "$.test_case.input", "value": "in"},
                "expected": {"value": "in"},
                "negate": {"value": False},
                "case_sensitive": {"value": True},
            },
        ),
        ({"actual": 1, "expected": "\\$.x"}, {"actual": {"value": 1}, "expected": {"value": "$.x"}}),
    ],
)
def test_resolved_arguments_are_all_of_them_with_defaults(arguments, shown):
    result = ask(arguments, "exact_match")
    resolved = {
        name: {
            key: value
            for key, value in (("jsonpath", one.jsonpath), ("value", one.value))
            if value is not UNSET
        }
        for name, one in result.resolved_arguments.items()
    }
    assert resolved | shown == resolved
    assert list(resolved) == ["actual", "expected", "negate", "case_sensitive"]


def test_an_argument_without_a_value_or_a_default_is_left_out():
    result = ask({"value": 1, "min_value": 0}, "threshold")
    assert list(result.resolved_arguments) == [
        "value",
        "min_value",
        "min_inclusive",
        "max_inclusive",
        "negate",
    ]


def test_an_object_argument_is_shown_with_its_own_defaults():
    result = ask({"text": "a", "pattern": "A", "flags": {"case_insensitive": True}}, "regex")
    assert result.resolved_arguments["flags"].value == {
        "case_insensitive": True,
        "multiline": False,
        "dot_all": False,
    }


def test_resolved_arguments_can_be_left_out():
    assert ask({"one": 1}, resolved_arguments=False).resolved_arguments is UNSET


def test_an_errored_check_shows_what_it_did_resolve():
    result = ask({"one": "$.test_case.input", "many": "$.nowhere"})
    assert list(result.resolved_arguments) == ["one"]


@pytest.mark.parametrize("value", ["x", 1.5, True, None])
def test_a_resolved_value_of_the_wrong_type_is_a_validation_error(value):
    bound = bind(Check(type="echo", arguments={"number": "$.v"}), REGISTRY, "checks[0]")
    result = run_check(bound, {"v": value}, Services(), ResultOptions())
    assert (result.error.type, result.error.recoverable) == ("validation_error", False)
    assert result.error.message.startswith("number: expected a whole number")


def test_a_path_that_goes_too_far_says_which_limit():
    services = Services(limits=Limits(max_nodes=100))
    bound = bind(Check(type="exists", arguments={"path": "$..*"}), REGISTRY, "checks[0]")
    result = run_check(bound, {"a": [0] * 1000}, services, ResultOptions())
    assert result.error.type == "jsonpath_error"
    assert "100" in result.error.message


@pytest.mark.parametrize(
    ("check", "problems"),
    [
        (
            {"type": "vibes", "arguments": {}},
            ["checks[0].type: there is no check 'vibes'; there are answer_relevance, bleu, "],
        ),
        (
            {"type": "regex", "version": "one", "arguments": {}},
            [
                "checks[0].version: expected a semantic version such as '1.0.0', got 'one'",
                "checks[0].arguments.text: regex needs this argument",  # as far as the newest does
                "checks[0].arguments.pattern: regex needs this argument",
            ],
        ),
        (
            {"type": "regex", "version": "2.0.0", "arguments": {"text": "a", "pattern": "a"}},
            ["checks[0].version: there is no check 'regex@2.0.0'; there are regex@1.0.0"],
        ),
        (
            {"type": "contains", "arguments": {"txt": "a", "phrases": []}},
            [
                "checks[0].arguments.txt: contains takes no such argument; it takes text, phrases,",
                "checks[0].arguments.text: contains needs this argument",
                "checks[0].arguments.phrases: expected a list of length >= 1 but got a list of 0",
            ],
        ),
        ({"type": "contains", "arguments": {"text": "a", "phrases": [""]}}, ["phrases"]),  # FEP-21
        (
            {"type": "contains", "arguments": {"text": "a", "phrases": ["a", 1, ""]}},
            [
                "checks[0].arguments.phrases[1]: expected a string but got a whole number",
                "checks[0].arguments.phrases[2]: expected a string of length >= 1 but got ''",
            ],
        ),
        (
            {"type": "exact_match", "arguments": {"actual": None, "expected": 1}},
            ["actual: expected a text or a value that can be written as text but got null"],
        ),
        (
            {"type": "echo", "arguments": {"number": "7"}},
            ["checks[0].arguments.number: expected a whole number"],
        ),
        ({"type": "echo", "arguments": {"short": "longer"}}, ["length <= 3 but got 'longer'"]),
        (
            {
                "type": "regex",
                "arguments": {"text": "a", "pattern": "b", "flags": {"ascii": True, "multiline": "yes"}},
            },
            [
                "checks[0].arguments.flags.ascii: no such member; there are case_insensitive, multiline, dot_all",
                "checks[0].arguments.flags.multiline: expected true or false but got a string",
            ],
        ),
        (
            {"type": "regex", "arguments": {"text": "a", "pattern": "(", "flags": {"multiline": 1}}},
            [
                "checks[0].arguments.flags.multiline: expected true or false but got a whole number",
                "checks[0].arguments.pattern: ",
            ],
        ),
        (
            {
                "type": "llm_judge",
                "arguments": {"prompt": 1, "response_format": []},
            },  # its validate_literals reads the second
            ["checks[0].arguments.prompt: ", "checks[0].arguments.response_format: "],
        ),
    ],
)
def test_problems_that_concern_every_case_refuse_the_request_together(check, problems):
    with pytest.raises(InvalidRequest) as refusal:
        bind(Check(**check), REGISTRY, "checks[0]")
    messages = [str(problem) for problem in refusal.value.problems]
    assert len(messages) == len(problems)
    for one, words in zip(messages, problems, strict=True):
        assert words in one


def versioned(*versions):
    return [type("V", (Echo,), {"version": version}) for version in versions]


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        (None, "2.1.0"),
        ("1.0.0", "1.10.0"),  # the highest of that major
        ("1.9.0", "1.10.0"),
        ("1.10.0", "1.10.0"),
        ("1.11.0", None),  # not below the one asked for
        ("2.0.0", "2.1.0"),
        ("2.1.0-rc.1", "2.1.0"),
        ("3.0.0", None),
    ],
)
def test_a_version_pins_its_major(asked, found):
    registry = Registry(versioned("1.2.0", "1.10.0", "2.0.0-rc.1", "2.1.0"))
    if found is None:
        with pytest.raises(InvalidRequest, match=r"there are echo@1\.10\.0, echo@1\.2\.0"):
            registry.find("echo", asked)
    else:
        assert registry.find("echo", asked).version == found


def test_a_registry_is_a_value():
    before = STANDARD.types
    assert "echo" in STANDARD.with_checks([Echo]).types
    assert STANDARD.types == before


class NoType(Checker):
    def run(self, services):
        return {}


class NoRun(Checker):
    type = "norun"


class Twin(Echo):
    type = "exact_match"


class BadVersion(Echo):
    version = "1"


@pytest.mark.parametrize(
    ("checker", "words"),
    [
        (NoType, "no `type`"),
        (NoRun, "no `run`"),
        (Twin, " and assay.checks"),
        (BadVersion, "semantic version"),
    ],
)
def test_a_refused_registration_gives_its_reason(checker, words):
    with pytest.raises(UsageError, match=words):
        STANDARD.with_checks([checker])


def test_a_deferred_check_is_imported_when_its_type_is_used():
    table = {"refusal": "assay.checks.safety.refusal:Refusal", "away": "assay.no_such_module:Away"}
    registry = Registry(versioned("1.2.0"), deferred=table).with_checks(versioned("2.0.0"))
    assert {"away", "refusal"} < set(registry.types)
    assert registry.find("refusal", None).type == "refusal"
    with pytest.raises(ModuleNotFoundError):
        registry.find("away", None)
    with pytest.raises(UsageError, match=r"got refusal@2\.0\.0"):
        Registry(deferred={"refusal": table["refusal"]}).with_checks(
            [
                type(
                    "Refusal",
                    (Checker,),
                    {"type": "refusal", "version": "2.0.0", "run": lambda self, services: {}},
                )
            ]
        )
