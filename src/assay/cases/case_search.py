"""Search for text and tags in the results of a run: a bounded scan of the evidence, which says how far it looked."""

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Literal, TypeVar

import msgspec
from msgspec import Struct

from assay.cases.outcomes import IDS, RESULTS, read_result
from assay.cases.previews import PREVIEW, preview_of
from assay.concurrency.threads import off_loop
from assay.ports import EvidenceChunk, Run, Store
from assay.protocol.json_types import JSON, is_list, is_object
from assay.results.check_names import scored_label
from assay.results.reason_groups import reason_groups
from assay.results.reasons import is_failing, reason_of, unmet_criteria
from assay.results.slices import Dimension

MAX_BYTES = 8 * 1024 * 1024  # that one call reads
MAX_SECONDS = 0.3
SNIPPET = 160  # characters
T = TypeVar("T")
Part = Literal["id", "input", "output", "expected", "reason"]
PARTS: tuple[Part, ...] = ("id", "input", "output", "expected", "reason")


class SearchQuery(Struct, frozen=True, kw_only=True):
    """
    What is looked for: a text in some parts of a case, in any case of letters, and tags, of which a case has all.

    `slices`: dimensions, each with the name of a slice, of which a case is in all. `groups`: of failures, likewise.
    """

    text: str = ""
    tags: tuple[str, ...] = ()
    slices: tuple[tuple[Dimension, str], ...] = ()
    groups: tuple[str, ...] = ()
    parts: tuple[Part, ...] = PARTS


class CaseMatch(Struct, frozen=True, kw_only=True, rename={"part": "in", "case_id": "caseId"}):
    """
    A result that matches. `at` and `length` are the match in the snippet, in UTF-16 units; -1 if only tags were looked
    for.
    """

    position: int
    trial: int
    case_id: str
    part: str
    snippet: str
    at: int
    length: int


class SearchedPart(Struct, frozen=True, kw_only=True, rename={"start": "from", "stop": "to"}):
    """How far a search looked: results from number `start` up to `stop`, exclusive."""

    cases: int
    bytes: int
    start: int
    stop: int
    total: int
    complete: bool


class SearchPage(Struct, frozen=True, kw_only=True):
    matches: list[CaseMatch]
    looked: SearchedPart


async def search_results(
    store: Store,
    run: Run,
    query: SearchQuery,
    *,
    start: int = 0,
    limit: int = 50,
    within: Collection[int] | None = None,
) -> SearchPage:
    """
    The matches from result number `start` on. A call ends with the run, at `limit` matches, or at a bound.

    `within`: only cases at these positions are looked at.
    """
    trials: int = run.metadata.get("trials", 1)
    total = results_total(run)
    matches: list[CaseMatch] = []
    at, size, until = start, 0, time.monotonic() + MAX_SECONDS
    while at < total:
        chunks = await store.chunks(run.id, RESULTS, start=at, limit=1 if size == 0 else 8)
        if not chunks:
            at = total  # the rest has no results
        for chunk in chunks:
            first = max(at, chunk.first)
            lines = chunk.lines(first)
            search = partial(_search, lines, first, trials, query, limit - len(matches), until, within)
            found, seen = await off_loop(len(chunk.data), search)
            matches += found
            size += len(chunk.data)
            at = first + seen
            if seen < len(lines) or len(matches) >= limit or size >= MAX_BYTES or time.monotonic() >= until:
                return _page(matches, start, at, total, size)
    return _page(matches, start, at, total, size)


def results_total(run: Run) -> int:
    """The number of results that a run has when it is complete: one for each trial."""
    total: int = run.metadata.get("total", 0)
    return total * run.metadata.get("trials", 1) if run.kind == "agent-eval" else total


def _page(matches: list[CaseMatch], start: int, stop: int, total: int, size: int) -> SearchPage:
    looked = SearchedPart(
        cases=stop - start, bytes=size, start=start, stop=stop, total=total, complete=stop >= total
    )
    return SearchPage(matches=matches, looked=looked)


