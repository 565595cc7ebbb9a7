"""Checks that measure texts: tables, laws against the definitions and the libraries, and long texts in a worker process."""

import math
import re
import string
from collections import Counter
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rapidfuzz import fuzz
from rapidfuzz.distance import OSA, Levenshtein
from sacrebleu import sentence_bleu

from assay.checks import STANDARD
from assay.checks.arguments import bind, build
from assay.checks.runner import ResultOptions, run_check
from assay.checks.standard import rouge as rouges
from assay.checks.standard.measure import INLINE_CHARACTERS
from assay.checks.standard.number import numbers_in
from assay.checks.worker_tasks import WorkerTask, run_tasks
from assay.errors import InvalidRequest, TimeFault
from assay.ports import Services
from assay.protocol.evaluation import Check
from support.checks.results_schemas import fits

SERVICES = Services()
plain = st.text(alphabet="ab ,.'T\u00e9\n1", max_size=30)
sentence = st.lists(st.sampled_from(["a", "the", "cat", "Cat.", "dog", "sat", "on", "(mat)", "1.5"]), max_size=12).map(" ".join)  # fmt: skip


def made(type, **arguments):
    """The check with these arguments; the texts are values of paths, so that none is taken for a path."""
    paths = {name: f"$.{name}" for name in arguments if name in ("text", "expected", "references")}
    bound = bind(Check(type=type, arguments={**arguments, **paths}), STANDARD, "checks[0]")
    return bound, {name: arguments[name] for name in paths}


def ask(type, **arguments):
    bound, document = made(type, **arguments)
    return fits(run_check(bound, document, SERVICES, ResultOptions()))


def answer(type, **arguments):
    result = ask(type, **arguments)
    assert result.status == "completed", result.error
    return result.results


def direct(type, **arguments):
    """The answer in this process, whatever the size."""
    bound, values = made(type, **arguments)
    check = build(bound, values)
    found = check.answer(SERVICES)
    return check.judge(found) if hasattr(check, "judge") else found


# number


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("The total is 42.", ["42"]),
        ("-5, − 5, +5 and −7", ["-5", "5", "5", "-7"]),
        ("1,234.50 and 1,234,567", ["1234.50", "1234567"]),
        ("12,34 and 1,2,3", ["12", "34", "1", "2", "3"]),
        ("1'234 1’234 1_234 1\u202f234", ["1234", "1234", "1234", "1234"]),
        ("1 234", ["1", "234"]),
        (".5 and 0.5.", [".5", "0.5"]),
        ("$1,234, -$5, €3 (-2)", ["1234", "-5", "3", "-2"]),
        ("5-3 on 2024-05-01", ["5", "3", "2024", "05", "01"]),
        ("3.5k, 2K, 4 thousand, 1.2 million, 3M, 5bn, 2 billion", ["3500", "2000", "4000", "1200000", "3000000", "5e9", "2e9"]),
        ("5km, 5 m, 5m, 5kg, 5MB", ["5", "5", "5", "5", "5"]),
        ("1e3, 2.5E-2, 7e", ["1e3", "2.5e-2", "7"]),
        ("CO2, v2, Q4 and x=3", ["3"]),
        ("12%", ["12"]),
        ("#### 72", ["72"]),
        ("1.2.3", ["1.2", "3"]),
        ("1e999", []),
        ("no number", []),
        ("", []),
        ("9" * 401, []),
        ("٤٢", []),
    ],
)  # fmt: skip
def test_numbers_of_a_text(text, found):
    assert list(numbers_in(text)) == [Decimal(one) for one in found]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("1.234,5 und 3,25", ["1234.5", "3.25"]),
        ("1.5", ["1", "5"]),
        (",5", ["0.5"]),
        ("1.000.000", ["1000000"]),
    ],
)
def test_numbers_with_a_decimal_comma(text, found):
    assert list(numbers_in(text, ",")) == [Decimal(one) for one in found]


@pytest.mark.parametrize(
    ("text", "expected", "options", "passed"),
    [
        ("so it is 42", 42, {}, True),
        ("so it is 42.0", "42", {}, True),
        ("first 1, then 42", 42, {}, True),
        ("first 42, then 1", 42, {}, False),
        ("first 42, then 1", 42, {"pick": "first"}, True),
        ("42 is 42.0", 42, {"pick": "only"}, True),
        ("42 or 43", 43, {"pick": "only"}, False),
        ("0.1", 0.1, {}, True),
        ("0.30000000000000004", 0.3, {}, False),
        ("0.30000000000000004", 0.3, {"absolute": 1e-9}, True),
        ("3.14", 3.14159, {"absolute": 0.01}, True),
        ("3.15", 3.14, {"absolute": 0.01}, True),
        ("105", 100, {"relative": 0.05}, True),
        ("106", 100, {"relative": 0.05}, False),
        ("about 1.2 million", "1,200,000", {}, True),
        ("about 1.2 million", 1.2, {"scales": False}, True),
        ("7 + 5 = 12 #### 12", "7+5 #### 12", {"after": "####"}, True),
        ("12", 12, {"after": "####"}, False),
        ("none here", 0, {}, False),
        ("none here", 0, {"negate": True}, False),
        ("5", 4, {"negate": True}, True),
        (42, 42, {}, True),
        (-0.5, "-.5", {}, True),
    ],
)
def test_number(text, expected, options, passed):
    found = answer("number", text=text, expected=expected, **options)
    assert found["passed"] is passed
    assert found["reason"]


