"""Work that grows with a request, and no faster: each row took many seconds once, by the processor's own clock."""

import re
import time
from itertools import repeat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay import InvalidRequest
from assay.backends.models.json_reply import read_value
from assay.checks import STANDARD
from assay.checks.standard.has_items import HasItems, item_key
from assay.checks.standard.json_match import equal
from assay.errors import MOST_PROBLEMS
from assay.fep.planning.plan import Plan
from assay.fep.planning.request import contexts_of
from assay.inputs.context import read_context
from assay.ports import Limits, Services
from assay.protocol import secret_patterns
from assay.protocol.evaluation import Check
from assay.protocol.redaction import is_secret, redact
from assay.protocol.secret_patterns import FLAGS, SHAPES, hide, marker
from assay.serve.fep.request_parser import read_contexts

SECONDS = 3.0  # of this thread alone, so that a busy machine changes nothing


def bad_cases():
    """Every second case is wrong, and one id comes back."""
    lines = [b'{"test_case": {"id": "a", "input": 1}, "output": {"value": 1}}', b"1"] * 15_000
    return len(read_contexts(map(read_context, lines, repeat(Limits()))).problems) == MOST_PROBLEMS


def one_long_case():
    """A case of a megabyte, and many that only have its id."""
    cases = [{"id": "a", "input": list(range(100_000))}, *[{"id": "a", "input": 1}] * 1_000]
    with pytest.raises(InvalidRequest) as refused:
        contexts_of(cases, [{"value": 1}] * len(cases), Limits())
    return len(refused.value.problems) == 1_000


def one_member_twice():
    members = [f'"{at}":1' for at in range(40_000)]
    return read_value("{" + ",".join([*members, members[-1]]) + "}")[1] == "has the member '39999' twice"


def many_items():
    items = [[at] for at in range(15_000)]
    check = HasItems(
        items=items, required_items=items[::-1], forbidden_items=[[-1 - at] for at in range(15_000)]
    )
    return check.answer(Services()) == {"passed": True}


def many_checks():
    arguments = {"text": "$.output.value"}
    checks = [Check(type="contains", arguments={**arguments, "phrases": [str(at)]}) for at in range(1_000)]
    return len(Plan(checks, STANDARD).shared.checks) == 1_000


ROWS = [bad_cases, one_long_case, one_member_twice, many_items, many_checks]


@pytest.mark.parametrize("work", ROWS, ids=[row.__name__ for row in ROWS])
def test_work_on_hostile_input_takes_time_in_proportion_to_its_size(work):
    began = time.thread_time()
    assert work()
    assert time.thread_time() - began < SECONDS


# Items of a list

small = st.sampled_from(
    [0, 1, 1.0, -0.0, True, False, None, "", "1", "true", 2**53, float(2**53), 2**53 + 1, 1e21, 10**21]
)
nested = st.recursive(
    small,
    lambda below: st.lists(below, max_size=2) | st.dictionaries(st.sampled_from("ab"), below, max_size=2),
    max_leaves=4,
)
listed = st.lists(nested, max_size=6)


def score_interpreted(items, required, forbidden, ordered):
    """Every item compared with every other."""
    left, missing = list(items), []
    for at, one in enumerate(required):
        found = next((place for place, item in enumerate(left) if equal(one, item)), None)
        if found is None and ordered:
            missing = required[at:]
            break
        if found is None:
            missing.append(one)
        else:
            left[: found + 1] = [] if ordered else left[:found]
    there = [one for one in forbidden if any(equal(one, item) for item in items)]
    lacking = {"missing": missing} if missing else {}
    return {"passed": not missing and not there} | lacking | ({"forbidden": there} if there else {})


@given(items=listed, required=listed, forbidden=listed, ordered=st.booleans())
def test_items_are_found_as_by_comparing_each_with_each(items, required, forbidden, ordered):
    check = HasItems(items=items, required_items=required, forbidden_items=forbidden, ordered=ordered)
    assert repr(check.run(Services())) == repr(score_interpreted(items, required, forbidden, ordered))


@given(one=nested, two=nested)
def test_two_items_have_one_key_where_they_are_equal_as_json(one, two):
    assert (item_key(one) == item_key(two)) == equal(one, two)


# Secrets by their shape

PLAIN = re.compile("|".join(f"(?P<s{at}>{shape})" for at, (_, shape) in enumerate(SHAPES)), FLAGS)


def plainly_hidden(text):
    """Every shape tried at every place, in one alternation."""

    def hide(found):
        at = int(found.lastgroup[1:])
        name = SHAPES[at][0]
        start, end = found.span(f"secret_{name}" if f"secret_{name}" in PLAIN.groupindex else 0)
        return found[0][: start - found.start()] + marker(name) + found[0][end - found.start() :]

    return PLAIN.sub(hide, text)


PIECES = [
    "-----BEGIN ", "RSA ", "PRIVATE KEY-----", "-----END ", "eyJ", "abcdefgh", ".", "-", "_", "sk-", "ant-", "rk_live_", "sk_test_", "AKIA",
    "ABCDEFGHIJKLMNOP", "AIza", "0123456789abcdefghij", "ghp_", "github_pat_", "glpat-", "xoxb-", "npm_", "hf_", "assay_", "Bearer ", "basic ",
    " ", "\n", "=", "==", "/", "+", "://", ":", "@", "a", "h2", "é", "²", "Z", "%", "x" * 36,
]  # fmt: skip


@given(parts=st.lists(st.sampled_from(PIECES) | st.text(max_size=2), max_size=24))
def test_secrets_are_found_as_one_alternation_of_all_shapes_finds_them(parts):
    text = "".join(parts)
    assert hide(text) == plainly_hidden(text)


def test_a_letter_of_another_script_beside_a_secret_does_not_hide_it():
    key = "sk-0123456789abcdefgh"
    assert hide(f"密钥是{key}，请保密。") == "密钥是[REDACTED:openai-key]，请保密。"


@given(st.from_regex(secret_patterns._OWN_ID.pattern, fullmatch=True))
def test_no_id_of_a_run_looks_like_a_secret(id):
    assert plainly_hidden(id) == hide(id) == id


LONG = 20_000
UNITS = [
    "eyJ-", "xeyJ", "eyJaaaaaaaa.", "eyJaaaaaaaa-", "a.", "a", "a://", "://", "a://:b:", "a://b:c", "a://:", "-----BEGIN ", "-----BEGIN A ", "-",
    "-----BEGIN PRIVATE KEY-----", "-----BEGIN PRIVATE KEY-----\n-----END A", "sk-", "sk-a", "sk-ant-", " sk-abc", "rk_live_", "AKIA", "AIza", "ghp_",
    "ghp_aaa-", "github_pat_", "glpat-", "xox", "xoxb-", "npm_", "hf_", "assay_", "bearer ", "bearer", "bearer  ", "basic aaaaaaaaaaaaaaaa_ ", "basic ",
    "password", "secret_", "api-key", "Ab", " ", "\n", "=",
]  # fmt: skip


@pytest.mark.sample(3)
@pytest.mark.parametrize("unit", UNITS)
def test_a_text_is_redacted_in_time_however_it_repeats(unit):
    text = unit * (LONG // len(unit))
    began = time.thread_time()
    for whole in (
        text,
        f"eyJ{text}",
        f"Bearer {text}",
        f"basic {text}_",
        f"-----BEGIN {text}",
        f"a://a:{text}",
    ):
        redact({whole: whole})
        is_secret(whole, whole)
    assert time.thread_time() - began < SECONDS
