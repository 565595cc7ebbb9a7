"""
assay.jsonpath: the compliance suite, agreement with another evaluator (jsonpath-rfc9535), and that no query can hang
the process.
"""

import inspect
import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jsonpath_rfc9535
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from jsonpath_rfc9535.exceptions import JSONPathError

from assay import jsonpath as paths
from assay.errors import MalformedPath, PathFault
from assay.jsonpath import MISSING

SUITE = Path(__file__).parents[3] / "shared/jsonpath/cts.json"
ROWS: list[Any] = json.loads(SUITE.read_text())["tests"] if SUITE.exists() else []


# the compliance suite


@pytest.mark.skipif(not ROWS, reason=f"the compliance suite is not at {SUITE}")
def test_the_suite_is_whole():
    assert len(ROWS) == 703


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["name"])
def test_compliance(row):
    if row.get("invalid_selector"):
        with pytest.raises(MalformedPath) as refused:
            paths.compile(row["selector"])
        assert refused.value.position is not None
    else:
        allowed = row["results"] if "results" in row else [row["result"]]
        assert written(paths.compile(row["selector"]).values(row["document"])) in map(written, allowed)


def written(value):
    """As text, since 1 == True in Python and not in JSON."""
    return json.dumps(value)


# what is a path


@pytest.mark.parametrize(
    ("text", "position"),
    [  # RFC 9535 refuses these; jsonpath-rfc9535 1.0.1 takes them
        ("$[?@.a==1==2]", 9),
        ("$[?(@.a)==1]", 8),
        ("$[?!@.a==1]", 7),
        ("$[?!!@.a]", 4),
        ("$[?!true]", 4),
        ("$[?length(@.a)&&@.b]", 3),
        ("$[?count(@.*,)>1]", 12),
        ("$[?@.a==-01]", 10),
        ("$[?@[ 'a' ]==1]", 3),  # a singular query has no blanks in its brackets
        ("$[1:2 3]", 6),
        ("$['\ud800']", 3),
        # and these surprise people
        ("", 0),
        ("a", 0),
        (" $.a", 0),
        ("$.a ", 3),
        ("$.", 2),
        ("$.1", 2),
        ("$.a-b", 3),
        ("$[-0]", 2),
        ("$[01]", 3),
        (f"$[{2**53}]", 2),
        (f"$[{'9' * 9_000}]", 2),
        ("$['a", 2),
        (r"$['\x']", 3),
        (r"$['\ud800']", 3),
        ("$[?nope(@)]", 3),
        ("$[?@.a==nope]", 8),
    ],
)
def test_refused_with_the_position(text, position):
    with pytest.raises(MalformedPath) as refused:
        paths.compile(text)
    assert (refused.value.path, refused.value.position) == (text, position)


@pytest.mark.parametrize(
    ("text", "document", "values"),
    [  # the RFC takes these, or answers so; jsonpath-rfc9535 1.0.1 does not
        ("$.a日", {"a日": 1}, [1]),
        ("$[?@.日本 == 1].日本", [{"日本": 1}], [1]),
        ("$[?@ < 1e400]", [1], [1]),
        ("$[?count(@[?@.a, 1]) == 1]", [[0, 1], [0]], [[0, 1]]),
        ("$[?@]", [False, 0, "", None], [False, 0, "", None]),  # it is there, whatever it is
        ("$[?@.a == @.b]", [{"a": [1], "b": [True]}], []),
        ("$[?@ == 9007199254740993]", [9007199254740992], []),
        ("$[?match(@, 'a{10}')]", ["a" * 10], ["a" * 10]),
        ("$[?search(@, '[a&&b]')]", ["&"], ["&"]),  # I-Regexp knows no intersection
    ],
)
def test_accepted_where_the_library_slips(text, document, values):
    assert written(paths.compile(text).values(document)) == written(values)


