"""The base class of detectors: what it reads, what it answers, and what cannot be registered."""

import re
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay import STANDARD, Services
from assay.checks.arguments import bind
from assay.checks.runner import ResultOptions, run_check
from assay.checks.safety import detector
from assay.checks.safety.detector import (
    INLINE_CHARACTERS,
    MAX_FINDINGS,
    Detection,
    Detector,
    is_long,
    texts_in,
)
from assay.checks.worker_tasks import WorkerTask
from assay.errors import UsageError
from assay.protocol.evaluation import Check
from support.checks.results_schemas import fits

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda part: st.lists(part, max_size=3) | st.dictionaries(st.text(max_size=5), part, max_size=3),
    max_leaves=8,
)


class Bang(Detector):
    type = "bang"
    kind = "bang-mark"
    severity = "low"
    waits = False
    task_arguments = {"text": "$.output.value"}  # noqa: RUF012  # declared a ClassVar in SafetyCheck

    text: Any
    mark: str = "!"

    def detections(self, services: Services) -> list[Detection]:
        return [
            Detection(where, match.start(), match.end(), "mark")
            for where, text in texts_in("text", self.text)
            for match in re.finditer(re.escape(self.mark), text)
        ]


def texts_plainly(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, list):
        return [text for part in value for text in texts_plainly(part)]
    if isinstance(value, dict):
        return [text for name, part in value.items() for text in (name, *texts_plainly(part))]
    return []


@settings(max_examples=50)
@given(JSON)
def test_a_detector_reads_every_text_of_a_value_once(value):
    places = list(texts_in("text", value))
    assert [text for _, text in places] == texts_plainly(value)
    assert len({where for where, _ in places}) == len(places)
    assert is_long(value) is False
    found = Bang(text=value).run(Services())
    assert isinstance(found, dict)
    assert found["passed"] is ("!" not in "".join(texts_plainly(value)))


def test_a_place_is_a_path_into_the_argument():
    value = {"a": ["x!", {"b c": "y!"}], "it's": "!", "!": None}
    answer = Bang(text=value).answer(Services())
    assert [one["where"] for one in answer["findings"]] == [
        "text.a[0]",
        "text.a[1]['b c']",
        r"text['it\'s']",
        "text['!']~",
    ]
    assert answer["findings"][0] == {"where": "text.a[0]", "start": 1, "end": 2, "rule": "mark"}
    assert (answer["kind"], answer["severity"], answer["passed"]) == ("bang-mark", "low", False)


def test_an_answer_lists_the_first_findings_and_counts_the_rest():
    registry = STANDARD.with_checks([Bang])
    bound = bind(Check(type="bang", arguments={"text": "$.output.value"}), registry, "checks[0]")
    result = run_check(bound, {"output": {"value": "!" * 250}}, Services(), ResultOptions())
    fits(result, Bang)
    assert (len(result.results["findings"]), result.results["more"]) == (MAX_FINDINGS, 250 - MAX_FINDINGS)


@pytest.mark.parametrize(
    "value", ["x" * (INLINE_CHARACTERS + 1), {"k" * INLINE_CHARACTERS: "vv"}, [["x"]] * INLINE_CHARACTERS]
)
def test_a_long_value_is_offloaded(value):
    assert isinstance(Bang(text=value).run(Services()), WorkerTask)

    class Waiting(Bang):
        type = "waiting_bang"
        waits = True

    answer = Waiting(text="!" + "x" * INLINE_CHARACTERS).run(Services())
    assert isinstance(answer, dict)
    assert answer["passed"] is False


class NoKind(Bang):
    type, kind = "a", ""


class OddKind(Bang):
    type, kind = "a", "Not A Kind"


class OddSeverity(Bang):
    type, severity = "a", "awful"  # pyright: ignore[reportAssignmentType]


class NoSeverity(Detector):
    type, kind = "a", "a"

    def detections(self, services: Services) -> list[Detection]:
        return []


class NoDetections(Detector):
    type, kind, severity = "a", "a", "low"


class OddArguments(Bang):
    type = "a"
    task_arguments = {"output": "$.output.value"}  # noqa: RUF012


@pytest.mark.parametrize(
    ("checker", "words"),
    [
        (NoKind, "kind: expected words"),
        (OddKind, "got 'Not A Kind'"),
        (OddSeverity, "severity: expected one of low, medium, high, critical, got 'awful'"),
        (NoSeverity, "severity: expected one of low, medium, high, critical, got None"),
        (NoDetections, "no `detections`"),
        (OddArguments, r"task_arguments: expected an object with arguments of the check \(text, mark\)"),
    ],
)
def test_a_detector_without_a_valid_kind_and_severity_cannot_be_registered(checker, words):
    with pytest.raises(UsageError, match=words):
        STANDARD.with_checks([checker])


def test_the_tables_have_the_base_classes():
    assert msgspec.json.decode(msgspec.json.encode(detector.FINDINGS_SCHEMA))
    for one in STANDARD:
        if issubclass(one, Detector):
            assert one.type == one.kind.replace("-", "_")
            assert one.task_arguments
