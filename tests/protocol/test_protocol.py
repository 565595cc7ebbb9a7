"""The nouns of FEP 2 to 4: the text's own examples, round trips, schemas."""

import re
from datetime import UTC, datetime

import jsonschema_rs
import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from assay.protocol import schemas
from assay.protocol.evaluation import Check, EvaluationRequest, ExperimentMetadata, Output, TestCase
from assay.protocol.results import (
    CheckError,
    CheckResult,
    EvaluationRunResult,
    EvaluationSummary,
    ExecutionContext,
    ResolvedArgument,
    TestCaseResult,
    TestCaseSummary,
)
from support.spec_files import SHARED, needs_shared

# what the decisions correct in the text's examples, by the heading they stand under
ELIDED = ("# ... ]", "[# ...", "{# ...", "<we need")
NOUN_OF = {
    "2.1 Test Cases": TestCase,
    "2.2 Output Format": Output,
    "2.3.4 Check Result Format": CheckResult,
    "3.1 Core Evaluation Function": None,
    "3.2 Experiment Metadata Format": ExperimentMetadata,
    "4.1 Test Case Result Format": TestCaseResult,
    "4.2 Evaluation Run Result Format": EvaluationRunResult,
}


def blocks():
    """Every block of YAML in the text, with the heading of the section it stands in."""
    heading = ""
    for part in re.split(
        r"^(#+ .*|```.*)$", (SHARED / "spec" / "fep-0.0.1.md").read_text(), flags=re.MULTILINE
    ):
        if part.startswith("#"):
            title = re.sub(r"[*\\`]|\{#.*", "", part.lstrip("# ")).strip()
            heading = title if re.match(r"\d", title) else heading
        elif ":" in part and not part.lstrip().startswith("{") and "```" not in part:
            for piece in re.split(r"\n\n(?=# |value:)", part):
                yield heading, piece


def noun_of(heading, piece):
    if heading == "3.1 Core Evaluation Function":
        return EvaluationRequest if piece.lstrip().startswith("test_cases") else EvaluationRunResult
    if re.search(r"^test_cases:", piece, re.MULTILINE):
        return None  # two patterns in one block, evaluated in test_evaluate.py
    return Check if re.search(r"^type:", piece, re.MULTILINE) else NOUN_OF.get(heading)


def examples():
    """The examples of sections 2 to 4 that are whole, each with the noun it shows."""
    if not SHARED.exists():
        return []
    whole = [
        (noun_of(heading, piece), piece)
        for heading, piece in blocks()
        if re.match(r"\s*(#.*\n)*\s*[a-z_]+:", piece) and not any(sign in piece for sign in ELIDED)
    ]
    return [
        pytest.param(noun, piece, id=f"{noun.__name__}-{at}")
        for at, (noun, piece) in enumerate(whole)
        if noun
    ]


@needs_shared
@pytest.mark.parametrize(("noun", "text"), examples())
def test_the_examples_of_the_text_validate_and_round_trip(noun, text):
    document = yaml.safe_load(text)
    document.pop("test_case_id", None)  # FEP-7: shown in 4.1, forbidden by its schema
    read = msgspec.json.decode(msgspec.json.encode(document), type=noun)
    again = msgspec.json.decode(msgspec.json.encode(read))
    assert again == msgspec.json.decode(msgspec.json.encode(document))
    schema = msgspec.json.decode(schemas.schema_of(noun.__name__))
    jsonschema_rs.validator_for(schema).validate(again)


@needs_shared
def test_the_text_has_examples_of_every_noun():
    shown = {row.values[0] for row in examples()}
    assert {
        TestCase,
        Output,
        Check,
        CheckResult,
        ExperimentMetadata,
        TestCaseResult,
        EvaluationRunResult,
    } <= shown
    assert EvaluationRequest in shown
    assert len(examples()) >= 18


@pytest.mark.parametrize("name", schemas.NOUNS)
def test_every_noun_has_a_schema_that_is_one(name):
    schema = msgspec.json.decode(schemas.schema_of(name))
    jsonschema_rs.meta.validate(schema)
    assert schema["title"] == name


@pytest.mark.parametrize("noun", schemas.NOUNS.values(), ids=lambda noun: noun.__name__)
def test_every_noun_is_frozen(noun):
    assert noun.__struct_config__.frozen


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(st.text(), json_values, max_size=3)
moments = st.datetimes(min_value=datetime(1970, 1, 1), max_value=datetime(2100, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001
check_results = st.builds(
    CheckResult,
    check_type=st.text(min_size=1),
    status=st.sampled_from(["completed", "error", "skip"]),
    results=objects,
    resolved_arguments=st.dictionaries(st.text(), st.builds(ResolvedArgument, value=json_values), max_size=2)
    | st.just(msgspec.UNSET),
    evaluated_at=moments,
    metadata=objects | st.just(msgspec.UNSET),
    error=st.builds(CheckError, type=st.just("timeout_error"), message=st.text(), recoverable=st.booleans())
    | st.just(msgspec.UNSET),
)
counts = st.integers(0, 9)
case_results = st.builds(
    TestCaseResult,
    status=st.sampled_from(["completed", "error", "skip"]),
    execution_context=st.builds(ExecutionContext, test_case=objects, output=objects),
    check_results=st.lists(check_results, max_size=2),
    summary=st.builds(
        TestCaseSummary,
        total_checks=counts,
        completed_checks=counts,
        error_checks=counts,
        skipped_checks=counts,
    ),
)
run_results = st.builds(
    EvaluationRunResult,
    evaluation_id=st.text(),
    started_at=moments,
    completed_at=moments,
    status=st.sampled_from(["completed", "error", "skip"]),
    summary=st.builds(
        EvaluationSummary,
        total_test_cases=counts,
        completed_test_cases=counts,
        error_test_cases=counts,
        skipped_test_cases=counts,
    ),
    results=st.lists(case_results, max_size=2),
)


@given(result=run_results)
def test_a_run_result_survives_the_wire(result):
    wire = msgspec.json.encode(result)
    assert msgspec.json.decode(wire, type=EvaluationRunResult) == result
    jsonschema_rs.validator_for(msgspec.json.decode(schemas.schema_of("EvaluationRunResult"))).validate(
        msgspec.json.decode(wire)
    )


@pytest.mark.parametrize(
    ("noun", "document", "place"),
    [
        (TestCase, {"input": "x"}, "id"),
        (TestCase, {"id": 7, "input": "x"}, "id"),
        (Output, {"id": "o"}, "value"),
        (Check, {"type": "regex"}, "arguments"),
        (Check, {"type": "regex", "arguments": {}, "weight": 1}, "weight"),  # checks are closed (FEP-10)
        (ExperimentMetadata, {"name": "n", "owner": "me"}, "owner"),
        (TestCaseResult, {"test_case_id": "t"}, "test_case_id"),  # FEP-7
    ],
)
def test_a_document_of_another_type_is_refused_with_its_place(noun, document, place):
    with pytest.raises(msgspec.ValidationError, match=place):
        msgspec.json.decode(msgspec.json.encode(document), type=noun)
