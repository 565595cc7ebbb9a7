"""Assertions of promptfoo with outputs, and what promptfoo says of each; `make soak` asks promptfoo itself."""

SCHEMA = {"type": "object", "required": ["a"], "properties": {"a": {"type": "integer"}}}
VERDICTS = [  # the type, its other members, the output, whether it passes
    ("equals", {"value": "Paris"}, "Paris", True),
    ("equals", {"value": "Paris"}, "paris", False),
    ("equals", {"value": 4}, "4", True),
    ("equals", {"value": "{{ city }}"}, "Rome", True),
    ("equals", {"value": {"a": [1, 2]}}, '{"a": [1, 2]}', True),
    ("equals", {"value": {"a": [1, 2]}}, '{"a": [2, 1]}', False),
    ("equals", {"value": "$.99"}, "$.99", True),
    ("not-equals", {"value": "Paris"}, "Rome", True),
    ("contains", {"value": "ari"}, "Paris", True),
    ("contains", {"value": "ARI"}, "Paris", False),
    ("contains", {"value": 4.0}, "24", True),
    ("not-contains", {"value": "Lima"}, "Paris", True),
    ("icontains", {"value": "ARI"}, "Paris", True),
    ("not-icontains", {"value": "ARI"}, "Paris", False),
    ("contains-all", {"value": ["a", "b"]}, "abc", True),
    ("contains-all", {"value": ["a", "z"]}, "abc", False),
    ("contains-all", {"value": 'a, "b,c"'}, "a b,c", True),
    ("not-contains-all", {"value": ["a", "z"]}, "abc", True),
    ("not-contains-all", {"value": ["a", "b"]}, "abc", False),
    ("not-contains-all", {"value": ["a", "b"]}, "b\na", False),
    ("icontains-all", {"value": ["A", "B"]}, "abc", True),
    ("not-icontains-all", {"value": ["A", "B"]}, "abc", False),
    ("contains-any", {"value": ["x", "b"]}, "abc", True),
    ("contains-any", {"value": ["x", "a.c"]}, "abc", False),
    ("contains-any", {"value": "x, b"}, "abc", True),
    ("not-contains-any", {"value": ["x", "b"]}, "abc", False),
    ("not-contains-any", {"value": ["x", "y"]}, "abc", True),
    ("icontains-any", {"value": ["X", "B"]}, "abc", True),
    ("not-icontains-any", {"value": ["X", "B"]}, "abc", False),
    ("not-icontains-any", {"value": ["X", "Y"]}, "abc", True),
    ("starts-with", {"value": "Pa."}, "Pa.ris", True),
    ("starts-with", {"value": "Pa."}, "Paris", False),
    ("not-starts-with", {"value": "Pa"}, "The Paris", True),
    ("regex", {"value": r"^\d{2}$"}, "42", True),
    ("regex", {"value": r"^\d{2}$"}, "42\n", False),
    ("regex", {"value": r"^\d$"}, "٣", False),
    ("regex", {"value": r"(?<year>\d{4})-\k<year>"}, "2026-2026", True),
    ("regex", {"value": r"a[^]b"}, "a\nb", True),
    ("regex", {"value": r"a.b"}, "a\u2028b", False),
    ("regex", {"value": r"[\w-]+@x\.org\/"}, "a-b@x.org/", True),
    ("regex", {"value": r"\bé"}, "aé", True),
    ("not-regex", {"value": "x"}, "abc", True),
    ("is-json", {}, '{"a": 1}', True),
    ("is-json", {}, "{a: 1}", False),
    ("is-json", {"value": SCHEMA}, '{"a": 1}', True),
    ("is-json", {"value": SCHEMA}, '{"a": "1"}', False),
    ("word-count", {"value": 3}, " one two\nthree ", True),
    ("word-count", {"value": {"min": 2, "max": 3}}, "one", False),
    ("word-count", {"value": {"max": 2}}, " ", True),
    ("word-count", {"value": {"min": 1}}, " ", False),
    ("levenshtein", {"value": "Paris", "threshold": 2.5}, "Pari", True),
    ("levenshtein", {"value": "Paris", "threshold": 2}, "London", False),
    ("levenshtein", {"value": "Paris"}, "Lima", True),
    ("not-word-count", {"value": 3}, "one", True),
    ("not-equals", {"value": {"a": [1, 2]}}, '{"a": [2, 1]}', True),
    ("not-equals", {"value": {"a": [1, 2]}}, '{"a": [1, 2]}', False),
    ("not-is-json", {}, "{a: 1}", True),
    ("not-is-json", {}, '{"a": 1}', False),
    ("not-is-json", {"value": SCHEMA}, '{"a": "1"}', True),
    ("not-is-json", {"value": SCHEMA}, '{"a": 1}', False),
    ("not-levenshtein", {"value": "Paris", "threshold": 2}, "London", True),
    ("not-levenshtein", {"value": "Paris", "threshold": 2}, "Pari", False),
    ("regex", {"value": r"^a\sb$"}, "a\ufeffb", True),
    ("regex", {"value": r"a[\S]b"}, "a\x1fb", True),
    ("word-count", {"value": 2}, "a\x1fb\ufeffc", True),
    ("is-refusal", {}, " \u3000", True),
    ("is-refusal", {}, " SORRY, no.", True),
    ("is-refusal", {}, "He is not sorry.", False),
    ("is-refusal", {}, "Well, I don\u2019t feel comfortable.", True),
    ("is-refusal", {}, "I don't feel comfortably.", False),
    ("is-refusal", {}, "As an AI, no.", True),
    ("is-refusal", {}, "As an air, no.", False),
    ("is-refusal", {}, {"answer": "Paris"}, True),  # what is no text
    ("not-is-refusal", {}, "It is Paris.", True),
    ("not-is-refusal", {}, "Alas, I CANNOT HELP.", False),
    ("not-is-refusal", {}, {"answer": "Paris"}, False),
    ("contains-html", {}, "<b>x</b>", True),
    ("contains-html", {}, "a <x> b", False),
    ("contains-html", {}, "see <a href", True),
    ("contains-html", {}, "&amp; <!-- a-b -->", True),
    ("contains-html", {}, "a < b and &amp;", False),
    ("contains-html", {}, "<!doctype\ufeffHTML", True),
    ("contains-html", {}, "<HR", True),
    ("contains-html", {}, "<\u017fpan", False),
    ("contains-html", {}, "x y='1' <z/>", True),
    ("bleu", {"value": "the cat sat on the mat"}, "The cat sat on a mat.", True),
    ("bleu", {"value": ["a b", "the cat sat"], "threshold": 0.6}, "cat the sat", False),
    ("bleu", {"value": "x"}, " ", False),
    ("not-bleu", {"value": "the cat sat on the mat"}, "A dog ran.", True),
    ("not-bleu", {"value": "a b c d", "threshold": 1}, "A B\ufeffC D", False),
    ("gleu", {"value": "The cat sat."}, "the CAT sat", True),
    ("gleu", {"value": ["a", "the cat sat on the mat"], "threshold": 0.45}, "the cat sat on a mat", True),
    ("gleu", {"value": "the cat sat on the mat", "threshold": 0.62}, "the cat sat on a mat", False),
    ("not-gleu", {"value": "the cat"}, "the dog", True),
    ("rouge-n", {"value": 'I can\'t, he said: "no!"'}, 'he said "NO!", i can\'t', True),
    (
        "rouge-n",
        {"value": "we're gonna (maybe) pay $3,000.", "threshold": 0.99},
        "We 're gon na ( maybe ) pay $ 3,000 .",
        True,
    ),
    ("rouge-n", {"value": "the cat sat on the mat"}, "the dog", False),
    ("not-rouge-n", {"value": "the cat"}, "a dog", True),
    ("tool-call-f1", {"value": ["a", "b"]}, '[{"name": "b"}, {"type": "tool_use", "name": "a"}]', True),
    (
        "tool-call-f1",
        {"value": "a, b", "threshold": 0.7},
        '{"tool_calls": [{"function": {"name": "a"}}]}',
        False,
    ),
    (
        "tool-call-f1",
        {"value": "a, b", "threshold": 0.6},
        'I call\n {"functionCall": {"name": "a"}}\nnow',
        True,
    ),
    ("tool-call-f1", {"value": "a"}, "nothing", False),
    ("not-tool-call-f1", {"value": "a"}, '{"toolCall": {"functionCalls": [{"name": "a"}]}}', False),
    ("is-xml", {}, " <a x='1'>t<b/></a> ", True),
    ("is-xml", {}, "<a>", False),
    ("is-xml", {}, "<a/> and <b/>", False),
    ("is-xml", {"value": "order.item, order.@_id"}, "<order id='1'><item>pen</item></order>", True),
    ("is-xml", {"value": "order.item"}, "<order><item/><item/></order>", True),
    ("is-xml", {"value": ["order.item.sku"]}, "<order><item><sku/></item><item/></order>", False),
    ("is-xml", {"value": ["order.item.0.sku"]}, "<order><item><sku/></item><item/></order>", True),
    ("is-xml", {"value": {"requiredElements": ["a.#text"]}}, "<a>x</a>", False),
    ("is-xml", {"value": {"requiredElements": ["a.#text"]}}, "<a>x<b/></a>", True),
    ("is-xml", {}, "<x:a/>", False),
    ("is-xml", {}, "<!DOCTYPE html><html/>", True),
    ("is-xml", {}, "<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>", False),
    ("is-xml", {}, "<a>" * 101 + "</a>" * 101, True),
    ("is-xml", {}, "<a>" * 102 + "</a>" * 102, False),
    ("not-is-xml", {}, "no", True),
    ("not-is-xml", {"value": "b"}, "<a/>", True),
    ("not-is-xml", {}, "<a/>", False),
    ("contains-xml", {}, "So <b x>Q & A</b>.", True),
    ("contains-xml", {}, "a < b and <p>", False),
    ("contains-xml", {"value": "a, b"}, "```xml\n<a/>\n``` or <b>t</b>", True),
    ("contains-xml", {"value": "b"}, "<a><b/></a>", False),
    ("contains-xml", {"value": "b"}, "<a><b/>", True),
    ("contains-xml", {"value": ["a.b"]}, {"x": "<a><b>1</b></a>"}, True),
    ("contains-xml", {}, "<!-- <a/> --> <?p <a/> ?>", False),
    ("not-contains-xml", {}, "a <b", True),
    ("not-contains-xml", {"value": "a"}, "see <a/>", False),
    ("not-contains-html", {}, "plain", True),
    ("not-contains-html", {}, "<p>", False),
]
OF_METADATA = [  # what a provider says beside the output: latency, cost, reason to finish
    ("cost", {"threshold": 0.01}, True),
    ("cost", {"threshold": 0.009}, False),
    ("not-cost", {"threshold": 0.01}, False),
    ("not-cost", {"threshold": 0.009}, True),
    ("latency", {"threshold": 27}, True),
    ("latency", {"threshold": 26}, False),
    ("not-latency", {"threshold": 27}, False),
    ("not-latency", {"threshold": 26}, True),
    ("finish-reason", {"value": "STOP"}, True),
    ("finish-reason", {"value": "length"}, False),
    ("not-finish-reason", {"value": "stop"}, False),
    ("not-finish-reason", {"value": "length"}, True),
]
A, B, Z = ({"type": "contains", "value": letter} for letter in "abz")
NEAR = {"type": "levenshtein", "value": "abd", "threshold": 1}
WEIGHTED = [  # other members of a test whose output is abc, its score, whether it passes
    ({"assert": [A, Z], "threshold": 0.5}, 0.5, True),
    ({"assert": [A, Z], "threshold": 0.6}, 0.5, False),
    ({"assert": [A | {"weight": 3}, Z], "threshold": 0.75}, 0.75, True),
    ({"assert": [A | {"weight": 3}, Z]}, 0.75, False),
    ({"assert": [A | {"weight": 3}, B]}, 1, True),
    ({"assert": [A, Z | {"weight": 0}]}, 1, True),
    ({"assert": [A, Z], "threshold": 0}, 0.5, True),
    ({"assert": [NEAR, Z | {"weight": 0.5}], "threshold": 0.5}, 2 / 3, True),
    ({"assert": [{"type": "rouge-n", "value": "abc d"}, A], "threshold": 0.8}, 5 / 6, True),
    ({"assert": [{"type": "not-rouge-n", "value": "abc d"}, Z | {"weight": 3}], "threshold": 0.1}, 1 / 12, False),
    ({"assert": [{"type": "not-is-xml", "weight": 3}, Z], "threshold": 0.7}, 0.75, True),
    ({"assert": [{"type": "not-levenshtein", "value": "abd"}, A], "threshold": 0.5}, 0.5, True),
    ({"assert": [{"type": "contains-html"}, A, {"type": "not-is-refusal"}], "threshold": 0.6}, 2 / 3, True),
    ({"assert": [{"type": "assert-set", "assert": [A, Z], "threshold": 0.5}]}, 0.5, True),
    ({"assert": [{"type": "assert-set", "assert": [A, Z], "threshold": 0.7}, B]}, 0.75, False),
    ({"assert": [{"type": "assert-set", "assert": [A, Z], "weight": 3}, B], "threshold": 0.6}, 0.625, True),
    ({"assert": [{"type": "assert-set", "assert": [A | {"weight": 2}, Z], "metric": "both"}, Z], "threshold": 0.5}, 1 / 3, False),
]  # fmt: skip
_TYPES = """
agent-rubric answer-relevance bleu classifier contains contains-all contains-any contains-html contains-json
contains-sql contains-xml context-faithfulness context-recall context-relevance conversation-relevance cost equals
factuality finish-reason g-eval gleu guardrails icontains icontains-all icontains-any is-html is-json is-refusal is-sql
is-valid-function-call is-valid-openai-function-call is-valid-openai-tools-call is-xml javascript latency levenshtein
llm-rubric pi meteor model-graded-closedqa model-graded-factuality moderation perplexity perplexity-score python regex
rouge-n ruby similar similar:cosine similar:dot similar:euclidean starts-with tool-call-f1 skill-used
trajectory:goal-success trajectory:tool-args-match trajectory:step-count trajectory:tool-sequence trajectory:tool-used
trace-error-spans trace-span-count trace-span-duration search-rubric webhook word-count select-best human max-score
"""  # of promptfoo 0.121.20
TYPES = _TYPES.split()
CONFIGURATION = """
description: Capitals
prompts:
  - 'Capital of {{country}}?'
  - file://second.txt
providers: [openai:gpt-4o-mini, {id: 'anthropic:messages:claude', label: second}]
defaultTest:
  vars: {tone: short}
  assert:
    - {type: not-contains, value: sorry, metric: polite}
tests:
  - description: first
    vars: {country: France}
    metadata: {topic: europe}
    assert:
      - {type: icontains, value: '{{country}}', weight: 2}
      - {type: llm-rubric, value: 'is {{tone}}', provider: 'openai:gpt-4o'}
  - vars: {country: [Italy, Spain]}
    assert:
      - {type: javascript, value: output.length > 3}
      - {type: python, value: len(output) > 3}
      - type: assert-set
        assert: [{type: contains, value: a}, {type: contains, value: i}]
  - file://more.csv
scenarios:
  - config: [{vars: {country: Peru}}, {vars: {country: Chile}}]
    tests: [{assert: [{type: regex, value: '^L'}]}]
"""
FILES = {
    "promptfooconfig.yaml": CONFIGURATION,
    "second.txt": "Which city is the capital of {{ country }}?\n",
    "more.csv": "country,__expected,__expected2,__description,__metadata:topic\n"
    'Kenya,contains: Nairobi,"similar(0.7): Nairobi",fifth,africa\nMali,Bamako,,sixth,africa\n',
}


