"""xml: what it says beside its verdict, and its limits. The verdicts of promptfoo are in the samples of the import."""

import time

import pytest

import assay
from assay.checks.markup.elements import read_elements
from assay.checks.markup.tree import MOST_ELEMENTS
from assay.errors import ValueFault

BOMB = "<!DOCTYPE a [<!ENTITY b 'bb'><!ENTITY c '&b;&b;'>]><a>&c;</a>"


def result(text, **options):
    check = {"type": "xml", "arguments": {"text": "$.output.value", **options}}
    (found,) = assay.evaluate_sync([{"id": "a", "input": "?"}], [{"value": text}], [check]).results
    return found.check_results[0]


@pytest.mark.parametrize(
    ("text", "options", "answer"),
    [
        ("<a><b/></a>", {"required": ["a.b"]}, {"passed": True}),
        ("<a/>", {"required": ["a", "a.b", "c"]}, {"passed": False, "missing": ["a.b", "c"]}),
        ("<a/>", {"required": ["b"], "negate": True}, {"passed": True, "missing": ["b"]}),
        ("<a>", {}, {"passed": False, "problem": "no element found: line 1, column 3"}),
        (BOMB, {}, {"passed": False, "problem": "its DOCTYPE has declarations"}),
        (BOMB, {"negate": True}, {"passed": True, "problem": "its DOCTYPE has declarations"}),
        ('<!DOCTYPE a SYSTEM "file:///etc/passwd"><a>&b;</a>', {}, {"passed": True}),
        ("a < b", {"contained": True}, {"passed": False, "problem": "there is no element in the text"}),
        ("<?p?>", {"contained": True}, {"passed": False, "problem": "there is no element in the text"}),
        (
            "<p><a/></q> <b/>",
            {"contained": True, "required": ["a", "c"]},
            {"passed": False, "missing": ["c"]},
        ),
        ("<p/>" + " " * 20_000, {"required": ["p"]}, {"passed": True}),  # in a worker process
    ],
)
def test_an_answer_says_what_is_missing(text, options, answer):
    assert result(text, **options).results == answer


def test_a_text_with_too_many_elements_is_not_measured(monkeypatch):
    found = result("<a>" + "<b/>" * MOST_ELEMENTS + "</a>")
    assert (found.status, found.error.message) == (
        "error",
        "text: expected at most 200,000 elements, got more",
    )
    monkeypatch.setattr("assay.checks.markup.tree.MOST_ELEMENTS", 2)
    with pytest.raises(ValueFault, match="at most 2 elements"):
        read_elements("<a/> <b/> <c/>")


PARTS = [
    "<a ",
    "<a>",
    "<a x='",
    '<a x="',
    "<!--",
    "<![CDATA[",
    "<?",
    "<!x [",
    "</a>",
    "<",
    "<a b=",
    " ",
    "<a =' ",
]


@pytest.mark.parametrize("part", PARTS)
def test_the_time_to_find_elements_grows_with_the_text(part):
    text = part * (100_000 // len(part))
    started = time.process_time()
    read_elements(text)
    read_elements(f"<a {text}>")
    assert time.process_time() - started < 3
