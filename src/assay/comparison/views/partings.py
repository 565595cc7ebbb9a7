"""Where two stored runs part ways, task by task: another tool, other arguments, another answer."""

import msgspec
from msgspec import UNSET, Struct, UnsetType

from assay.agenteval.planning.run_header import KIND as EVAL
from assay.agenteval.planning.run_header import read_request
from assay.agenteval.results.detail import detail_of
from assay.cases.previews import words_of
from assay.comparison.divergence import Divergence, TaskPath, first_divergence
from assay.comparison.views.shown_cases import ShownCase, add_trajectories, case_of, trials_of
from assay.concurrency.threads import in_thread
from assay.errors import UsageError
from assay.fep.records.run_header import KIND
from assay.fep.records.service import EvaluationService
from assay.ports import CLOSED, Run
from assay.protocol.json_types import JSON, is_object
from assay.results.reasons import reason_of, short
from assay.stats.number_text import case_value, trial_text

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
        first = self.divergence
        about["divergence"] = {"kind": first.kind, "same": first.same}
        return about | {"a": _side(self.a, first.a), "b": _side(self.b, first.b)}


class DiffResult(Struct, frozen=True, kw_only=True):
    """Two runs side by side."""

    a: Run
    b: Run
    noun: str
    same: int
    partings: list[Parting]
    only_a: list[str]
    only_b: list[str]


async def read_partings(
    evaluations: EvaluationService, a: Run, b: Run, task: str | None = None
) -> DiffResult:
    """Two runs of one kind side by side. Raises UsageError for runs that cannot be, and for a task that none has."""
    for run in (a, b):
        _check(run)
    if a.kind != b.kind:
        raise UsageError(f"expected two runs of one kind, got {a.id} ({a.kind}) and {b.id} ({b.kind})")
    one, two = await _paths(evaluations, a), await _paths(evaluations, b)
    return await in_thread(lambda: _diff(a, b, one, two, task))


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
        request = await read_request(store, run)
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


def answer_line(path: TaskPath, other: TaskPath) -> str:
    """The answer; if both are long, from the place where they part ways."""
    if not path.has_answer:
        return f"has no answer: {_short(path.error)}" if path.error else "has no answer"
    answer, compared = path.answer, other.answer
    words = words_of(answer, "assistant"), words_of(compared, "assistant")
    if None not in words and words[0] != words[1]:
        answer, compared = words
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
    return short(value, TEXT)


def outcome_text(path: TaskPath) -> str:
    if path.passed is None:
        return "not measured"
    score = "" if path.score is None or path.score in (0, 1) else f" {case_value(path.score)}"
    return ("passed" if path.passed else "failed") + score


def _side(path: TaskPath, step: JSON | UnsetType) -> JSON:
    """What a run did. What the tested system said stands under `data`."""
    data: JSON = {"answer": path.answer} if path.has_answer else {}
    data |= {"error": path.error} if path.error else {}
    data |= {} if step is UNSET else {"step": step}
    return {"passed": path.passed, "score": path.score, "data": data}


def diff_document(result: DiffResult, limit: int) -> JSON:
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


# The same for a page: texts, a part of the list at a time.


class PartingView(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A trial that parts ways: what differs first, after how many equal steps, and what each run did there."""

    id: str
    what: str
    same_steps: int
    outcome_a: str
    outcome_b: str
    a: str
    b: str
    trial: int | None = None


class PartingsView(Struct, frozen=True, kw_only=True):
    """`noun` is what is counted: case, task or trial. `total` are those that part ways, changed outcomes first."""

    noun: str
    same: int
    total: int
    only_a: int
    only_b: int
    first: int
    partings: tuple[PartingView, ...]


def partings_view(result: DiffResult) -> PartingsView:
    return PartingsView(
        noun=result.noun,
        same=result.same,
        total=len(result.partings),
        only_a=len(result.only_a),
        only_b=len(result.only_b),
        first=0,
        partings=tuple(map(_view, result.partings)),
    )


def _view(parting: Parting) -> PartingView:
    found = parting.divergence
    a, b = parting.a, parting.b
    return PartingView(
        id=parting.id,
        what=WORDS[found.kind],
        same_steps=found.same,
        outcome_a=outcome_text(a),
        outcome_b=outcome_text(b),
        a=step_line(found.a) if is_object(found.a) else answer_line(a, b),
        b=step_line(found.b) if is_object(found.b) else answer_line(b, a),
        trial=None if parting.trial is None else parting.trial + 1,
    )
