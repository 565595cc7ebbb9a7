"""`assay diff`: where two stored runs part ways, task by task: another tool, other arguments, another answer."""

import msgspec
from msgspec import Struct

from assay.agenteval.planning.run_header import KIND as EVAL
from assay.agenteval.planning.run_header import read_request
from assay.agenteval.results.detail import detail_of
from assay.auth.audit import audit_read
from assay.cli.console.console import count_of, echo_json
from assay.cli.console.console_table import Page
from assay.cli.render.case import ShownCase, text_of
from assay.cli.stored_runs.run_list import with_evaluations
from assay.cli.stored_runs.show_run import add_trajectories, case_of, trials_of
from assay.comparison.divergence import Divergence, TaskPath, compared_steps, first_divergence
from assay.errors import UsageError
from assay.fep.records.run_header import KIND
from assay.fep.records.service import EvaluationService
from assay.ports import CLOSED, Run
from assay.protocol.json_types import JSON, is_object
from assay.results.reasons import reason_of, short
from assay.runs.find_run import find_run
from assay.runs.run_names import title_of
from assay.stats.number_text import case_value, trial_text

SHOWN = 10  # tasks without --limit
TEXT = 300  # characters of a step or an answer
CONTEXT = 20  # characters before the first difference of two long answers
STEPS = 5  # equal steps that are listed before the difference
WORDS = {
    "tool": "another tool",
    "arguments": "other arguments",
    "result": "another result of the tool",
    "step": "another step",
    "answer": "another answer",
    "outcome": "the same steps and answer, another outcome",
}
Key = tuple[str, int]  # the id of a task or case, and the trial


class Parting(Struct, frozen=True, kw_only=True):
    """A trial of a task that both runs have, and where they differ."""

    id: str
    trial: int | None
    a: TaskPath
    b: TaskPath
    divergence: Divergence

    @property
    def document(self) -> JSON:
        about: JSON = {"id": self.id} | ({} if self.trial is None else {"trial": self.trial})
        sides = {"a": _side(self.a), "b": _side(self.b)}
        return about | {"divergence": msgspec.to_builtins(self.divergence)} | sides


class DiffResult(Struct, frozen=True, kw_only=True):
    """Two runs side by side."""

    a: Run
    b: Run
    noun: str
    same: int
    partings: list[Parting]
    only_a: list[str]
    only_b: list[str]


def main(*, a: str, b: str, task: str | None, limit: int, tenant: str | None, json: bool) -> None:
    """Print where the two runs part ways."""

    async def compare(evaluations: EvaluationService) -> DiffResult:
        runs = [await find_run(evaluations.store, one, tenant=tenant) for one in (a, b)]
        for run in runs:
            await audit_read(evaluations.store, run, content=True)
            _check(run)
        one, two = runs
        if one.kind != two.kind:
            raise UsageError(
                f"expected two runs of one kind, got {one.id} ({one.kind}) and {two.id} ({two.kind})"
            )
        return _diff(one, two, await _paths(evaluations, one), await _paths(evaluations, two), task)

    result = with_evaluations(compare)
    if json:
        echo_json(msgspec.json.encode(_document(result, limit)))
    else:
        _show(result, limit)


def _check(run: Run) -> None:
    if run.kind not in (EVAL, KIND):
        raise UsageError(f"{run.id}: expected an agent eval or an evaluation, got a run of kind {run.kind}")
    if run.erased:
        raise UsageError(f"{run.id}: {run.erasure}")
    if run.status not in CLOSED:
        raise UsageError(f"{run.id}: expected a run that has ended, got one that is {run.status}")


async def _paths(evaluations: EvaluationService, run: Run) -> dict[Key, ShownCase]:
    """Every trial of a run, in the order of its suite or input."""
    store, cases = evaluations.store, list[ShownCase]()
    if run.kind == EVAL:
        request = await read_request(store, run.id)
        card = await detail_of(store, run, {}, max_reasons=0)
        cases += [case async for case in trials_of(store, run, request, card)]
        await add_trajectories(store, run, request, cases)
    else:
        cases += [case_of(msgspec.json.decode(line)) async for line in evaluations.results(run)]
    result: dict[Key, ShownCase] = {}
    for case in cases:
        key = (case.id, case.trial or 0)
        while key in result:  # cases of an evaluation may share an id: the second is compared with the second
            key = (case.id, key[1] + 1)
        result[key] = case
    return result


def _diff(
    a: Run, b: Run, one: dict[Key, ShownCase], two: dict[Key, ShownCase], task: str | None
) -> DiffResult:
    noun = "task" if a.kind == EVAL else "case"
    several = any(case.trial is not None for case in (*one.values(), *two.values()))
    if task is not None and not any(key[0] == task for key in (*one, *two)):
        raise UsageError(f"--task {task}: there is no such {noun} in {a.id} and {b.id}")
    partings: list[Parting] = []
    same = 0
    for key, case in one.items():
        if key not in two or task not in (None, key[0]):
            continue
        left, right = _path(case), _path(two[key])
        divergence = first_divergence(left, right)
        same += divergence is None
        if divergence is not None:
            partings.append(Parting(id=case.id, trial=case.trial, a=left, b=right, divergence=divergence))
    partings.sort(key=lambda parting: parting.a.passed == parting.b.passed)  # stable: changed outcomes first
    only_a = [_name(key, one) for key in one if key not in two and task in (None, key[0])]
    only_b = [_name(key, two) for key in two if key not in one and task in (None, key[0])]
    noun = "trial" if several else noun
    return DiffResult(a=a, b=b, noun=noun, same=same, partings=partings, only_a=only_a, only_b=only_b)