def _search(
    lines: Sequence[bytes],
    first: int,
    trials: int,
    query: SearchQuery,
    limit: int,
    until: float,
    within: Collection[int] | None,
) -> tuple[list[CaseMatch], int]:
    """The matches in these lines, and how many lines were read: at least one."""
    found: list[CaseMatch] = []
    for number, line in enumerate(lines):
        position, trial = divmod(first + number, trials)
        wanted = within is None or position in within
        match = match_of(msgspec.json.decode(line), query) if wanted else None
        if match is not None:
            found.append(msgspec.structs.replace(match, position=position, trial=trial))
        if len(found) >= limit or (number % 64 == 63 and time.monotonic() >= until):
            return found, number + 1
    return found, len(lines)


def match_of(result: JSON, query: SearchQuery) -> CaseMatch | None:
    """The first match in a result, in the order of the parts; None if it does not match."""
    case: JSON = result["execution_context"]["test_case"]
    if query.tags and not set(query.tags) <= set(tags_of(case)):
        return None
    if not all(name in one.slices_of(result["execution_context"]) for one, name in query.slices):
        return None
    if query.groups and not set(query.groups) <= set(reason_groups(result)):
        return None
    id = str(case.get("id", ""))
    if not query.text:
        return CaseMatch(position=0, trial=0, case_id=id, part="", snippet="", at=-1, length=0)
    wanted = query.text.casefold()
    for part in query.parts:
        for text in _texts(result, part):
            if (start := text.casefold().find(wanted)) >= 0:
                snippet, at, length = snippet_of(text, start, len(wanted))
                return CaseMatch(
                    position=0, trial=0, case_id=id, part=part, snippet=snippet, at=at, length=length
                )
    return None


def tags_of(case: JSON) -> list[str]:
    """The tags of a case: `metadata.tags` or `tags`, a text or a list."""
    metadata = case.get("metadata")
    tags: Any = metadata.get("tags") if is_object(metadata) else None
    tags = case.get("tags") if tags is None else tags
    return [str(tag) for tag in tags] if is_list(tags) else [tags] if isinstance(tags, str) else []