@pytest.mark.parametrize("expected", ["no number", "1 or 2", {"a": "b"}, ""])
def test_an_expected_value_that_is_not_one_number_is_an_error_and_no_score(expected):
    result = ask("number", text="42", expected=expected)
    assert (result.status, result.error.type, result.results) == ("error", "validation_error", {})
    with pytest.raises(InvalidRequest, match=r"checks\[0\].arguments.expected: expected one number"):
        bind(Check(type="number", arguments={"text": "$.a", "expected": expected}), STANDARD, "checks[0]")


@given(
    number=st.floats(allow_nan=False, allow_infinity=False, width=32) | st.integers(-(10**12), 10**12),
    other=st.floats(-1e6, 1e6),
    relative=st.floats(0, 1),
    absolute=st.floats(0, 10),
)
def test_a_tolerance_is_that_of_isclose_with_a_share_of_the_expected_number(
    number, other, relative, absolute
):
    found = answer(
        "number", text=f"It is {number!r}, I think", expected=other, relative=relative, absolute=absolute
    )
    allowed = max(absolute, relative * abs(other))
    if not math.isclose(abs(number - other), allowed, rel_tol=1e-9, abs_tol=1e-9):
        assert found["passed"] is (abs(number - other) <= allowed)
    assert found["number"] == pytest.approx(number)


@given(st.integers(0, 10**15), st.sampled_from([",", "'", "_"]))
def test_a_number_with_separators_is_the_number(number, mark):
    assert list(numbers_in(f"x {number:,} y".replace(",", mark))) == [number]


# choice


@pytest.mark.parametrize(
    ("text", "options", "chosen"),
    [
        ("B", {}, ["B"]),
        (" (b). ", {}, ["B"]),
        ("**B**", {}, ["B"]),
        ("B) Paris", {}, ["B"]),
        ("B. Paris", {}, ["B"]),
        ("A, C", {}, ["A", "C"]),
        ("ANSWER: B", {}, ["B"]),
        ("Answer: (b)", {}, ["B"]),
        ("A looks right. But the answer is **C**.", {}, ["C"]),
        ("The correct answer is option D", {}, ["D"]),
        ("answer: A\nOn reflection, answer: B", {}, ["B"]),
        ("The answers are A and C.", {}, ["A", "C"]),
        ("ANSWER: A,C", {}, ["A", "C"]),
        (r"So \boxed{B}", {}, ["B"]),
        (r"So $\boxed{\text{B}}$", {}, ["B"]),
        ("I would take (B) here", {}, ["B"]),
        ("between (A) and (B)", {}, []),
        ("I choose B", {}, ["B"]),
        ("A good guess is B", {}, ["B"]),
        ("It is Paris.", {"choices": ["Rome", "Paris"]}, ["B"]),
        ("It is New York City", {"choices": ["York", "New York City"]}, ["B"]),
        ("It is Parisian", {"choices": ["Rome", "Paris"]}, []),
        ("Rome or Paris", {"choices": ["Rome", "Paris"]}, []),
        ("yes", {"labels": ["yes", "no"]}, ["yes"]),
        ("The answer is no.", {"labels": ["yes", "no"]}, ["no"]),
        ("answer: nothing", {"labels": ["yes", "no"]}, []),
        ("2", {"labels": ["1", "2", "3"]}, ["2"]),
        ("the answer is 12", {"labels": ["1", "2", "3"]}, []),
        ("", {}, []),
        ("the answer is unclear", {}, []),
    ],
)  # fmt: skip
def test_choice(text, options, chosen):
    label = options.get("labels", ["A"])[0]
    found = answer("choice", text=text, expected=[label], **options)
    assert found["chosen"] == chosen
    assert found["passed"] is (chosen == [label])


@pytest.mark.parametrize(
    ("expected", "text", "passed"),
    [
        ("B", "B", True),
        (["A", "C"], "C and A", True),
        (["A", "C"], "A", False),
        ("Paris", "B", True),
        ("B", "Paris", True),
    ],
)
def test_the_expected_choice_is_a_label_or_a_text(expected, text, passed):
    expected = expected if isinstance(expected, list) else [expected]
    found = answer("choice", text=text, expected=expected, choices=["Rome", "Paris", "Bonn"])
    assert found["passed"] is passed