@pytest.mark.parametrize("thing", [None, 1, b"$.a", ["$.a"], {}])
def test_only_a_string_is_a_path(thing):
    with pytest.raises(MalformedPath, match="expected a string, got"):
        paths.compile(thing)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("$" + ".a" * 5_000, "the limit is 10000 characters"),
        ("$[?" + "(" * 4_000, "nested more than 32"),
        ("$" + "[?@" * 3_000, "nested more than 32"),
        ("$[?" + "length(" * 1_000, "nested more than 32"),
        ("$[?" + "!" * 9_000, "expected a query"),
        ("$[?@.a" + " " * 9_000, "expected ',' or ']'"),
        ("$['" + "\\" * 9_001, "not allowed in a string"),
    ],
)
def test_hostile_text_is_refused_at_once(text, why):
    start = time.thread_time()
    with pytest.raises(MalformedPath, match=why):
        paths.compile(text)
    assert time.thread_time() - start < 5


def test_a_long_text_is_no_deep_recursion():
    names = "$" + ".a" * 4_000
    assert paths.compile(names).values({"a": 1}) == []
    assert paths.compile(names + "[*]").values({"a": 1}) == []
    assert paths.compile(names + "..b").values({"a": 1}) == []
    assert paths.compile("$[?@.a" + "||@.a" * 1_900 + "]").values([{"a": 1}, {}]) == [{"a": 1}]


def test_a_nearly_full_stack_is_a_refusal_not_a_crash():
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack()) + 60)
    try:
        with pytest.raises(MalformedPath, match="too deep"):
            paths.compile("$" + "[?@" * 30 + "]" * 30)
    finally:
        sys.setrecursionlimit(limit)


def test_a_query_is_compiled_once():
    assert paths.compile("$.once") is paths.compile("$.once")


# agreement with the library


KEYS = [
    "",
    "a",
    "b",
    "b c",
    "é",
    "日本",
    "😀",
    "'",
    '"',
    "\\",
    "\\'",
    "\n",
    "\x7f",
    "0",
    "-1",
    "$",
    "a.b",
    "_",
]
keys = st.sampled_from(KEYS)
scalars = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.0, 1.5, -1e300]) | keys
documents = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=20,
)
indexes = st.integers(-5, 5) | st.sampled_from([2**53 - 1, -(2**53) + 1])


@st.composite
def names(draw):
    """A name selector, written in any of the ways there are."""
    name = draw(keys)
    quoted = json.dumps(name, ensure_ascii=draw(st.booleans()))
    single = "'" + quoted[1:-1].replace('\\"', '"').replace("'", "\\'") + "'"
    return draw(st.sampled_from([quoted, single]))


bounds = st.none() | st.integers(-5, 5)
slices = st.builds(
    lambda *parts: ":".join("" if part is None else str(part) for part in parts), bounds, bounds, bounds
)
shorthand = st.sampled_from([".a", ".b", ".é", "._", " .日", "\n.a"])
one_key = shorthand | (names() | indexes.map(str)).map("[{}]".format)
selectors = names() | indexes.map(str) | slices | st.just("*")
child = (
    one_key
    | st.sampled_from([".*", " [ * ]"])
    | st.lists(selectors, min_size=1, max_size=3).map(lambda parts: f"[{', '.join(parts)}]")
)
singular = st.lists(one_key, max_size=5).map(lambda parts: "$" + "".join(parts))
chains = st.lists(child, max_size=5).map(lambda parts: "$" + "".join(parts))


def library(text, document):
    return jsonpath_rfc9535.find(text, document).values()


@given(text=singular, document=documents)
def test_a_getter_finds_what_the_library_finds(text, document):
    query = paths.compile(text)
    value = query.get(document)
    assert query.singular
    assert written(query.values(document)) == written(library(text, document))
    assert query.values(document) == ([] if value is MISSING else [value])


@given(text=chains, document=documents)
@example(text="$[*]['a', 'a'][::0]", document=[{"a": [1]}])
def test_a_chain_finds_what_the_library_finds_in_its_order(text, document):
    assert written(paths.compile(text).values(document)) == written(library(text, document))


FILTERS = [
    "$..*",
    "$..a",
    "$..[0, 'a', ::2]",
    "$[?@.a]",
    "$[?!@.a && @.b || @[0]]",
    "$..[?@.a == @.b]",
    "$..[?@ != $.a]",
    "$..[?@ <= 1]",
    "$..[?@ > 'a']",
    "$..[?length(@) > 1]",
    "$..[?count(@.*) == 2].a",
    "$..[?value(@..a) == 1]",
    "$..[?@[?@.a]]",
    "$..[?match(@, '.') || search(@, '[a-c]')]",
]


