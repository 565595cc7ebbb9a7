"""
The assertions of promptfoo as checks.

`ASSERTIONS` has every type that promptfoo knows, and says how it is carried. A type without a function is named as not
carried, with the reason.
"""

import re
from collections.abc import Callable
from math import floor
from typing import Any, Literal, NamedTuple

from assay.checks.standard.ngram_overlap import Variant
from assay.errors import InvalidRequest
from assay.inputs.yaml_reader import read_yaml
from assay.interchange.imported import CannotCarry
from assay.interchange.js_regex import SPACE, python_pattern
from assay.interchange.made_checks import OUTPUT, At, check
from assay.interchange.promptfoo.markup import xml
from assay.interchange.promptfoo.measures import called_tools, overlap
from assay.interchange.promptfoo.patterns import contains_html, refusal
from assay.interchange.templates import as_text
from assay.protocol.json_types import JSON, is_list, is_object

How = Literal["exactly", "as a judge", "not carried"]
CODE = "code is not run"
DRAFT = "http://json-schema.org/draft-07/schema#"  # what promptfoo validates with
MOST_WORDS = 5_000  # a pattern can count
MOST_TEXTS = 50  # that an expression can name
_QUOTED = re.compile(r'"((?:\\["\\]|""|[^"])*)"')


class Assertion(NamedTuple):
    """One assertion: its value with the variables filled in, and what else it says."""

    value: Any
    threshold: float | None
    inverse: bool
    variables: JSON


class Row(NamedTuple):
    """How a type of assertion is carried: the check it becomes, or the reason why it is not."""

    how: How
    text: str
    make: Callable[[Assertion], JSON] | None = None


def _text(one: Assertion) -> str:
    if not isinstance(one.value, str | int | float) or isinstance(one.value, bool) or one.value == "":
        raise CannotCarry("its value is no text")
    return as_text(one.value)


def _texts(one: Assertion) -> list[str]:
    """The values of a list, or of a text that promptfoo splits at its commas."""
    values = _split(one.value) if isinstance(one.value, str) else one.value
    if not is_list(values) or not values:
        raise CannotCarry("its value is no list of texts")
    return [as_text(value) for value in values]


def _split(text: str) -> list[str]:
    found: list[str] = []
    at = 0
    while at < len(text):
        if text[at] in ", \t\r\n":
            at += 1
        elif text[at] == '"':
            quoted = _QUOTED.match(text, at)
            if quoted is None:
                raise CannotCarry("its value has a quote without an end")
            found.append(re.sub(r'\\(["\\])|""', lambda part: part[1] or '"', quoted[1]))
            at = quoted.end()
        else:
            end = text.find(",", at)
            end = len(text) if end < 0 else end
            found.append(text[at:end].strip())
            at = end
    return found


def _regex(pattern: str, *, negate: bool, ignore_case: bool = False) -> JSON:
    flags = {"case_insensitive": True, "multiline": False, "dot_all": False}
    more = {"negate": True} if negate else {}
    return check("regex", text=OUTPUT, pattern=pattern, **more, **({"flags": flags} if ignore_case else {}))


def _contains(phrases: list[str], *, negate: bool, case_sensitive: bool) -> JSON:
    more: JSON = {"negate": True} if negate else {}
    more |= {} if case_sensitive else {"case_sensitive": False}
    return check("contains", text=OUTPUT, phrases=phrases, **more)


def _negated(made: JSON, number: str = "") -> JSON:
    """A check that passes if this one does not."""
    weights: JSON = {"weights": {number: 1}} if number else {}
    return check("combination", checks=[made], threshold={"max_value": 0}, **weights)


def _equals(one: Assertion) -> JSON:
    if is_list(one.value) or is_object(one.value):
        made = check("json_match", actual=OUTPUT, expected=one.value, parse="json")
        return _negated(made) if one.inverse else made
    more = {"negate": True} if one.inverse else {}
    return check("exact_match", actual=OUTPUT, expected=as_text(one.value), **more)


def _contains_one(one: Assertion, *, case_sensitive: bool = True) -> JSON:
    return _contains([_text(one)], negate=one.inverse, case_sensitive=case_sensitive)


def _contains_any(one: Assertion, *, case_sensitive: bool = True) -> JSON:
    phrases = _texts(one)
    if "" in phrases:
        raise CannotCarry("its value has an empty text, which every output contains")
    if len(phrases) == 1 or one.inverse:  # none of them
        return _contains(phrases, negate=one.inverse, case_sensitive=case_sensitive)
    return _regex("|".join(map(re.escape, phrases)), negate=False, ignore_case=not case_sensitive)


