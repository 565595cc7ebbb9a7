"""`assay suite show`: one suite (RFC 0081 §A)."""

import msgspec
from msgspec import UNSET

from assay.agenteval.planning.mode_names import MODE_NOTES
from assay.agenteval.suites.extension import tools_of
from assay.agenteval.suites.suite import read_suite_file
from assay.checks.trajectory.wording import call_text, pattern_document
from assay.cli.console.console import count_of, echo_json
from assay.cli.console.console_table import Page, Table
from assay.protocol.agent_evals import AgentEvalSuite, EvalTask
from assay.protocol.suite_extension import extended_tasks, extension_of
from assay.settings import load

_MODES = ", ".join(f"{name} ({note})" if note else name for name, note in MODE_NOTES.items())
TEMPLATE = """\
# A suite: the tasks of an agent and the expected results (OpenWOP RFC 0081). \
`assay schema AgentEvalSuite` prints its schema.
suiteId: local.mine.evals.first      # <scope>.<org>.evals.<name>
version: 1.0.0
modes: [golden]                      # MODES
thresholds:
  passScore: 0.8                     # the mean score that passes
  # maxCostUsd: 0.50                 # an unknown cost does not pass
  # maxP95LatencyMs: 8000

tasks:
  - taskId: greets                   # the input of the agent, and the expected result
    input: {name: Ada}
    expected: {kind: golden, match: {strategy: contains, value: Ada}}     # exact, contains or json-match

  # - taskId: is-polite              # modes: [rubric], and `assay run --judge PROVIDER:MODEL`
  #   input: {name: Ada}
  #   expected:
  #     kind: rubric
  #     rubric:
  #       - {criterion: greets the person by name, weight: 0.7}
  #       - {criterion: is one sentence, weight: 0.3}

  # - taskId: looks-it-up            # a fixture is the answer of a tool; the live tool is not called
  #   input: {customer: 17}
  #   expected: {kind: golden, match: {strategy: json-match, value: {state: sent}}}
  #   fixtures:
  #     toolResponses:
  #       - {tool: "shop:orders", response: {state: sent}}
  #       - {tool: "shop:refund", response: {ok: true}}
  #     memorySeed: [{id: m1, content: "customer tier: gold"}]

# x-assay:                             # tools that the agent must call, and must not call, by task
#   tasks:
#     looks-it-up: {must_call: ["shop:orders"], must_not_call: ["shop:refund"]}
""".replace("MODES", _MODES)
MAX_CELL = 70  # characters of a value


def show(*, file: str, json: bool) -> None:
    """Print the suite as a table."""
    document = read_suite_file(file, load().limits)
    if json:
        echo_json(msgspec.json.encode(document))
        return
    page = Page(soft_wrap=False)
    page.put(f"{document.suite_id} {document.version}, {count_of(len(document.tasks), 'task')}")
    for line in _description(document):
        page.put(line)
    table = Table(header_style="bold")
    for column in ("task", "input", "expected", "fixtures"):
        table.add_column(column, overflow="fold")
    for task in extended_tasks(document, document.tasks):
        expected = "; ".join([_expected_text(task), *_calls(task)])
        table.add_row(task.task_id, _shorten(task.input), expected, _fixtures(task))
    page.print(table)


def _description(suite: AgentEvalSuite) -> list[str]:
    lines = [f"modes {', '.join(suite.modes)}"]
    if suite.target_agent_id is not UNSET:
        lines.append(f"for {suite.target_agent_id}")
    if suite.allowed_models is not UNSET:
        lines.append(f"models {', '.join(suite.allowed_models)}")
    thresholds: dict[str, float] = {} if suite.thresholds is UNSET else msgspec.to_builtins(suite.thresholds)
    if thresholds:
        lines.append(f"thresholds {', '.join(f'{name} {value:g}' for name, value in thresholds.items())}")
    return lines


def _expected_text(task: EvalTask) -> str:
    if task.expected.match is not UNSET:
        return f"{task.expected.match.strategy} {_shorten(task.expected.match.value)}"
    criteria = task.expected.rubric or ()
    return "; ".join(f"{criterion.criterion} ({criterion.weight:g})" for criterion in criteria)


def _calls(task: EvalTask) -> list[str]:
    """`calls orders; never refund with {"all":true}`."""
    expected = extension_of(task)
    if expected is None:
        return []
    lists = (("calls", expected.must_call), ("never", expected.must_not_call))
    return [
        f"{word} {', '.join(call_text(pattern_document(one)) for one in patterns)}"
        for word, patterns in lists
        if patterns
    ]


def _fixtures(task: EvalTask) -> str:
    seeds = 0 if task.fixtures is UNSET else len(task.fixtures.memory_seed)
    return ", ".join([*sorted(tools_of(task)), *([f"{seeds} memories"] if seeds else [])]) or "–"


def _shorten(value: object) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if len(text) <= MAX_CELL else f"{text[: MAX_CELL - 1]}…"