@given(text=st.sampled_from(FILTERS), document=documents)
def test_descendants_and_filters_find_what_the_library_finds(text, document):
    document = json.loads(
        written(document).replace("true", "null").replace("false", "null")
    )  # [1] == [true] there
    assert written(paths.compile(text).values(document)) == written(library(text, document))


@given(text=st.text("$.[]'\"ab01-:,* \\u\n", max_size=12).map("$".__add__) | singular | chains)
@example(text="$[1:2 3]")
def test_both_agree_on_what_a_singular_query_is(text):
    try:
        theirs = jsonpath_rfc9535.compile(text).singular_query()
    except JSONPathError:
        theirs = False
    try:
        ours = paths.compile(text).singular
    except MalformedPath:
        ours = False
    assert ours == theirs


# one value


DOCUMENT = {"a": {"b": [10, 20, {"c": None}]}, "text": "hello", "": 0, "yes": True}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("$", DOCUMENT),
        ("$.a.b[0]", 10),
        ("$.a.b[-2]", 20),
        ("$.a.b[3]", MISSING),
        ("$.a.b[-4]", MISSING),
        ("$.a.b[2].c", None),  # null is a value, absent is not
        ("$.a.b[2].d", MISSING),
        ("$['']", 0),
        ("$.text[0]", MISSING),  # a text is no array
        ("$.a[0]", MISSING),
        ("$.a.b['0']", MISSING),
        ("$.yes[0]", MISSING),
    ],
)
def test_get_returns_the_value_of_a_path(text, value):
    assert paths.compile(text).get(DOCUMENT) == value


@pytest.mark.parametrize(
    ("text", "singular", "names"),
    [
        ("$", True, ()),
        ("$.a['b c']", True, ("a", "b c")),
        ("$.a[0]", True, None),
        ("$[ 'a' ]", True, ("a",)),
        ("$.a[*]", False, None),
        ("$['a','b']", False, None),
        ("$..a", False, None),
        ("$[0:1]", False, None),
        ("$[?@.a]", False, None),
    ],
)
def test_a_query_knows_whether_it_is_singular_and_its_names(text, singular, names):
    query = paths.compile(text)
    assert (query.text, query.singular, query.names) == (text, singular, names)
    assert repr(query) == f"Query({text!r})"


def test_get_is_for_singular_queries():
    with pytest.raises(TypeError, match="may select several"):
        paths.compile("$.a[*]").get({})


# no query can hang the process


def deep(levels: int, leaf: Any = 1) -> Any:
    for _ in range(levels):
        leaf = {"a": [leaf]}
    return leaf


def nested(levels: int) -> Any:
    return json.loads("[" * levels + "]" * levels)


def bush(levels: int) -> Any:
    return [bush(levels - 1)] * 2 if levels else 1


WIDE = [{"a": i, "b": [1, 2, 3]} for i in range(1_000)]
BUSH = bush(14)
BOMB = "a" * 5_000 + "!b"