def result_row(test, prompt, *, output="Paris", system="echo", passed=True, **more):
    """A row of results, as promptfoo 0.121 writes it."""
    return {
        "testIdx": test,
        "promptIdx": prompt,
        "provider": {"id": system, "label": ""},
        "prompt": {"raw": "Capital of France?", "label": "Capital of {{country}}?"},
        "vars": {"country": "France"},
        "testCase": {"vars": {"country": "France"}, "assert": [{"type": "contains", "value": "{{country}}"}]},
        "response": {"output": output, "tokenUsage": {"total": 7}},
        "success": passed,
        "score": float(passed),
        "namedScores": {},
        "latencyMs": 27,
        "cost": 0.01,
        "tokenUsage": {"total": 7, "prompt": 5, "completion": 2},
        "gradingResult": {
            "pass": passed,
            "score": float(passed),
            "reason": "?",
            "componentResults": [
                {"pass": passed, "score": float(passed), "reason": "?", "assertion": {"type": "contains"}}
            ],
        },
        "failureReason": 0,
    } | more


def results_document(rows):
    return {
        "evalId": "eval-1",
        "results": {"version": 3, "timestamp": "2026-11-18", "prompts": [], "results": rows, "stats": {}},
        "config": {},
        "metadata": {"promptfooVersion": "0.121.20"},
    }
