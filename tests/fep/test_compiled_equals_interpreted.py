"""The law behind the speed: the compiled form gives the same bytes as the plain one, for anything."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay import evaluate_sync
from assay import jsonpath as paths
from assay.api.evaluation import DEFER_AFTER
from assay.cases import outcomes as case_outcomes
from assay.cases.fold import CaseFold
from assay.cases.outcomes import CheckLabels, outcomes_of, scored_outcomes
from assay.cases.table import indexes
from assay.checks import STANDARD
from assay.checks.checker import Checker, Text
from assay.checks.runner import ResultOptions
from assay.errors import InvalidRequest, ValueFault
from assay.fep.execution.inline import score_contexts
from assay.fep.outputs.csv_rows import row_writer
from assay.fep.outputs.table_layout import PLAIN, TableLayout
from assay.fep.outputs.table_sinks import csv_rows
from assay.fep.planning.plan import Plan
from assay.fep.planning.request import contexts_of
from assay.fep.planning.scorer import CompiledCase, ScoredCase
from assay.fep.records.service import EvaluationService, PlannedEvaluation
from assay.inputs.context import read_context
from assay.jsonpath.query import batch_getter
from assay.ports import Limits, Services
from assay.protocol.evaluation import Check
from assay.protocol.results import TestCaseResult
from assay.results.tally import Tally

NAMES = ["text", "n", "list", "a b", "é", ""]
WORDS = ["Paris", "paris", "REF-12345", "", "$.x", "aaaa", 'q"uote\\', "é\n", "1", "\x7f\u2028"]


ABOUT = [
    None,
    {},
    {"cost_usd": 0.25},
    {"latency_ms": 7},
    {"cost_usd": 0, "latency_ms": "7"},
    {"cost_usd": True},
]


OF_TABLE = TableLayout(
    {
        "question": ["test_case", "input"],
        "expected": ["test_case", "expected"],
        "ms": ["output", "metadata", "ms"],
    }
)


class Stopped:
    def now(self):
        return datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC)


class Mine(Checker):
    """A custom check that does not wait: sometimes an answer, sometimes a fault, sometimes a bug."""

    type = "mine"
    waits = False

    text: Text
    weight: int = 1

    def run(self, services):
        match len(self.text) % 5:
            case 0:
                return {"score": len(self.text) * self.weight, "kind": "x"}
            case 1:
                raise ValueFault("a fault of its own")
            case 2:
                return {"passed": "neither"}
            case 3:
                return {"score": float("nan"), "passed": True}
            case _:
                return {"passed": True, "why": None}


scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(WORDS)
    | st.text(max_size=5)
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4),
    max_leaves=10,
)
objects = st.dictionaries(st.sampled_from(NAMES), values, max_size=4)
contexts = st.builds(
    lambda case, output, expected, extra: {
        "test_case": {
            "id": "t",
            "input": 0,
            "expected": expected,
            **{f"x{key}": one for key, one in extra.items()},
        },
        "output": {"value": output, "metadata": case},
    },
    objects,
    values,
    values,
    objects,
)
steps = st.lists(
    st.sampled_from(
        [".text", ".n", ".list", "['a b']", "['é']", "['']", "[0]", "[-1]", "[*]", "..text", "[?@]", "[0:2]"]
    ),
    max_size=3,
)
places = st.builds(
    lambda root, rest: root + "".join(rest),
    st.sampled_from(
        ["$.output.value", "$.test_case.expected", "$.output.metadata", "$.test_case.xtext", "$.nowhere"]
    ),
    steps,
) | st.sampled_from(["$.", "$.output[", "$.output.value[?", "$..*"])
anything = places | values
flags = st.booleans() | places
parses = st.sampled_from(["json", "number", "$.test_case.xtext"])
some_of = lambda **optional: st.fixed_dictionaries({}, optional=optional)  # noqa: E731
patterns = st.sampled_from(["REF-\\d{5}", "^a+$", "p", "(", "[a-z]*é", "(a|b)?$", "\\bParis\\b"])


def arguments(required, **optional):
    return st.builds(lambda one, two: one | two, st.fixed_dictionaries(required), some_of(**optional))


checks = st.one_of(
    st.tuples(
        st.just("exact_match"),
        arguments({"actual": anything, "expected": anything}, negate=flags, case_sensitive=flags),
    ),
    st.tuples(
        st.just("contains"),
        arguments(
            {"text": anything, "phrases": st.lists(st.sampled_from(WORDS), max_size=3) | places},
            negate=flags,
            case_sensitive=flags,
        ),
    ),
    st.tuples(
        st.just("regex"),
        arguments(
            {"text": anything, "pattern": patterns | places},
            negate=flags,
            flags=some_of(case_insensitive=st.booleans(), multiline=st.booleans(), dot_all=st.booleans()),
        ),
    ),
    st.tuples(
        st.just("threshold"),
        arguments(
            {"value": anything},
            min_value=st.integers(-3, 3) | places,
            max_value=st.floats(-3, 3) | places,
            min_inclusive=flags,
            max_inclusive=flags,
            negate=flags,
            parse=parses,
        ),
    ),
    st.tuples(
        st.just("json_match"),
        arguments(
            {"actual": anything, "expected": anything},
            mode=st.sampled_from(["equal", "subset"]),
            parse=parses,
        ),
    ),
    st.tuples(st.just("exists"), arguments({"path": places}, negate=flags)),
    st.tuples(
        st.just("has_items"),
        arguments(
            {"items": st.lists(scalars, max_size=3) | places},
            required_items=st.lists(scalars, max_size=2),
            ordered=flags,
            parse=parses,
        ),
    ),
    st.tuples(
        st.just("json_schema"),
        arguments({"value": anything, "schema": st.just({"type": "string"}) | places}, parse=parses),
    ),
    st.tuples(st.just("mine"), arguments({"text": anything}, weight=st.integers(0, 3) | places)),
)
REGISTRY = STANDARD.with_checks([Mine])
SERVICES = Services(clock=Stopped(), limits=Limits(max_nodes=500))


@settings(max_examples=60)
@given(
    asked=st.lists(checks, max_size=4),
    documents=st.lists(contexts, min_size=1, max_size=3),
    shown=st.booleans(),
)
def test_compiled_is_plain(asked, documents, shown):
    listed = [
        Check(type=type, arguments=arguments, name=f"é{at}" if at % 2 else None)
        for at, (type, arguments) in enumerate(asked)
    ]
    good = []
    for check in listed:  # what is refused is refused before there are two forms
        try:
            Plan([check], REGISTRY, SERVICES)
            good.append(check)
        except InvalidRequest:
            continue
    plan = Plan(good, REGISTRY, SERVICES, ResultOptions(resolved_arguments=shown))
    scorer = plan.shared
    assert scorer is not None
    compiled, in_one, plain, deferred = Tally(), Tally(), Tally(), Tally()
    cases = [read_context(msgspec.json.encode(document), SERVICES.limits) for document in documents]
    lines = asyncio.run(score_contexts(plan, cases, in_one))
    writers = {}
    for context, line in zip(cases, lines, strict=True):
        one = scorer.begin(context, scorer.answers_in(compiled))
        assert isinstance(one, ScoredCase)
        two = scorer.score_interpreted(context, scorer.answers_in(plain))
        compiled.count_case(one.status)
        plain.count_case(two.status)
        assert one.line == two.line == line
        assert one.status == two.status
        three = scorer.begin(context, scorer.answers_in(deferred), deferred=True)
        assert isinstance(three, ScoredCase)
        deferred.count_case(three.status)
        assert (three.line, three.status) == (one.line, one.status)
        result = three.result()
        assert repr(result) == repr(msgspec.json.decode(one.line, type=TestCaseResult))
        assert not shared_containers(result)
        if isinstance(three, CompiledCase) and three.compiled.keeps_document:
            for layout in (PLAIN, OF_TABLE):
                if layout not in writers:
                    writers[layout] = row_writer(
                        three.compiled.checks, three.compiled.argument_indexes, layout
                    )
                expected = "".join(csv_rows(msgspec.json.decode(one.line), layout)).encode()
                for _ in range(2):  # the second time with the reasons that are constants
                    assert writers[layout](context.document, three.parts) == expected
            assert three.is_passed == all(check.results == {"passed": True} for check in result.check_results)
    records = [tally.record(final=True) for tally in (compiled, in_one, plain, deferred)]
    assert records[0] == records[1] == records[2] == records[3]


def shared_containers(result):
    """The lists and objects that are at two places of a result, or are constants of the checks."""
    seen = list[int]()

    def walk(value):
        if isinstance(value, dict | list):
            seen.append(id(value))
            for one in value.values() if isinstance(value, dict) else value:
                walk(one)
        elif isinstance(value, msgspec.Struct):
            for name in value.__struct_fields__:
                walk(getattr(value, name))

    walk(result)
    return len(seen) - len(set(seen))


def test_results_of_many_cases_share_nothing_that_can_be_changed():
    checks = [
        {"type": "contains", "arguments": {"text": "$.output.value.text", "phrases": ["a"]}, "name": "n"},
        {"type": "json_match", "arguments": {"actual": "$.output.value", "expected": {"text": "a"}}},
    ]
    cases = [{"id": f"{at}", "input": at} for at in range(DEFER_AFTER)]
    results = evaluate_sync(cases, [{"value": {"text": "a"}}] * len(cases), checks).results
    assert not shared_containers(results)
    assert results == [msgspec.json.decode(msgspec.json.encode(one), type=TestCaseResult) for one in results]


@given(
    answers=st.lists(
        st.tuples(st.sampled_from(WORDS[:4]), st.sampled_from(WORDS[:4])), min_size=1, max_size=6
    ),
    about=st.lists(st.sampled_from(ABOUT), min_size=6, max_size=6),
    types=st.lists(st.sampled_from(["exact_match", "contains"]), max_size=3),
)
def test_rows_of_compiled_results_are_those_of_their_lines(answers, about, types):
    texts = {"exact_match": ("actual", "expected"), "contains": ("text", "phrases")}
    listed = [
        Check(type=type, arguments=dict(zip(texts[type], ("$.output.value", "$.test_case.expected"), strict=True)))
        for type in types
    ]  # fmt: skip
    plan = Plan(listed, REGISTRY, SERVICES)
    documents = [
        {
            "test_case": {"id": f"{at}", "input": 0, "expected": expected},
            "output": {"value": value, **({} if more is None else {"metadata": more})},
        }
        for at, ((value, expected), more) in enumerate(zip(answers, about, strict=False))
    ]
    cases = [read_context(msgspec.json.encode(document), SERVICES.limits) for document in documents]
    tally = Tally()
    lines = asyncio.run(score_contexts(plan, cases, tally))
    fast, plain = scored_outcomes(tally, cases, lines), outcomes_of(lines, tally.spending)
    assert table(fast) == table(plain)


def test_the_table_of_cases_of_an_inline_run_does_not_read_its_lines_again(monkeypatch):
    checks = [Check(type="exact_match", arguments={"actual": "$.output.value", "expected": "1"})]
    cases = [{"id": str(at), "input": at} for at in range(300)]  # too many for the short statistics
    outputs = [{"value": str(at % 3), "metadata": {"cost_usd": at / 8}} for at in range(300)]
    store: Any = None
    service = EvaluationService(store, REGISTRY, SERVICES)
    planned = PlannedEvaluation(service.plan(checks), checks, None, len(cases))
    contexts = contexts_of(cases, outputs, SERVICES.limits)
    monkeypatch.setattr(case_outcomes, "outcomes_of", None)
    scored = asyncio.run(service.run_inline(planned, contexts, "t"))
    assert scored.entry.cases == CaseFold().add(0, outcomes_of(scored.lines))


def table(outcomes):
    """What each case of a row says: the numbers of patterns are free."""
    block = CheckLabels().block(0, outcomes)
    columns = outcomes.columns
    return [
        [columns.patterns[number] for number in indexes(columns)], columns.cost, columns.latency, columns.score,
        outcomes.labels, outcomes.spent, outcomes.unknown, msgspec.structs.replace(block, data=b""),
    ]  # fmt: skip


@given(
    names=st.lists(st.lists(st.sampled_from(NAMES), max_size=3).map(tuple), min_size=1, max_size=4),
    document=values,
)
def test_many_names_followed_together_are_each_followed_alone(names, document):
    queries = [
        paths.compile("$" + "".join(f"[{msgspec.json.encode(name).decode()}]" for name in one))
        for one in names
    ]
    assert [query.names for query in queries] == names
    gets = [query.get for query in queries]
    assert batch_getter(names, gets)(document) == [get(document) for get in gets]


@pytest.mark.parametrize(
    "line",
    [
        b'{"test_case": {"id": "a", "input": 1} , "output": {"value": 1}}',  # spaces are copied through
        b'{"output":{"value":2},"test_case":{"id":"a","input":1}}',  # and so is the order of members
    ],
)
def test_a_line_is_copied_into_its_result(line):
    scorer = Plan(
        [Check(type="exact_match", arguments={"actual": "$.output.value", "expected": 2})], REGISTRY
    ).shared
    assert scorer is not None
    scored = scorer.begin(read_context(line, Limits()), scorer.answers_in(Tally()))
    assert isinstance(scored, ScoredCase)
    assert b'"execution_context":' + line + b',"check_results"' in scored.line
