"""
The output of an agent, as FEP scores it: the value that came back, and in `$.output.metadata` how the invocation went.

An agent that raised, timed out or refused was measured: its checks fail. An agent that could not be called was not
measured: its checks end with an error (FEP-48).
"""

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct

from assay.agents.invocation import Invocation, invoke
from assay.checks.arguments import BoundCheck
from assay.checks.runner import run_check, skip_result
from assay.concurrency.threads import in_thread
from assay.errors import BudgetExceeded, Fault, ForeignFault, TimeFault
from assay.fep.execution.execute import ExecutionOptions
from assay.fep.execution.inline import score_contexts
from assay.fep.planning.plan import Plan
from assay.fep.planning.scorer import Scorer, waits
from assay.fep.records.run_header import AgentRequest
from assay.inputs.context import Context, too_long
from assay.ports import Limits
from assay.ports.agents import Agent, ToolBox
from assay.protocol.agents import AgentCard, InvocationResult, Step, Usage, UsageStep, model_name
from assay.protocol.json_types import JSON
from assay.protocol.redaction import UNKNOWN, redact_text, safe_name
from assay.protocol.results import CheckError, CheckResult
from assay.results.spending import NOTHING, Spending
from assay.results.tally import Tally
from assay.runs.agent_answers import AgentAnswers

UNMEASURED = "unmeasured"  # the outcome of an agent that could not be called
MESSAGE = 2_000  # characters of an error
MAX_MODELS = 5  # in the metadata of an output
INVOCATION, CASE = "$.output.metadata", "$.test_case"
ENDINGS = f"{INVOCATION}.outcome", f"{INVOCATION}.error"
_encode = msgspec.json.Encoder().encode


class AgentOutput(Struct, frozen=True, kw_only=True):
    """
    A case with the output of the agent. `fault`: why the agent could not be called. `answered`: it has a value to
    score.
    """

    context: Context
    answered: bool = True
    fault: Fault | None = None
    spending: Spending = NOTHING


class AgentDependencies(Struct, frozen=True, kw_only=True):
    """What a process brings to a run: the agent, its live tools, how it is asked, and the plan of the checks."""

    agent: Agent
    tools: ToolBox | None
    request: AgentRequest
    plan: Plan
    keeps_answers: bool = False  # they are recorded before they are judged: judges wait for batches


class RecordedAnswer(Struct, frozen=True, kw_only=True):
    """What a run has of an answer that waits for its judges."""

    output: Raw
    spending: Spending


