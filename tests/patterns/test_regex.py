"""regex is Python's `re` whatever the length of the text (FEP-47), and no search takes long in this process."""

import re
import time
import warnings

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

import assay
from assay.checks.standard.regex import Flags, compile_pattern
from assay.checks.worker_tasks import run_tasks
from assay.concurrency.workers import machine, pool
from assay.errors import Fault
from assay.patterns import backtracking
from assay.patterns.backtracking import Bound
from assay.patterns.bounded_search import Search, parse
from assay.patterns.charsets import bit_of, characters
from support.checks.backtracker import steps

LONG = " This sentence makes the text longer than any that was vouched for by its length alone." * 20
ATOMS = [
    "a",
    "b",
    "ab",
    ".",
    r"\w",
    r"\d",
    r"\s",
    "[ab]",
    "[^a]",
    r"[^\W\d]",
    "ſ",
    "K",
    "é",
    "中",
    r"\b",
    "^",
    "$",
    r"\Z",
]
CHARACTERS = "ab1 ,\néK中ſ"


def grown(inner):
    repeat = st.sampled_from(["*", "+", "?", "{2}", "{0,3}", "{2,}", "*?", "+?", "??", "{1,3}?"])
    return st.one_of(
        st.builds("{}{}".format, inner, inner),
        st.builds("(?:{}){}".format, inner, repeat),
        st.builds("({}){}".format, inner, repeat),
        st.builds("(?:{}|{})".format, inner, inner),
        st.builds("(?i:{})".format, inner),
        st.builds("(?={})".format, inner),
        st.builds("(?!{})".format, inner),
        st.builds("(?>{})".format, inner),
        st.builds(r"({})\1".format, inner).filter(lambda text: text.count("(") == 1),
    )


PATTERNS = st.recursive(st.sampled_from(ATOMS), grown, max_leaves=6)
TEXTS = st.one_of(
    st.text(CHARACTERS, max_size=24),
    st.builds(lambda part, many, end: part * many + end, st.text(CHARACTERS, min_size=1, max_size=3), st.integers(2, 12), st.text(CHARACTERS, max_size=2)),
)  # fmt: skip


def legal(pattern, flags):
    try:
        return re.compile(pattern, flags)
    except (re.error, OverflowError):
        return None


@settings(max_examples=4 * settings.default.max_examples, deadline=None)
@given(
    pattern=PATTERNS,
    text=TEXTS,
    flags=st.sampled_from([0, re.IGNORECASE, re.MULTILINE, re.DOTALL, re.IGNORECASE | re.DOTALL, re.ASCII]),
)
@example(pattern="(a?){12}a{12}", text="a" * 12, flags=0)
@example(pattern="(?:a|a)*b", text="a" * 20, flags=0)
@example(pattern="(?i:K)+k*x", text="kK" * 8, flags=0)
@example(pattern="((((a))))*", text="a" * 20, flags=0)
@example(pattern="((((a))))b", text="a" * 20, flags=0)
@example(pattern="(((a|((b)))))*c", text="ab" * 9, flags=0)
def test_no_search_takes_more_steps_than_the_bound(pattern, text, flags):
    """And the matcher that counts them finds what `re` finds: so it is `re` that is counted."""
    assume(legal(pattern, flags) is not None)
    parts = parse(pattern, flags)
    bound = Bound(parts, parts.state.flags).steps(len(text))
    found, taken = steps(parts, parts.state.flags, text, min(bound, 20_000) + 1)
    assert taken <= bound
    one_group = r"\1" not in pattern or pattern.count("(") == 1  # the matcher sets no group in an empty round
    if found is not None and one_group:
        assert found is (re.search(pattern, text, flags) is not None)


CLASSES = st.builds(
    "[{}{}]".format,
    st.sampled_from(["", "^"]),
    st.lists(
        st.sampled_from(["a", "Z", "k", "s", "é", "µ", "ÿ", "ſ", "K", "中", "a-f", "X-é", "à-中", r"\d", r"\W", r"\s", r"\S", "_", "²", "٣"]),
        min_size=1,
        max_size=3,
    ).map("".join),
)  # fmt: skip


@given(
    item=CLASSES | st.sampled_from([".", "k", "ſ", "µ", "[^k]", r"\w", r"\D"]),
    char=st.sampled_from("aAzkKKsSſåÅéÉÿŸµμßẞ_ \n\u2003٣²½中ͅι-,\x85") | st.characters(),
    flags=st.sampled_from([0, re.IGNORECASE, re.DOTALL, re.ASCII, re.IGNORECASE | re.ASCII]),
)
def test_a_set_has_every_character_that_its_item_matches(item, char, flags):
    parts = parse(item, flags)
    assume(len(parts) == 1)
    if re.match(item, char, flags):
        assert characters(*parts[0], parts.state.flags) & bit_of(ord(char))


@given(
    pattern=PATTERNS,
    text=TEXTS,
    long=st.sampled_from(["", LONG, "x" * 3_000, "1 " * 3_000, "ab" * 2_000]),
    flags=st.builds(Flags, st.booleans(), st.booleans(), st.booleans()),
)
def test_a_search_agrees_with_re_at_any_length(pattern, text, long, flags):
    chosen = (
        re.IGNORECASE * flags.case_insensitive | re.MULTILINE * flags.multiline | re.DOTALL * flags.dot_all
    )
    assume(legal(pattern, chosen) is not None)
    ours = compile_pattern(pattern, flags)
    found = ours.search.matches(text + long)
    if found is not None:
        assert found is (re.search(pattern, text + long, chosen) is not None)


