"""ngram_overlap: the scores of promptfoo. `make soak` asks promptfoo itself about random texts."""

import time

import pytest

import assay
from assay.checks.standard.ngram_overlap import MEASURES

SCORES = [  # the variant, text and references, and the score that promptfoo 0.121.20 gives
    ("bleu", "the cat sat on the mat", ["The cat sat on a mat."], 0.5081327481546147),
    ("bleu", "a b", ["a b c", "a"], 1),
    ("bleu", "a\xa0b\x85c", ["a b\x85c d"], 0.6065306597126334),
    ("bleu", "", ["a"], 0),
    ("gleu", "the cat sat...", ["The cat sat"], 1),
    ("gleu", "the cat on the mat", ["the cat sat on the mat", "a dog"], 0.5),
    ("gleu", "a b", ["b a"], 0.6666666666666666),
    ("rouge-n", '"No," he said.', ["``No,'' he said."], 1),
    ("rouge-n", "I cannot, it's 3:15 or 3,000.", ["I can not , it 's 3:15 or 3,000 ."], 1),
    ("rouge-n", "'Tis gonna be more'n fine...", ["'T is gon na be more 'n fine ..."], 1),
    ("rouge-n", "e.g. the U.S.", ["e.g. the U.S. ."], 0.8571428571428571),
    ("rouge-n", "a b", ["c"], 0),
]


def answer(*, text, references, **options):
    given = {"text": "$.output.value", "references": "$.test_case.expected", **options}
    case = {"id": "a", "input": "?", "expected": references}
    check = {"type": "ngram_overlap", "arguments": given}
    (result,) = assay.evaluate_sync([case], [{"value": text}], [check]).results
    return result.check_results[0].results


@pytest.mark.parametrize(("variant", "text", "references", "score"), SCORES)
def test_the_score_is_that_of_promptfoo(variant, text, references, score):
    found = answer(text=text, references=references, variant=variant)
    assert found == {"score": pytest.approx(score, abs=1e-12)}


def test_a_threshold_gives_a_verdict():
    options = {"text": "a b", "references": ["b a"], "variant": "gleu"}
    for bounds, passed in (
        ({"min_value": 0.7}, False),
        ({"min_value": 0.6}, True),
        ({"max_value": 0.5}, False),
    ):
        assert answer(**options, threshold=bounds)["passed"] is passed


@pytest.mark.parametrize("variant", MEASURES)
@pytest.mark.parametrize("part", ["a", "'", '"', ".)", "``", "' ", "can", "\u1d43", ":,", "a."])
def test_the_work_grows_with_the_length_of_the_text(variant, part):
    began = time.process_time()
    MEASURES[variant](part * (20_000 // len(part)), ["a b"])
    assert time.process_time() - began < 2