def test_a_text_without_a_choice_does_not_pass_either_way():
    assert [answer("choice", text="?", expected=["A"], negate=one)["passed"] for one in (False, True)] == [
        False,
        False,
    ]
    assert answer("choice", text="B", expected=["A"], negate=True)["passed"] is True


@pytest.mark.parametrize(
    ("arguments", "place"),
    [
        ({"expected": ["Z"]}, "expected"),
        ({"expected": []}, "expected"),
        ({"expected": ["a"], "labels": ["a", "A"]}, "labels"),
        ({"expected": ["a"], "labels": ["a", "b", "c"], "choices": ["x", "y"]}, "labels"),
    ],
)
def test_a_choice_that_cannot_be_is_refused(arguments, place):
    with pytest.raises(InvalidRequest, match=rf"checks\[0\].arguments.{place}: expected"):
        bind(Check(type="choice", arguments={"text": "$.t", **arguments}), STANDARD, "checks[0]")


@given(st.text(max_size=60), st.sampled_from("ABCD"))
def test_a_statement_at_the_end_decides_whatever_stands_before_it(before, label):
    assert answer("choice", text=f"{before}\nANSWER: {label}", expected=[label])["chosen"] == [label]


# f1: as the evaluation script of SQuAD 2.0


def squad_tokens(text):
    text = "".join(one for one in text.lower() if one not in set(string.punctuation))
    return " ".join(re.compile(r"\b(a|an|the)\b", re.UNICODE).sub(" ", text).split()).split()


def squad_f1(gold, prediction):
    gold, prediction = squad_tokens(gold), squad_tokens(prediction)
    if not gold or not prediction:
        return int(gold == prediction)
    same = sum((Counter(gold) & Counter(prediction)).values())
    if same == 0:
        return 0
    precision, recall = same / len(prediction), same / len(gold)
    return 2 * precision * recall / (precision + recall)


@given(sentence | plain, st.lists(sentence | plain, min_size=1, max_size=3))
def test_f1_is_that_of_squad(text, references):
    found = answer("f1", text=text, references=references)
    assert found["score"] == pytest.approx(max(squad_f1(one, text) for one in references))
    assert found["exact"] is any(squad_tokens(one) == squad_tokens(text) for one in references)
    assert answer("f1", text=text, references=references, mode="exact")["score"] == float(found["exact"])


# edit_distance, rouge and bleu: as their libraries


@given(plain, st.lists(plain, min_size=1, max_size=3))
def test_edit_distance_is_that_of_rapidfuzz(text, references):
    found = answer("edit_distance", text=text, references=references)
    assert found["score"] == pytest.approx(
        max(Levenshtein.normalized_similarity(text, one) for one in references)
    )
    assert found["distance"] in [Levenshtein.distance(text, one) for one in references]
    indel = answer("edit_distance", text=text, references=references, metric="indel")
    assert indel["score"] == pytest.approx(max(fuzz.ratio(text, one) for one in references) / 100)
    osa = answer("edit_distance", text=text, references=references, metric="osa")
    assert osa["score"] == pytest.approx(max(OSA.normalized_similarity(text, one) for one in references))


@pytest.mark.parametrize(
    ("options", "passed"),
    [
        ({"max_distance": 3}, True),
        ({"max_distance": 2}, False),
        ({"threshold": {"min_value": 0.5}}, True),
        ({"threshold": {"min_value": 0.6}}, False),
        ({"max_distance": 3, "threshold": {"min_value": 0.6}}, False),
        ({}, None),
    ],
)
def test_the_bounds_of_a_distance(options, passed):
    found = answer("edit_distance", text="kitten", references=["sitting"], **options)
    assert (found["distance"], found.get("passed")) == (3, passed)
    assert re.fullmatch(r"rapidfuzz \d+\.\d+\.\d+", found["metadata"]["library"])


def common_sequence(left, right):
    lengths = [0] * (len(right) + 1)
    for one in left:
        before = 0
        for at, other in enumerate(right, 1):
            before, lengths[at] = (
                lengths[at],
                before + 1 if one == other else max(lengths[at], lengths[at - 1]),
            )
    return lengths[-1]


@given(sentence, sentence)
def test_the_longest_common_sequence_is_that_of_the_definition(text, reference):
    words, expected = rouges.words_in(text), rouges.words_in(reference)
    common = common_sequence(words, expected)
    found = answer("rouge", text=text, references=[reference])
    assert found["precision"] == pytest.approx(common / len(words) if words else 0)
    assert found["recall"] == pytest.approx(common / len(expected) if expected else 0)