@pytest.mark.parametrize("pattern", [r"x.*a.*b!", r"(\w+ ?)+\.", "(?:a|b)*(?:a|b)*1"])
def test_a_worker_process_agrees_with_re(pattern):
    texts = ["a b" * 5, "xaab!", "a1" + "b" * 40, "ab " * 400 + ".", "\ud800a1", "中" * 300 + "a."]
    ours = compile_pattern(pattern, Flags())
    answers = run_tasks(ours.task(text, False) for text in texts)
    for text, answer in zip(texts, answers, strict=True):
        if not isinstance(answer, Fault):
            assert answer == {"passed": re.search(pattern, text) is not None}
    assert sum(isinstance(answer, Fault) for answer in answers) <= 1


@pytest.mark.parametrize("length", [0, 1, 4])
@pytest.mark.parametrize(
    ("text", "pattern", "answer"),
    [
        ("It has 25 m² in all.", r"\d+\s*m²\b", True),
        ("a7", "[[:digit:]]+", False),
        ("d:]]", "[[:digit:]]+", True),
        ("हिन्दी", r"^\w+$", False),
        ("Hello {id}", "Hello {id}", True),
        ("\\frac{d}{dx}", r"\\frac{d}{dx}", True),
        ("x{1,a}", "x{1,a}", True),
        ("aaa", "((a{999}){999}){999}", False),
    ],
)
def test_a_pattern_means_one_thing(text, pattern, answer, length):
    result = assay.evaluate_sync(
        [{"id": "a", "input": "?"}],
        [{"value": text + LONG * length}],
        [{"type": "regex", "arguments": {"text": "$.output.value", "pattern": pattern}}],
    )
    assert result.results[0].check_results[0].results == {"passed": answer}


ORDINARY = [
    (r"\d+\s*m²\b", 300),
    (r"^[\w.]+@[\w.]+\.[a-z]{2,}$", 600),
    (r"REF-\d{5}\b", 30_000),
    (r"(?i)\b(?:paris|london|rome)\b", 10_000),
    (r"^\s*\{.*\}\s*$", 600),
    (r"\b\d{4}-\d{2}-\d{2}\b", 30_000),
    (r"(\w+)@(\w+)\.com", 500),
    (r"\b(?:\d{1,3}\.){3}\d{1,3}\b", 10_000),
    (r"^[a-z]+(\.[a-z]+)*$", 300),
    (r"```\w*\n", 700),
    (r"(?<!not )allowed", 10_000),
    (r"^(?:yes|no)[.!]?$", 100_000),
    (r"^the .* paris\.$", 50_000),
    (r"https?://[^\s)]+", 2_000),
    (".*error.*", 300),
    ("", 100_000),
]


@pytest.mark.parametrize(("pattern", "length"), ORDINARY)
def test_an_ordinary_pattern_needs_no_other_process(pattern, length):
    assert Search(pattern).longest >= length


@pytest.mark.parametrize(
    "pattern",
    ["(a?){40}a{40}", "(a+)+$", "(a|aa)+$", "(a|a?)+$", r"(.*a){20}$", "(?=(a+)+$)", "(?i)(Aa|aA|aa)*b", r"(a*)*\1b", "(?:a?a?){30}b", "(?>(a+)+b)"],
)  # fmt: skip
def test_a_catastrophic_pattern_is_never_searched_in_this_process(pattern):
    assert Search(pattern).longest < 40


def test_an_attack_is_a_timeout_for_its_text_alone():
    attack, fine = "a" * 40 + "!", "b"
    before = time.process_time()
    result = assay.evaluate_sync(
        [{"id": str(at), "input": "?"} for at in range(3)],
        [{"value": text} for text in (fine, attack, fine)],
        [{"type": "regex", "arguments": {"text": "$.output.value", "pattern": "(a+)+$|^b"}}],
    )
    assert time.process_time() - before < 5
    answers = [one.check_results[0] for one in result.results]
    assert [one.status for one in answers] == ["completed", "error", "completed"]
    assert (answers[1].error.type, answers[1].error.recoverable) == ("timeout_error", True)
    assert pool.processes() <= machine.default_size()


def test_a_pattern_that_is_dear_to_compile_is_compiled_elsewhere():
    wide = compile_pattern(r"[\0-\uffff]" * 50, Flags())
    assert wide.search.matches("a" * 60) is None
    assert run_tasks([wide.task("a" * 60, False), wide.task("a", False)]) == [
        {"passed": True},
        {"passed": False},
    ]


def test_a_warning_of_re_is_no_failure():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert compile_pattern("[[a]", Flags()).search.matches("[") is True


@pytest.mark.parametrize("flags", [Flags(), Flags(case_insensitive=True)])
def test_a_pattern_of_many_different_classes_is_searched_elsewhere(monkeypatch, flags):
    """And few of them are looked at here."""
    many = 2_400
    pattern = "".join(f"[{chr(0x4E00 + at)}{chr(0x2E80 + at)}]" for at in range(many))
    seen, characters = [], backtracking.characters
    monkeypatch.setattr(backtracking, "characters", lambda *item: [seen.append(item), characters(*item)][1])
    ours = compile_pattern(pattern, flags)
    assert ours.search.matches("a short text") is None
    assert 0 < len(seen) <= backtracking.MAX_ITEMS
    text = "".join(chr(0x2E80 + at) for at in range(many))
    answers = run_tasks([ours.task(text, False), ours.task("a short text", False)])
    assert answers == [{"passed": True}, {"passed": False}]