def _contains_all(one: Assertion, *, case_sensitive: bool = True) -> JSON:
    phrases = [text for text in _texts(one) if text]
    if not phrases:
        raise CannotCarry("its value has only empty texts, which every output contains")
    if len(phrases) == 1 or not one.inverse:
        return _contains(phrases, negate=one.inverse, case_sensitive=case_sensitive)
    ahead = "".join(rf"(?=[\s\S]*{re.escape(phrase)})" for phrase in phrases)
    return _regex(rf"\A{ahead}", negate=True, ignore_case=not case_sensitive)


def _starts_with(one: Assertion) -> JSON:
    return _regex(rf"\A{re.escape(_text(one))}", negate=one.inverse)


def _pattern(one: Assertion) -> JSON:
    return _regex(python_pattern(_text(one)), negate=one.inverse)


def _is_json(one: Assertion) -> JSON:
    schema = one.value
    if isinstance(schema, str):  # promptfoo reads it as YAML
        try:
            schema = read_yaml(schema.encode(), "schema")
        except InvalidRequest as refusal:
            raise CannotCarry(f"its schema is no YAML: {refusal.problems[0]}") from None
    if schema is not None and not is_object(schema):
        raise CannotCarry("its schema is no object")
    if schema:
        schema = schema if "$schema" in schema else {"$schema": DRAFT, **schema}
    made = check("json_schema", value=OUTPUT, schema=schema or {}, parse="json")
    return _negated(made) if one.inverse else made


def _bound(member: str) -> Callable[[Assertion], JSON]:
    def make(one: Assertion) -> JSON:
        if one.threshold is None:
            raise CannotCarry("it has no threshold")
        more = {"negate": True} if one.inverse else {}
        return check("threshold", value=At(f"$.output.metadata.{member}"), max_value=one.threshold, **more)

    return make


def _finish_reason(one: Assertion) -> JSON:
    more = {"negate": True} if one.inverse else {}
    at = At("$.output.metadata.finish_reason")
    return check("exact_match", actual=at, expected=_text(one), case_sensitive=False, **more)


def _word_count(one: Assertion) -> JSON:
    value = one.value
    if is_object(value):
        least, most = value.get("min", 0), value.get("max")
    else:
        try:
            least = most = float(value)
        except (TypeError, ValueError):
            raise CannotCarry("its value is no number of words") from None
    bounds = [bound for bound in (least, most) if bound is not None]
    if not all(isinstance(bound, int | float) and 0 <= bound <= MOST_WORDS for bound in bounds):
        raise CannotCarry(f"its bounds are no numbers from 0 to {MOST_WORDS:,}")
    if any(bound != int(bound) for bound in bounds):
        raise CannotCarry("its bounds are no whole numbers")
    repeat = f"{{{int(least)},{'' if most is None else int(most)}}}"
    return _regex(rf"\A[{SPACE}]*(?:[^{SPACE}]++[{SPACE}]*+){repeat}\Z", negate=one.inverse)


def _levenshtein(one: Assertion) -> JSON:
    most = 5 if one.threshold is None else floor(one.threshold)
    if most < 0:
        raise CannotCarry("its threshold is below 0")
    made = check("edit_distance", text=OUTPUT, references=[_text(one)], max_distance=most)
    return _negated(made, "edit_distance.passed") if one.inverse else made


def _overlap(variant: Variant, least: float) -> Callable[[Assertion], JSON]:
    return lambda one: overlap(
        one.value, least if one.threshold is None else one.threshold, variant, inverse=one.inverse
    )


def _called_tools(one: Assertion) -> JSON:
    return called_tools(one.value, 1 if one.threshold is None else one.threshold, inverse=one.inverse)


def _refusal(one: Assertion) -> JSON:
    """What is no text, such as a call of a tool, is a refusal too."""
    parts = [
        {"name": "no text", **check("json_schema", value=OUTPUT, schema={"not": {"type": "string"}})},
        {"name": "refusal", **_regex(refusal(), negate=False)},
    ]
    threshold: JSON = {"max_value": 0} if one.inverse else {"min_value": 0.5}
    return check("combination", checks=parts, threshold=threshold)


def _contains_html(one: Assertion) -> JSON:
    return contains_html(negate=one.inverse)


