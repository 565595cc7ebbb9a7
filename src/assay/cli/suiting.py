"""What `assay suite` does: write one to begin with, validate some, show one."""

from pathlib import Path

import msgspec
from msgspec import UNSET

from assay.agenteval.suite import read_suite_file
from assay.cli.page import Page, Table
from assay.cli.say import give, tell
from assay.errors import InvalidRequest, Problem, UsageError
from assay.protocol.suite import AgentEvalSuite, EvalTask
from assay.settings import load

FIRST = """\
# A suite: what an agent is asked, and what is expected of it (OpenWOP RFC 0081). `assay schema AgentEvalSuite` has all of it.
suiteId: local.mine.evals.first      # <scope>.<org>.evals.<name>
version: 1.0.0
modes: [golden]                      # golden, rubric (needs a judge), regression (needs --baseline), live-shadow
thresholds:
  passScore: 0.8                     # the mean score that passes
  # maxCostUsd: 0.50                 # a cost that nobody knows does not pass this
  # maxP95LatencyMs: 8000

tasks:
  - taskId: greets                   # what the agent is given, and what must come back
    input: {name: Ada}
    expected: {kind: golden, match: {strategy: contains, value: Ada}}     # exact, contains or json-match

  # - taskId: is-polite              # modes: [rubric], and `assay run --judge PROVIDER:MODEL`
  #   input: {name: Ada}
  #   expected:
  #     kind: rubric
  #     rubric:
  #       - {criterion: greets the person by name, weight: 0.7}
  #       - {criterion: is one sentence, weight: 0.3}

  # - taskId: looks-it-up            # tools answer from fixtures, in their order; the live tool is not called
  #   input: {customer: 17}
  #   expected: {kind: golden, match: {strategy: json-match, value: {state: sent}}}
  #   fixtures:
  #     toolResponses: [{tool: "shop:orders", response: [{state: sent}]}]
  #     memorySeed: [{id: m1, content: "customer tier: gold"}]
"""
SHOWN = 70


def init(to: str) -> None:
    path = Path(to)
    if path.suffix not in (".yaml", ".yml"):
        raise UsageError(f"{to}: expected a file that ends in .yaml")
    if path.exists():
        raise UsageError(f"{to}: there is one already, and it is not overwritten")
    path.write_text(FIRST, encoding="utf-8")
    tell(f"{to} is written; try: assay run {to} --agent module:function")


def validate(files: list[str]) -> None:
    problems: list[Problem] = []
    limits = load().limits
    for name in files:
        try:
            suite = read_suite_file(name, limits)
        except InvalidRequest as refusal:
            problems += refusal.problems
            continue
        tell(f"{name}: {suite.suite_id} {suite.version}, {_many(len(suite.tasks))}")
    if problems:
        raise InvalidRequest(problems)


def show(name: str, *, json: bool) -> None:
    suite = read_suite_file(name, load().limits)
    if json:
        give(msgspec.json.encode(suite))
        return
    console = Page(160, soft_wrap=False)
    console.put(f"{suite.suite_id} {suite.version}, {_many(len(suite.tasks))}")
    for line in _about(suite):
        console.put(line)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("task", "input", "expected", "fixtures"):
        table.add_column(column, overflow="fold")
    for task in suite.tasks:
        table.add_row(task.task_id, _short(task.input), _expected(task), _fixtures(task))
    console.print(table)


def _about(suite: AgentEvalSuite) -> list[str]:
    told = [f"modes {', '.join(suite.modes)}"]
    if suite.target_agent_id is not UNSET:
        told.append(f"for {suite.target_agent_id}")
    if suite.allowed_models is not UNSET:
        told.append(f"models {', '.join(suite.allowed_models)}")
    bars: dict[str, float] = {} if suite.thresholds is UNSET else msgspec.to_builtins(suite.thresholds)
    return [*told, f"bars {', '.join(f'{name} {value:g}' for name, value in bars.items())}"] if bars else told


def _expected(task: EvalTask) -> str:
    if task.expected.match is not UNSET:
        return f"{task.expected.match.strategy} {_short(task.expected.match.value)}"
    criteria = task.expected.rubric or ()
    return "; ".join(f"{one.criterion} ({one.weight:g})" for one in criteria)


def _fixtures(task: EvalTask) -> str:
    if task.fixtures is UNSET:
        return "–"
    tools = sorted({one.tool for one in task.fixtures.tool_responses})
    seeds = len(task.fixtures.memory_seed)
    return ", ".join([*tools, *([f"{seeds} memories"] if seeds else [])]) or "–"


def _short(value: object) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"


def _many(tasks: int) -> str:
    return f"{tasks:,} task" if tasks == 1 else f"{tasks:,} tasks"