@pytest.mark.parametrize(
    ("text", "document", "limit"),
    [
        ("$[*]", [0] * 200_000, "100000 nodes"),
        ("$" + "[0, 0]" * 40, nested(50), "100000 nodes"),
        ("$" + "[*, ::-1, *]" * 500, nested(900), "100000 nodes"),
        ("$..*..*..*", BUSH, "100000 nodes|1 seconds"),
        ("$" + "..*" * 3_000, BUSH, "100000 nodes|1 seconds"),
        ("$..[?@..*[?@..*]]", BUSH, "100000 nodes|1 seconds"),
        ("$[?@..*[?@..*[?@..*]]]", BUSH, "100000 nodes|1 seconds"),
        ("$[?$..*]", WIDE, "100000 nodes|1 seconds"),  # in the filter, though it selects little
        ("$[?count($..*) == 1]", WIDE, "100000 nodes|1 seconds"),
        ("$[?1 == 2]", [0] * 200_000, "100000 nodes|1 seconds"),  # selects nothing, asks about all
        ("$[?" + "||".join(["$..x"] * 1_000) + "]", [0] * 200_000, "100000 nodes|1 seconds"),
        ("$[?$[0] == $[1]]", [WIDE, json.loads(json.dumps(WIDE))] * 100, "100000 nodes|1 seconds"),
        ("$[?@.a == @.b]", [{"a": [0] * 200_000, "b": [0] * 200_000}], "100000 nodes"),
        ("$[?$[0] == $[1]]", ["x" * 10**7, "x" * (10**7 - 1) + "x"] * 5_000, "1 seconds"),
        ("$..a", deep(5_000), "200 deep"),
        ("$..a", nested(201), "200 deep"),
        ("$[?@..a]", [deep(5_000)], "200 deep"),
        ("$[?match(@, '(a|aa)*(a|aa)*(a|aa)*b')]", [BOMB], "1 seconds"),
        ("$[?search(@, '(a|aa)*(a|aa)*(a|aa)*b')]", [BOMB], "1 seconds"),
        ("$[?match(@.t, @.p)]", [{"t": BOMB, "p": "(" * 30 + "a" + ")+" * 30}], "1 seconds"),
        ("$[?match(@.t, @.p)]", [{"t": BOMB, "p": r"\p{L}" * 17}], "too many categories"),
        ("$[?match(@.t, @.p)]", [{"t": BOMB, "p": "(" * 50_000 + "a" + ")" * 50_000}], "2000 characters"),
        ("$[?match(@.t, @.p)]", [{"t": BOMB, "p": "(" * 999 + "a" + ")" * 999}], "too deep"),
    ],
)
def test_a_catastrophe_ends_soon_and_says_which_limit(text, document, limit):
    query = paths.compile(text)
    start = time.thread_time()
    short = {"max_seconds": 0.1} if limit.endswith("1 seconds") else {}
    with pytest.raises(PathFault, match=limit.replace("1 seconds", "0.1 seconds")):
        query.values(document, **short)
    assert time.thread_time() - start < 10


@pytest.mark.parametrize(
    ("text", "document", "count"),
    [
        ("$[?@.a == @.b]", [{"a": deep(5_000), "b": deep(5_000)}], 1),  # deep, and no recursion
        ("$[?@.a == @.b]", [{"a": deep(5_000), "b": deep(5_000, "x")}], 0),
        ("$" + ".a[0]" * 1_000, deep(5_000), 1),
        ("$" + ".a[*]" * 1_000, deep(5_000), 1),
        ("$..a", deep(100), 100),
        ("$[?@..*]", [nested(200)], 1),
        ("$..*", [0] * 99_999, 99_999),
        (
            "$[?match(@, '[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}')]",
            ["0" * 8 + "-0000" * 3 + "-" + "0" * 12],
            1,
        ),
    ],
)
def test_a_large_document_gets_its_answer(text, document, count):
    assert len(paths.compile(text).values(document, max_seconds=10)) == count


@pytest.mark.parametrize(
    "pattern",
    ["a**", "[b-a]", "a{2,1}", "(?i)a", r"\d", "(", ")", "a)(", "[]", "a{,2}", "\ud800", 1, None, ["a"]],
)
def test_an_invalid_i_regexp_matches_nothing(pattern):
    document = [{"text": "a", "pattern": pattern}]
    for function in ("match", "search"):
        assert paths.compile(f"$[?{function}(@.text, @.pattern)]").values(document) == []


@pytest.mark.parametrize("text", ["$.a[*]", "$..a[*]", "$[?@[3]][*]"])
def test_the_node_limit_is_exact_and_the_callers(text):
    document = {"a": [1, 2, 3, 4]}
    cost = next(n for n in range(100) if not faulty(text, document, max_nodes=n))
    assert cost > 4
    with pytest.raises(PathFault, match=f"more than {cost - 1} nodes"):
        paths.compile(text).values(document, max_nodes=cost - 1)
    with pytest.raises(PathFault, match=r"more than 0\.0001 seconds"):
        paths.compile("$..*").values(WIDE, max_seconds=0.0001)


def faulty(text, document, **limits):
    try:
        paths.compile(text).values(document, **limits)
    except PathFault:
        return True
    return False


def test_each_call_has_its_own_budget():
    query = paths.compile("$[?@.a >= 0].a")
    small = WIDE[:50]
    with ThreadPoolExecutor(8) as pool:
        running = [
            pool.submit(faulty, query.text, WIDE if i % 2 else small, max_nodes=300) for i in range(200)
        ]
        assert [call.result() for call in running] == [bool(i % 2) for i in range(200)]