async def run_trial(
    deps: AgentDependencies,
    context: Context,
    number: int,
    options: ExecutionOptions,
    answers: AgentAnswers | None = None,
) -> tuple[bytes, Tally]:
    """
    Ask the agent, unless the context has its answer already, and score it: the TestCaseResult of trial `number` of the
    run.
    """
    output = recorded_output(context)
    if output is None:
        output = await _answer(deps, context, number, answers)
        if (budget := deps.plan.services.batch_budget) is not None:
            budget.charge(output.spending.known_cost_usd)
    tally = Tally(part=True)
    return await score_output(deps.plan, number // deps.request.trials, output, tally, options), tally


async def _answer(
    deps: AgentDependencies, context: Context, number: int, answers: AgentAnswers | None
) -> AgentOutput:
    """The output of the agent. One that is judged later is what was recorded: it is the same after a restart."""
    request = deps.request
    recorded = None if answers is None else await answers.read(answers.key(number))
    if recorded is None:
        output = await ask_agent(
            deps.agent,
            context,
            trial=number % request.trials,
            trials=request.trials,
            seconds=request.seconds,
            tools=deps.tools,
            limits=deps.plan.services.limits,
        )
        waits = output.answered and deps.plan.scorer_for(number // request.trials, context).waits
        if answers is None or not answers.keeps or not waits:
            return output
        value = Raw(_encode(output.context.document["output"]))
        recorded = _encode(RecordedAnswer(output=value, spending=output.spending))
        await answers.keep(number, recorded)
    answer = _recorded(recorded)
    document: JSON = {
        "test_case": context.document["test_case"],
        "output": msgspec.json.decode(answer.output),
    }
    return AgentOutput(context=Context(_encode(document), document, context.checks), spending=answer.spending)


_recorded = msgspec.json.Decoder(RecordedAnswer).decode


async def ask_agent(
    agent: Agent,
    context: Context,
    *,
    trial: int,
    trials: int,
    seconds: float,
    tools: ToolBox | None,
    limits: Limits,
) -> AgentOutput:
    """Invoke the agent with the input of a case. Its tools are live; its memory is empty."""
    case = context.document["test_case"]
    invocation = Invocation(
        agent.card,
        tools,
        live=True,
        task_id=case["id"],
        trial=trial,
        seconds=seconds,
        max_depth=limits.max_depth,
    )
    fault: Fault | None = None
    try:
        result = await invoke(agent, case["input"], invocation)
    except (ForeignFault, TimeFault) as raised:
        fault = raised
        result = InvocationResult(outcome="failed", error=redact_text(str(raised))[:MESSAGE])
    about = metadata_of(result, invocation.steps, invocation.seconds, agent.card)
    about |= {"trial": trial} if trials > 1 else {}
    about |= {"outcome": UNMEASURED} if fault else {}
    return _output(context, result, about, fault, limits, spending_of_steps(invocation.steps))


def metadata_of(result: InvocationResult, steps: Sequence[Step], seconds: float, card: AgentCard) -> JSON:
    """
    The invocation, as checks read it at `$.output.metadata`. A cost or a number of tokens that is not known is left
    out.
    """
    usages = [step.usage for step in steps if isinstance(step, UsageStep)]
    metadata: JSON = {"outcome": result.outcome, "latency_ms": round(seconds * 1000)}
    metadata |= usage_metadata(usages, free=card.free)
    metadata |= {} if result.confidence is None else {"confidence": result.confidence}
    metadata |= {} if result.error is None else {"error": result.error[:MESSAGE]}
    return metadata | {"trajectory": msgspec.to_builtins(steps)}


def usage_metadata(usages: Sequence[Usage], *, free: bool) -> JSON:
    """The models, the cost and the tokens of some model calls, as far as they are known. Several models are a list."""
    costs = [usage.cost_usd for usage in usages]
    known = [cost for cost in costs if cost is not None]
    usage: JSON = {"cost_usd": round(sum(known), 12)} if (usages or free) and None not in costs else {}
    if usages:
        sent, received = sum(one.input_tokens for one in usages), sum(one.output_tokens for one in usages)
        usage |= {"tokens": sent + received, "input_tokens": sent, "output_tokens": received}
    names = dict.fromkeys(safe_name(model_name(one.provider, one.model)) for one in usages)
    models = [name for name in names if name != UNKNOWN][:MAX_MODELS]
    return usage | ({"model": models[0] if len(models) == 1 else models} if models else {})


def spending_of_steps(steps: Sequence[Step]) -> Spending:
    """The spending of the agent, as it reported it."""
    total = NOTHING
    for step in steps:
        if isinstance(step, UsageStep):
            usage, cost = step.usage, step.usage.cost_usd
            tokens = usage.input_tokens + usage.output_tokens
            total += Spending(1, cost, cost or 0.0, int(cost is None), tokens)
    return total


def has_answer(result: InvocationResult) -> bool:
    return result.outcome not in ("failed", "refused") and result.result is not UNSET


def _output(
    context: Context,
    result: InvocationResult,
    about: JSON,
    fault: Fault | None,
    limits: Limits,
    spending: Spending,
) -> AgentOutput:
    answered = fault is None and has_answer(result)
    try:
        line, document = _line(context, result.result if answered else None, about)
        problem = too_long(limits) if len(line) > limits.max_line_bytes else ""
    except (TypeError, ValueError, RecursionError) as wrong:
        line, document, problem = b"", {}, f"not JSON: {wrong}"
    if problem:
        answered = False
        about = {name: value for name, value in about.items() if name != "trajectory"}
        about |= {"outcome": "failed", "error": f"the output is {problem}", "trajectory": []}
        line, document = _line(context, None, about)
    return AgentOutput(
        context=Context(line, document, context.checks), answered=answered, fault=fault, spending=spending
    )


def _line(context: Context, value: Any, about: JSON) -> tuple[bytes, JSON]:
    document = {"test_case": context.document["test_case"], "output": {"value": value, "metadata": about}}
    return _encode(document), document


def recorded_output(context: Context) -> AgentOutput | None:
    """The output of a case that was answered before, in a run that this one continues; None if it has none yet."""
    outcome = context.document["output"].get("metadata", {}).get("outcome")
    if outcome is None:
        return None
    no_answer = context.document["output"].get("value") is None and outcome == "escalated"
    return AgentOutput(context=context, answered=outcome not in ("failed", "refused") and not no_answer)


async def score_output(
    plan: Plan, number: int, output: AgentOutput, tally: Tally, options: ExecutionOptions
) -> bytes:
    """The TestCaseResult of a case and its output, counted in the tally. `number` is the position of the case."""
    context = output.context
    scorer = plan.scorer_for(number, context)
    if output.answered:
        how = options if scorer.waits else ExecutionOptions()  # a check that does not wait is not cut off
        budget = plan.services.batch_budget
        if budget is not None:  # it refuses calls by itself
            how = how._replace(max_cost=math.inf)
        try:
            (line,) = await score_contexts(plan, [context], tally, how._replace(first=number))
        except BudgetExceeded:
            assert budget is not None
            raise BudgetExceeded(budget.spent, budget.ceiling or 0.0) from None
    else:
        scored = scorer.result_of(
            context, await _without_value(scorer, output, plan), scorer.answers_in(tally)
        )
        tally.count_case(scored.status)
        line = scored.line
    tally.spending += output.spending
    return line


async def _without_value(scorer: Scorer, output: AgentOutput, plan: Plan) -> list[CheckResult]:
    """The results of the checks where there is no value to score."""
    document, services = output.context.document, plan.services
    about: JSON = document["output"]["metadata"]
    results: list[CheckResult] = []
    for bound in scorer.checks:
        if output.fault is not None:
            results.append(_mark_unmeasured(skip_result(bound, services), output.fault))
        elif reads_outcome(bound) and not waits(bound.checker):
            results.append(await in_thread(partial(run_check, bound, document, services, plan.options)))
        else:
            results.append(_failed(skip_result(bound, services), about))
    return results


def reads_outcome(bound: BoundCheck) -> bool:
    """
    Whether the check asks how the invocation ended, and does not read its value. Such a check also runs where there is
    no value.
    """
    texts = [path.text for path in bound.paths]
    others = "".join(texts).replace(INVOCATION, "").replace(CASE, "")
    return any(ending in text for text in texts for ending in ENDINGS) and "$" not in others


def _failed(result: CheckResult, about: JSON) -> CheckResult:
    verb = about["outcome"] if about["outcome"] in ("refused", "escalated") else "failed"
    reason = f"the agent {verb}: {about['error']}" if about.get("error") else f"the agent {verb}"
    metadata = {**(result.metadata or {}), "reason": reason}
    return msgspec.structs.replace(result, status="completed", results={"passed": False}, metadata=metadata)


def _mark_unmeasured(result: CheckResult, fault: Fault) -> CheckResult:
    message = redact_text(str(fault))[:MESSAGE]
    error = CheckError(type=fault.type, message=message, recoverable=fault.recoverable)
    return msgspec.structs.replace(result, status="error", error=error)