def _texts(result: JSON, part: Part) -> Iterator[str]:
    context: JSON = result["execution_context"]
    match part:
        case "id":
            yield str(context["test_case"].get("id", ""))
        case "input" | "expected":
            if part in context["test_case"]:
                yield _text(context["test_case"][part])
        case "output":
            if "value" in context["output"]:
                yield _text(context["output"]["value"])
        case "reason":
            for check in result["check_results"]:
                if is_failing(check):
                    yield f"{scored_label(check)}: {reason_of(check, context['test_case'])}"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def snippet_of(text: str, start: int, length: int) -> tuple[str, int, int]:
    """The text around a match, and where the match is in it. `start` and `length` count folded characters."""
    if not text.isascii():
        first, last = _unfold(text, start), _unfold(text, start + length)
        start, length = first, max(1, last - first)
    low = max(0, min(start - SNIPPET // 3, len(text) - SNIPPET))
    snippet = text[low : low + max(SNIPPET, start - low + length)][: 2 * SNIPPET]
    return snippet, _utf16(snippet[: start - low]), _utf16(snippet[start - low : start - low + length])


def _unfold(text: str, folded: int) -> int:
    """The index in the text of an index in the folded text, where a letter may have become two."""
    if len(text.casefold()) == len(text):
        return folded
    seen = 0
    for at, letter in enumerate(text):
        if seen >= folded:
            return at
        seen += len(letter.casefold())
    return len(text)


def _utf16(text: str) -> int:
    return len(text) + sum(letter > "\uffff" for letter in text)


# The ids and the texts of some cases of a run, from its evidence. A unit of several cases stores its ids apart
# from its results.

SCAN_SECONDS = 1.0
_ids = msgspec.json.Decoder(list[Any]).decode


class CaseTexts(Struct, frozen=True, kw_only=True):
    """
    The beginnings of the texts of a result.

    `reason`: of the first check that was not measured, else of the first that failed; else the criteria of a rubric
    that are not met.
    """

    input: str
    output: str
    expected: str | None
    reason: str | None


async def case_ids(store: Store, run: str, numbers: Iterable[int]) -> dict[int, str]:
    """The id of the case of each of these results that is stored."""
    found: dict[int, str] = {}
    for number in sorted(set(numbers)):
        if number in found:
            continue
        chunks = await store.chunks(run, IDS, start=number, stop=number + 1, limit=1)
        if chunks:
            found |= {chunks[0].first + at: str(id) for at, id in enumerate(_ids(chunks[0].data))}
            continue
        for chunk in await store.chunks(run, RESULTS, start=number, stop=number + 1, limit=1):
            found |= await off_loop(len(chunk.data), lambda chunk=chunk: _result_ids(chunk))
    return found


def _result_ids(chunk: EvidenceChunk) -> dict[int, str]:
    return {at: read_result(line).id for at, line in enumerate(chunk.lines(), chunk.first)}


async def case_texts(store: Store, run: str, numbers: Sequence[int]) -> dict[int, CaseTexts]:
    """The texts of each of these results that is stored."""
    return await read_results(store, run, numbers, texts_of)


async def read_results(
    store: Store, run: str, numbers: Sequence[int], read: Callable[[JSON], T]
) -> dict[int, T]:
    """What `read` finds in each of these results that is stored."""
    found: dict[int, T] = {}
    wanted = set(numbers)
    for number in sorted(wanted):
        if number in found:
            continue
        for chunk in await store.chunks(run, RESULTS, start=number, stop=number + 1, limit=1):
            found |= await off_loop(len(chunk.data), lambda chunk=chunk: _read_chunk(chunk, wanted, read))
    return found


def _read_chunk(chunk: EvidenceChunk, numbers: set[int], read: Callable[[JSON], T]) -> dict[int, T]:
    lines = chunk.lines()
    here = [number for number in numbers if chunk.first <= number <= chunk.last]
    return {number: read(msgspec.json.decode(lines[number - chunk.first])) for number in here}


def texts_of(result: JSON) -> CaseTexts:
    context = result["execution_context"]
    case, output = context["test_case"], context["output"]
    checks: list[JSON] = result["check_results"]
    failing = min(filter(is_failing, checks), key=lambda check: check["status"] == "completed", default=None)
    unmet = next((text[:PREVIEW] for check in checks if (text := unmet_criteria(check, case))), None)
    return CaseTexts(
        input=preview_of(case.get("input"), "user"),
        output=preview_of(output.get("value"), "assistant"),
        expected=preview_of(case["expected"], "assistant") if "expected" in case else None,
        reason=unmet if failing is None else _reason(failing, context)[:PREVIEW],
    )


async def results_with_id(
    store: Store, run: str, ids: frozenset[str], results: int, seconds: float = SCAN_SECONDS
) -> tuple[dict[int, str], int]:
    """The results of cases with one of these ids, and how many results were looked at in this time."""
    found: dict[int, str] = {}
    number, until = 0, time.monotonic() + seconds
    while number < results and time.monotonic() < until:
        chunks = await store.chunks(run, IDS, start=number, limit=1)
        if not chunks or chunks[0].first > number:
            chunks = await store.chunks(run, RESULTS, start=number, limit=1)
            if not chunks:
                break
            chunk_ids = await off_loop(len(chunks[0].data), lambda chunk=chunks[0]: _result_ids(chunk))
        else:
            chunk_ids = {chunks[0].first + at: str(id) for at, id in enumerate(_ids(chunks[0].data))}
        found |= {at: id for at, id in chunk_ids.items() if id in ids}
        number = chunks[0].last + 1
    return found, min(number, results)


def _reason(check: JSON, context: JSON) -> str:
    """Why a check failed; the error of the agent, if it has one, says more."""
    metadata = context["output"].get("metadata")
    error = metadata.get("error") if is_object(metadata) else None
    if isinstance(error, str) and error:
        return error
    return f"{scored_label(check)}: {reason_of(check, context['test_case'])}"
