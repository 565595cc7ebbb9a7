"""
The ids and the texts of some cases of a run, from its evidence. A unit of several cases stores its ids apart from its
results.
"""

import time
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from assay.concurrency.tenant_threads import off_loop
from assay.fep.case_outcomes import IDS, RESULTS, read_result
from assay.fep.reasons import is_failing, reason_of, unmet_criteria
from assay.ports import EvidenceChunk, Store
from assay.protocol.json_types import JSON, is_object

PREVIEW = 300  # characters
SCAN_SECONDS = 1.0
_ids = msgspec.json.Decoder(list[Any]).decode


class CaseTexts(Struct, frozen=True, kw_only=True):
    """
    The beginnings of the texts of a result.

    `reason`: of the first check that failed or was not measured; else the criteria of a rubric that are not met.
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
    found: dict[int, CaseTexts] = {}
    wanted = set(numbers)
    for number in sorted(wanted):
        if number in found:
            continue
        for chunk in await store.chunks(run, RESULTS, start=number, stop=number + 1, limit=1):
            found |= await off_loop(len(chunk.data), lambda chunk=chunk: _texts(chunk, wanted))
    return found


def _texts(chunk: EvidenceChunk, numbers: set[int]) -> dict[int, CaseTexts]:
    lines = chunk.lines()
    here = [number for number in numbers if chunk.first <= number <= chunk.last]
    return {number: texts_of(msgspec.json.decode(lines[number - chunk.first])) for number in here}


def texts_of(result: JSON) -> CaseTexts:
    context = result["execution_context"]
    case, output = context["test_case"], context["output"]
    checks: list[JSON] = result["check_results"]
    failing = next((check for check in checks if is_failing(check)), None)
    unmet = next((text[:PREVIEW] for check in checks if (text := unmet_criteria(check))), None)
    return CaseTexts(
        input=_text(case.get("input")),
        output=_text(output.get("value")),
        expected=_text(case["expected"]) if "expected" in case else None,
        reason=unmet if failing is None else _reason(failing, context["output"])[:PREVIEW],
    )


def _text(value: Any) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if len(text) <= PREVIEW else f"{text[: PREVIEW - 1]}…"


async def results_with_id(
    store: Store, run: str, ids: frozenset[str], results: int
) -> tuple[dict[int, str], int]:
    """
    The results of cases with one of these ids, and the number of results that were looked at. The time is bounded.
    """
    found: dict[int, str] = {}
    number, until = 0, time.monotonic() + SCAN_SECONDS
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


def _reason(check: JSON, output: JSON) -> str:
    """Why a check failed; the error of the agent, if it has one, says more."""
    metadata = output.get("metadata")
    error = metadata.get("error") if is_object(metadata) else None
    return error if isinstance(error, str) and error else reason_of(check)