def _path(case: ShownCase) -> TaskPath:
    if case.result is None:
        return TaskPath(steps=case.trajectory, has_answer=False, error=case.reason)
    output: JSON = case.result["execution_context"]["output"]
    about = output.get("metadata")
    error = about.get("error") if is_object(about) else None
    reasons = [reason_of(check) for check in case.result["check_results"] if check["status"] != "completed"]
    return TaskPath(
        steps=case.trajectory,
        answer=output.get("value"),
        has_answer="value" in output and not error,
        error=str(error or "") or (reasons[0] if reasons and not case.measured else ""),
        passed=not case.failing if case.measured else None,
        score=case.score,
    )


def _name(key: Key, cases: dict[Key, ShownCase]) -> str:
    return key[0] if cases[key].trial is None else f"{key[0]} ({trial_text(key[1])})"


def _show(result: DiffResult, limit: int) -> None:
    page = Page()
    page.put(f"A  {_headline(result.a)}")
    page.put(f"B  {_headline(result.b)}")
    both = result.same + len(result.partings)
    page.put(
        f"{count_of(both, result.noun)} in both: {result.same:,} the same, {len(result.partings):,} part ways"
    )
    for name, ids in (("A", result.only_a), ("B", result.only_b)):
        if ids:
            more = f" and {len(ids) - STEPS:,} more" if len(ids) > STEPS else ""
            page.put(f"only in {name}: {', '.join(ids[:STEPS])}{more}")
    for parting in result.partings[:limit]:
        _put_parting(page, parting)
    if len(result.partings) > limit:
        page.put("")
        page.put(f"{len(result.partings) - limit:,} more: --limit N shows more, --task ID one of them")


def _headline(run: Run) -> str:
    agent = run.metadata.get("agentId", "")
    version = run.metadata.get("agentVersion", "")
    parts = [
        title_of(run),
        run.status,
        f"{run.created:%Y-%m-%d %H:%M}",
        run.name,
        f"{agent} {version}".strip(),
    ]
    return "  ".join(part for part in parts if part)


def _put_parting(page: Page, parting: Parting) -> None:
    trial = "" if parting.trial is None else f" ({trial_text(parting.trial)})"
    divergence = parting.divergence
    page.put("")
    outcome = f"{_outcome(parting.a)} → {_outcome(parting.b)}"
    page.put(f"{parting.id}{trial}  {outcome}: {WORDS[divergence.kind]}", "bold")
    same = compared_steps(parting.a)[: divergence.same]
    skipped = len(same) - STEPS
    if skipped > 0:
        page.put(f"    … {count_of(skipped, 'step')} the same")
    for step in same[-STEPS:]:
        page.put_indented("  = ", step_line(step), "dim")
    for mark, path, style in (("A", parting.a, "red"), ("B", parting.b, "green")):
        step = divergence.a if mark == "A" else divergence.b
        other = parting.b if mark == "A" else parting.a
        page.put_indented(f"  {mark} ", step_line(step) if is_object(step) else _answer(path, other), style)


def step_line(step: JSON) -> str:
    """A step in one line."""
    match step.get("type"):
        case "tool-called":
            return f"calls {step.get('tool')} {_short(step.get('inputs'))}"
        case "tool-returned":
            if is_object(error := step.get("error")):
                return f"{step.get('tool')} fails: {_short(error.get('message', error))}"
            return f"{step.get('tool')} answers {_short(step.get('outcome'))}"
        case "said":
            return f"{'user' if step.get('role') == 'user' else 'agent'} says {_short(step.get('content'))}"
        case "handed-off":
            return f"hands off to {step.get('to_agent_id')}"
        case _:
            return f"writes memory {step.get('memory_id')}"


def _answer(path: TaskPath, other: TaskPath) -> str:
    """The answer; if both are long, from the place where they part ways."""
    if not path.has_answer:
        return f"has no answer: {_short(path.error)}" if path.error else "has no answer"
    answer, compared = path.answer, other.answer
    if isinstance(answer, str) and isinstance(compared, str):
        same = _common_prefix(answer, compared)
        if same > TEXT // 2:
            return f"answers {_short('…' + answer[same - CONTEXT :])} from character {same + 1:,}"
    return f"answers {_short(answer)}"


def _common_prefix(left: str, right: str) -> int:
    """The number of characters that both texts begin with."""
    low, high = 0, min(len(left), len(right))
    while low < high:
        middle = (low + high + 1) // 2
        if left[low:middle] == right[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _short(value: object) -> str:
    return short(value, TEXT) if not isinstance(value, str) else short(text_of(value), TEXT)


def _outcome(path: TaskPath) -> str:
    if path.passed is None:
        return "not measured"
    score = "" if path.score is None or path.score in (0, 1) else f" {case_value(path.score)}"
    return ("passed" if path.passed else "failed") + score


def _side(path: TaskPath) -> JSON:
    side: JSON = {"passed": path.passed, "score": path.score}
    side |= {"answer": path.answer} if path.has_answer else {}
    return side | ({"error": path.error} if path.error else {})


def _document(result: DiffResult, limit: int) -> JSON:
    return {
        "a": result.a.id,
        "b": result.b.id,
        "same": result.same,
        "different": len(result.partings),
        "onlyA": result.only_a,
        "onlyB": result.only_b,
        "tasks": [parting.document for parting in result.partings[:limit]],
        "more": max(0, len(result.partings) - limit),
    }