def _similar(metric: str) -> Callable[[Assertion], JSON]:
    def make(one: Assertion) -> JSON:
        if is_list(one.value):
            return _near_one_of(one, make)
        threshold: JSON = {"min_value": 0.75 if one.threshold is None else one.threshold}
        threshold |= {"negate": True} if one.inverse else {}
        return check(
            "semantic_similarity",
            text=OUTPUT,
            reference=_text(one),
            threshold=threshold,
            **({} if metric == "cosine" else {"similarity_metric": metric}),
        )

    return make


def _near_one_of(one: Assertion, make: Callable[[Assertion], JSON]) -> JSON:
    """One of several texts is near; with `not-`, none is."""
    if not 0 < len(one.value) <= MOST_TEXTS or not all(isinstance(text, str) and text for text in one.value):
        raise CannotCarry(f"its value is no list of 1 to {MOST_TEXTS} texts")
    names = [f"text_{number + 1}" for number in range(len(one.value))]
    checks: list[JSON] = [
        {"name": name, **make(one._replace(value=text))} for name, text in zip(names, one.value, strict=True)
    ]
    if one.inverse:
        return check("combination", checks=checks)
    verdicts = ", ".join(f"{name}.passed" for name in names)
    return check("combination", checks=checks, expression=f"max({verdicts})", threshold={"min_value": 1})


def _rubric(one: Assertion) -> JSON:
    criteria = one.value if is_list(one.value) else [one.value]
    texts = [text for text in criteria if isinstance(text, str) and text]
    if not texts or len(texts) != len(criteria):
        raise CannotCarry("its value is no text")
    return check(
        "rubric", criteria=[f"It is not true that: {text}" if one.inverse else text for text in texts]
    )


def _judge(type: str, argument: str | None = None) -> Callable[[Assertion], JSON]:
    def make(one: Assertion) -> JSON:
        if one.inverse:
            raise CannotCarry("the judge has no negation")
        return check(type, **({argument: _text(one)} if argument else {}))

    return make


def _faithfulness(one: Assertion) -> JSON:
    if one.inverse:
        raise CannotCarry("the judge has no negation")
    if "context" not in one.variables:
        raise CannotCarry("the test has no variable `context`")
    return check("faithfulness", context=At("$.test_case.metadata.vars.context"))


def _xml(*, contained: bool) -> Callable[[Assertion], JSON]:
    return lambda one: xml(one.value, contained=contained, inverse=one.inverse)


def _insensitive(make: Callable[..., JSON]) -> Callable[[Assertion], JSON]:
    return lambda one: make(one, case_sensitive=False)


