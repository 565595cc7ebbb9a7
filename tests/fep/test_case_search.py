"""The search in the results of a run: what it finds, how far it looks, and where it goes on."""

import asyncio

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.cases import case_search
from assay.cases.case_search import PARTS, SearchQuery, match_of, search_results, snippet_of
from support.evals import eval_host, golden, suite_of

RESULT = {
    "execution_context": {
        "test_case": {"id": "Order-17", "input": {"says": "Where is it?"}, "expected": "Friday", "metadata": {"tags": ["late", "eu"]}},
        "output": {"value": "It is in STRASSE 5 🚲 now"},
    },
    "check_results": [
        {"check_type": "contains", "status": "completed", "results": {"passed": True}, "metadata": {"reason": "secret of a pass"}},
        {"check_type": "regex", "status": "completed", "results": {"passed": False}, "metadata": {"reason": "no match"}},
        {"check_type": "threshold", "status": "error", "error": {"message": "no number"}},
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("query", "part"),
    [
        ({"text": "order-17"}, "id"),
        ({"text": "WHERE is"}, "input"),
        ({"text": "friday"}, "expected"),
        ({"text": "straße"}, "output"),
        ({"text": "regex: no match"}, "reason"),
        ({"text": "no number"}, "reason"),
        ({"text": "secret of a pass"}, None),
        ({"text": "friday", "parts": ("input", "output")}, None),
        ({"tags": ("eu",)}, ""),
        ({"tags": ("eu", "late"), "text": "it"}, "input"),
        ({"tags": ("us",), "text": "it"}, None),
        ({"text": "$["}, None),
    ],
)
def test_a_result_matches_by_text_and_tags(query, part):
    match = match_of(RESULT, SearchQuery(**query))
    assert (None if match is None else match.part) == part


@given(st.text(max_size=400), st.text(alphabet="aßİſK🚲é ", min_size=1, max_size=6), st.text(max_size=400))
def test_the_snippet_has_the_match_at_its_place(before, wanted, after):
    text = before + wanted + after
    start = text.casefold().find(wanted.casefold())
    snippet, at, length = snippet_of(text, start, len(wanted.casefold()))
    units = snippet.encode("utf-16-le", "surrogatepass")
    found = units[2 * at : 2 * (at + length)].decode("utf-16-le", "surrogatepass")
    assert wanted.casefold() in found.casefold() or found.casefold() in wanted.casefold()
    assert len(snippet) <= 2 * case_search.SNIPPET


def _pages(query, limit, **bounds):
    """All pages of a search in a run of 30 tasks with two trials each."""

    async def main():
        tasks = [
            golden(f"task-{number}", "even", "even" if number % 2 == 0 else "odd") for number in range(30)
        ]
        async with eval_host(lambda task: task) as hosted:
            run = await hosted.run(suite_of(*tasks), trials=2)
            pages, start = [], 0
            while not pages or not pages[-1].looked.complete:
                page = await search_results(hosted.store, run, query, start=start, limit=limit)
                assert page.looked.start == start
                assert page.looked.stop > start
                pages.append(page)
                start = page.looked.stop
            return pages

    return asyncio.run(main())


@pytest.mark.parametrize(("limit", "most_bytes"), [(1, 1 << 23), (7, 1 << 23), (200, 1), (200, 1 << 23)])
def test_pages_of_any_size_find_the_same(monkeypatch, limit, most_bytes):
    monkeypatch.setattr(case_search, "MAX_BYTES", most_bytes)
    monkeypatch.setattr(case_search, "MAX_SECONDS", 60.0)
    pages = _pages(SearchQuery(text="odd", parts=("output",)), limit)
    assert all(len(page.matches) <= limit for page in pages)
    found = [(match.position, match.trial) for page in pages for match in page.matches]
    assert found == [(position, trial) for position in range(1, 30, 2) for trial in (0, 1)]
    assert pages[-1].looked.stop == 60


def test_the_answer_has_the_names_of_the_wire():
    match = match_of(RESULT, SearchQuery(text="friday", parts=PARTS))
    assert msgspec.to_builtins(match) == {
        "position": 0, "trial": 0, "caseId": "Order-17", "in": "expected", "snippet": "Friday", "at": 0, "length": 6,
    }  # fmt: skip
