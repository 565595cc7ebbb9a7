"""`assay evaluate --only`: which cases of the input run, and which part of it that is."""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import msgspec

from assay.api.sources import open_sources
from assay.cli.console.console import echo_err
from assay.cli.console.only import NothingToRun, Only, names, refuse_unknown
from assay.cli.evaluate.evaluate_options import EvaluateOptions
from assay.comparison.result_line import read_line
from assay.comparison.sources import StoredSource
from assay.comparison.stored_runs import require_comparable
from assay.errors import UsageError
from assay.fep.records.run_header import KIND
from assay.host import parts
from assay.inputs.context import Context
from assay.ports import CLOSED, LOCAL_TENANT, RunQuery
from assay.protocol.json_types import JSON
from assay.results.reasons import is_failing
from assay.results.run_part import DATA, RunPart, part_in
from assay.settings import Settings

RECENT = 1_000  # newest runs that are searched for one of the same data
T = TypeVar("T")


class CaseChoice:
    """The cases that `--only` chose. `known` are the ids of all of them, if the input can be read before the run."""

    def __init__(
        self, options: EvaluateOptions, only: Only, settings: Settings, known: dict[str, None] | None
    ) -> None:
        self._only, self._known = only, known
        if only.ids and known is None:
            raise UsageError(
                "--only ID: expected a file, got standard input; the ids are looked up before anything runs"
            )
        refuse_unknown(only.ids, known or {}, "the input", "case")
        self._runs, failing = _failing(options, only, settings) if only.failing else ([], {})
        if known is not None and (gone := [id for id in failing if id not in known]):
            echo_err(f"--only: the input no longer has {names(gone, 'case')}")
            failing = {id: None for id in failing if id in known}
        self._ids = frozenset((*only.ids, *failing))
        if not self._ids:
            raise NothingToRun(f"nothing to run: no case of the input failed in {', '.join(self._runs)}")

    def select(self, items: Iterable[T], limit: int | None, id_of: Callable[[T], str]) -> Iterator[T]:
        """The chosen cases; with `limit`, the first of them."""
        chosen: set[str] = set()
        for item in items:
            id = id_of(item)
            if id in self._ids and (limit is None or id in chosen or len(chosen) < limit):
                chosen.add(id)
                yield item

    def part(self, cases: int) -> RunPart | None:
        """The part of the input that so many cases are; None: they are all of it."""
        whole = None if self._known is None else len(self._known)
        if whole is not None and whole == len(self._ids) == cases:
            return None
        return RunPart(cases=cases, of=whole, rule=self._only.rule, runs=tuple(self._runs))


def case_id(context: Context) -> str:
    return context.document["test_case"]["id"]


def _failing(options: EvaluateOptions, only: Only, settings: Settings) -> tuple[list[str], dict[str, None]]:
    """The runs or files that were read, and the ids of the cases that did not pass when they last ran there."""
    runs = list(only.runs)
    if only.latest:
        runs += asyncio.run(_latest(options, settings))
    passed: dict[str, bool] = {}
    titles: list[str] = []
    for run in runs:
        title, found = asyncio.run(_outcomes(run))
        titles.append(title)
        for id, well in found.items():
            passed.setdefault(id, well)
    return titles, {id: None for id, well in passed.items() if not well}


async def _outcomes(reference: str) -> tuple[str, dict[str, bool]]:
    """The name of a run or a file, and whether each of its cases passed every check in every trial."""
    found: dict[str, bool] = {}
    async with open_sources([reference], ["only"], None) as (source,):
        if isinstance(source, StoredSource):
            require_comparable(source.run)
            if source.run.kind != KIND:
                raise UsageError(
                    f"--only failing:{reference}: expected a run of `assay evaluate`, got a run of a suite"
                )
            if source.run.status != "completed":
                echo_err(
                    f"--only: {source.run.id} is {source.run.status}: cases that it never reached are not chosen"
                )
        async for place, raw in source.lines():
            line = read_line(raw, place)
            if line.is_beside:
                continue
            result: JSON = msgspec.json.decode(raw)
            well = result["status"] == "completed" and not any(map(is_failing, result["check_results"]))
            id = line.case["id"]
            found[id] = found.get(id, True) and well
        return source.name, found


async def _latest(options: EvaluateOptions, settings: Settings) -> list[str]:
    """The latest stored runs of the same files and agent, newest first, up to one that has every case."""
    if not (data := options.data_digest):
        raise UsageError(
            "--only failing: expected a file, got standard input; --only failing:RUN names a run"
        )
    runs: list[str] = []
    query = RunQuery(tenant=LOCAL_TENANT, kind=KIND, statuses=CLOSED, limit=RECENT)
    async with parts.store(settings, light=True) as store:
        for run in await store.runs(query):
            if run.metadata.get(DATA) == data and not run.erased:
                runs.append(run.id)
                if part_in(run.metadata) is None:
                    return runs
    if not runs:
        of = f" and {options.agent}" if options.agent else ""
        named = " and ".join(options.inputs)
        raise UsageError(
            f"--only failing: no run of {named}{of} is stored: run it with --save first, or name a run or a file of"
            " results, --only failing:RUN"
        )
    return runs