ASSERTIONS: dict[str, Row] = {
    "equals": Row(
        "exactly", "exact_match; json_match for a list or an object, in a combination for `not-`", _equals
    ),
    "contains": Row("exactly", "contains", _contains_one),
    "icontains": Row("exactly", "contains", _insensitive(_contains_one)),
    "contains-all": Row("exactly", "contains; regex for `not-`", _contains_all),
    "icontains-all": Row("exactly", "contains; regex for `not-`", _insensitive(_contains_all)),
    "contains-any": Row("exactly", "regex; contains for `not-`", _contains_any),
    "icontains-any": Row("exactly", "regex; contains for `not-`", _insensitive(_contains_any)),
    "starts-with": Row("exactly", "regex", _starts_with),
    "regex": Row("exactly", "regex, translated from JavaScript", _pattern),
    "is-json": Row(
        "exactly", "json_schema, which also reads JSON in a fenced block; combination for `not-`", _is_json
    ),
    "word-count": Row("exactly", "regex", _word_count),
    "cost": Row("exactly", "threshold of cost_usd", _bound("cost_usd")),
    "latency": Row("exactly", "threshold of latency_ms", _bound("latency_ms")),
    "finish-reason": Row("exactly", "exact_match", _finish_reason),
    "levenshtein": Row("exactly", "edit_distance; combination for `not-`", _levenshtein),
    "similar": Row(
        "as a judge",
        "semantic_similarity with an embedding of yours; combination for a list",
        _similar("cosine"),
    ),
    "similar:cosine": Row("as a judge", "semantic_similarity; combination for a list", _similar("cosine")),
    "similar:dot": Row("as a judge", "semantic_similarity; combination for a list", _similar("dot")),
    "similar:euclidean": Row("not carried", "promptfoo's distance is not a similarity from 0 to 1"),
    "llm-rubric": Row("as a judge", "rubric with one criterion", _rubric),
    "g-eval": Row("as a judge", "rubric with its criteria", _rubric),
    "model-graded-closedqa": Row("as a judge", "rubric with one criterion", _rubric),
    "factuality": Row("as a judge", "correctness", _judge("correctness", "reference")),
    "model-graded-factuality": Row("as a judge", "correctness", _judge("correctness", "reference")),
    "answer-relevance": Row("as a judge", "answer_relevance", _judge("answer_relevance")),
    "context-faithfulness": Row("as a judge", "faithfulness to the variable `context`", _faithfulness),
    "select-best": Row(
        "as a judge",
        "rubric with its criterion for each output; `assay compare` says which system is best",
        _rubric,
    ),
    "max-score": Row("not carried", "it compares systems: use `assay compare`"),
    "javascript": Row("not carried", CODE),
    "python": Row("not carried", f"{CODE}; it is offered as a function to accept by hand"),
    "ruby": Row("not carried", CODE),
    "webhook": Row("not carried", "no address of a file is called"),
    "human": Row("not carried", "a person decides: use `assay annotate`"),
    "agent-rubric": Row("not carried", "its judge is an agent with tools"),
    "search-rubric": Row("not carried", "its judge searches the web"),
    "bleu": Row("exactly", "ngram_overlap; combination for `not-`", _overlap("bleu", 0.5)),
    "gleu": Row(
        "exactly",
        "ngram_overlap, in which an empty output scores 0; combination for `not-`",
        _overlap("gleu", 0.5),
    ),
    "meteor": Row(
        "not carried", "it needs the synonyms of WordNet in a package that promptfoo does not come with"
    ),
    "rouge-n": Row("exactly", "ngram_overlap; combination for `not-`", _overlap("rouge-n", 0.75)),
    "classifier": Row("not carried", "it needs a model of a provider of promptfoo"),
    "moderation": Row("not carried", "it needs a service of a provider"),
    "guardrails": Row("not carried", "it needs what a provider answered beside the output"),
    "pi": Row("not carried", "it needs a service of a provider"),
    "perplexity": Row("not carried", "it needs probabilities of tokens"),
    "perplexity-score": Row("not carried", "it needs probabilities of tokens"),
    "contains-json": Row(
        "not carried", "promptfoo reads what stands in braces as YAML: {x} is JSON to it, and to no check"
    ),
    "is-html": Row("not carried", "it needs the tree that a browser makes of a page"),
    "contains-html": Row("exactly", "combination of regex, one for each sign of HTML", _contains_html),
    "is-xml": Row(
        "exactly", "xml, which knows the names of XML 1.0 up to its fourth edition", _xml(contained=False)
    ),
    "contains-xml": Row(
        "exactly", "xml, in which a < before a space is text and no tag", _xml(contained=True)
    ),
    "is-sql": Row("not carried", "it needs promptfoo's parser for the dialects of SQL"),
    "contains-sql": Row("not carried", "it needs promptfoo's parser for the dialects of SQL"),
    "is-refusal": Row("exactly", "combination of regex, with promptfoo's phrases, and json_schema", _refusal),
    "is-valid-function-call": Row("not carried", "it needs the tools of the provider"),
    "is-valid-openai-function-call": Row("not carried", "it needs the tools of the provider"),
    "is-valid-openai-tools-call": Row("not carried", "it needs the tools of the provider"),
    "context-recall": Row("not carried", "there is no such judge"),
    "context-relevance": Row("not carried", "there is no such judge"),
    "conversation-relevance": Row("not carried", "there is no such judge"),
    "tool-call-f1": Row("exactly", "called_tools", _called_tools),
    "skill-used": Row("not carried", "it needs what a provider answered beside the output"),
    "trajectory:goal-success": Row("not carried", "it needs a trace; see `assay evaluate --traces`"),
    "trajectory:tool-args-match": Row("not carried", "it needs a trace; see tool_calls"),
    "trajectory:step-count": Row("not carried", "it needs a trace; see max_steps"),
    "trajectory:tool-sequence": Row("not carried", "it needs a trace; see tool_calls"),
    "trajectory:tool-used": Row("not carried", "it needs a trace; see tool_calls"),
    "trace-error-spans": Row("not carried", "it needs a trace; see `assay evaluate --traces`"),
    "trace-span-count": Row("not carried", "it needs a trace; see `assay evaluate --traces`"),
    "trace-span-duration": Row("not carried", "it needs a trace; see `assay evaluate --traces`"),
}


def base_type(type: str) -> tuple[str, bool]:
    """The type without `not-`, and whether it had it."""
    inverse = type.startswith("not-")
    return (type[4:] if inverse else type), inverse