ROUGE = [  # text, reference, and the F of rouge1, rouge2, rouge3 and rougeL of rouge-score 0.1.2
    ("the cat sat on the mat", "the cat lay on the mat", 0.833333333333, 0.6, 0.25, 0.833333333333),
    ("The quick brown fox jumps over the lazy dog", "The quick brown dog jumps on the log.", 0.705882352941, 0.266666666667, 0.153846153846, 0.588235294118),
    ("a a a b", "a b b a", 0.75, 0.333333333333, 0.0, 0.5),
    ("Straße 12, Köln!", "strasse 12 koln", 0.25, 0.0, 0.0, 0.25),
    ("", "a", 0.0, 0.0, 0.0, 0),
    ("it's 3.14", "its 3 14", 0.571428571429, 0.4, 0.0, 0.571428571429),
    ("one two three four", "four three two one", 1.0, 0.0, 0.0, 0.25),
]  # fmt: skip


@pytest.mark.parametrize(("text", "reference", "scores"), [(row[0], row[1], row[2:]) for row in ROUGE])
def test_rouge_is_that_of_rouge_score(text, reference, scores):
    variants = ("rouge1", "rouge2", "rouge3", "rougeL")
    found = [answer("rouge", text=text, references=[reference], variant=one)["score"] for one in variants]
    assert found == pytest.approx(list(scores))


@settings(max_examples=15)
@given(
    st.lists(
        st.tuples(sentence | plain, st.lists(sentence | plain, min_size=1, max_size=3)),
        min_size=4,
        max_size=4,
    )
)
@pytest.mark.parametrize(("tokenize", "smooth", "case"), [("13a", "exp", True), ("char", "floor", False)])
def test_bleu_is_that_of_sacrebleu(tokenize, smooth, case, rows):
    for text, references in rows:
        options = {"tokenize": tokenize, "smooth": smooth, "case_sensitive": case}
        known = sentence_bleu(text, references, smooth_method=smooth, tokenize=tokenize, lowercase=not case)
        assert direct("bleu", text=text, references=references, **options)["score"] == pytest.approx(
            known.score / 100
        )


def test_bleu_says_its_library_and_its_signature():
    found = answer(
        "bleu",
        text="the cat sat on the mat",
        references=["the cat sat on a mat"],
        threshold={"min_value": 0.5},
    )
    assert found["passed"] is True
    assert re.fullmatch(r"sacrebleu \d+\.\d+\.\d+", found["metadata"]["library"])
    assert found["metadata"]["signature"].startswith("nrefs:1|case:mixed|eff:yes|tok:13a|smooth:exp|version:")


# long texts


LONG = {
    "number": {"text": "1 " * INLINE_CHARACTERS, "expected": 1},
    "choice": {"text": "x " * INLINE_CHARACTERS + "ANSWER: B", "expected": ["B"]},
    "f1": {"text": "the cat " * INLINE_CHARACTERS, "references": ["a cat"], "threshold": {"max_value": 0.5}},
    "edit_distance": {"text": "ab" * INLINE_CHARACTERS, "references": ["a"], "threshold": {"max_value": 0.5}},
    "rouge": {"text": "a b " * INLINE_CHARACTERS, "references": ["a b"], "threshold": {"max_value": 0.5}},
    "bleu": {"text": "the cat sat on the mat", "references": ["the cat sat on the mat"], "threshold": {"min_value": 0.9}},
}  # fmt: skip


@pytest.mark.parametrize("type", LONG)
def test_a_long_text_is_measured_in_a_worker_process_with_the_same_answer(type):
    bound, values = made(type, **LONG[type])
    check = build(bound, values)
    task = check.run(SERVICES)
    assert isinstance(task, WorkerTask)
    (found,) = run_tasks([task])
    assert found == direct(type, **LONG[type])
    assert found["passed"] is True


def test_texts_that_take_too_long_are_not_measured(monkeypatch):
    monkeypatch.setattr("assay.checks.worker_tasks.SECONDS", 0.2)
    bound, values = made("edit_distance", text="ab" * 300_000, references=["ba" * 300_000])
    (found,) = run_tasks([build(bound, values).run(SERVICES)])
    assert isinstance(found, TimeFault)


@pytest.mark.parametrize(
    ("type", "package"), [("edit_distance", "rapidfuzz"), ("rouge", "rapidfuzz"), ("bleu", "sacrebleu")]
)
def test_a_check_without_its_library_is_refused_with_the_command_that_installs_it(type, package, monkeypatch):
    monkeypatch.setattr("assay.extras._is_installed", lambda module: module != package)
    with pytest.raises(InvalidRequest) as refused:
        bind(Check(type=type, arguments={"text": "a", "references": ["b"]}), STANDARD, "checks[0]")
    assert f"the check {type} needs {package}: pip install 'openassay[text]'" in str(refused.value)
