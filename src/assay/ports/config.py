"""Tables of assay.toml for agents, tools, MCP servers and workflows: `[agents."…"]`, `[workflows."…"]` and so on."""

import re
from typing import Annotated, Any, Literal

import msgspec

from assay.protocol.agents import MemoryShape, ModelClass
from assay.protocol.verification import CRITERION

Positive = Annotated[float, msgspec.Meta(gt=0)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
Version = Annotated[str, msgspec.Meta(pattern=r"^\d+\.\d+\.\d+([-+][0-9A-Za-z.+-]+)?\Z")]
ToolId = Annotated[str, msgspec.Meta(pattern=r"^[^:\s]+:\S+\Z")]
CriterionKey = Annotated[str, msgspec.Meta(pattern=CRITERION)]
Names = dict[str, str]

SafetyKind = Literal[  # of findings (openwop-contract §6.3)
    "jailbreak",
    "prompt-injection",
    "system-prompt-leak",
    "pii-leak",
    "secret-leak",
    "unsafe-tool-call",
    "data-exfiltration",
    "unsafe-output",
    "excessive-agency",
]
AgentKind = Literal["callable", "http", "command", "manifest", "recorded"]


class AgentConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An agent under test. Only `kind` and `target` are required; a manifest has most of the rest itself."""

    kind: AgentKind
    target: Annotated[str, msgspec.Meta(min_length=1)]  # module:function, an address, a command, a file
    version: Version = "0.0.0"
    model_class: ModelClass | None = None  # None: general, or what the manifest says
    model: str | None = None  # of a manifest: instead of what `[models]` has for its class
    free: bool = False  # its usage costs nothing
    tools: tuple[ToolId, ...] | None = None  # the allow-list
    persona: Annotated[str, msgspec.Meta(max_length=200)] = ""
    label: Annotated[str, msgspec.Meta(max_length=100)] = ""
    description: Annotated[str, msgspec.Meta(max_length=500)] = ""
    memory: MemoryShape | None = None
    threshold: Share | None = None  # below this confidence it escalates
    criteria: tuple[CriterionKey, ...] = ()  # keys of its own that events may hold (openwop-contract §8.1)
    task_schema: str | None = None  # a file
    return_schema: str | None = None
    system_prompt: str | None = None  # a file; detectors look for it in what the agent writes
    timeout: Positive | None = None  # seconds for one invocation; a run may set less
    takes_tools: bool | None = None  # False: of an http or command agent that never calls back
    takes_memory: bool | None = None
    headers: Names = {}  # of an http agent; `${VARIABLES}` are filled in
    env: Names = {}  # of a command, besides the environment
    max_rounds: Annotated[int, msgspec.Meta(ge=1)] = 8  # of a manifest: calls of its model


class PolicyRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """
    A rule over the tool calls of a trial.

    `calls` is a JSONPath over the list of calls, such as `$[?@.tool == 'bank:pay']`.

    Each selected call breaks the rule; with `after` only one before which no call that `after` selects succeeded; with
    `max` only those beyond this number.
    """

    name: Annotated[str, msgspec.Meta(pattern="^[a-z0-9][a-z0-9-]*$", max_length=64)]
    calls: str
    after: str | None = None
    max: Annotated[int, msgspec.Meta(ge=0)] | None = None


class SafetyPolicy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What agents may do in the mode `adversarial`. Names of tools, hosts and paths may have `*`."""

    allow_tools: tuple[str, ...] | None = None  # beside the allow-list of the agent
    deny_tools: tuple[str, ...] = ()
    deny_hosts: tuple[str, ...] = ()  # and their subdomains
    deny_paths: tuple[str, ...] = ()  # and what is below them
    deny_commands: tuple[str, ...] = ()
    max_tool_calls: Annotated[int, msgspec.Meta(ge=0)] | None = None
    max_repeats: Annotated[int, msgspec.Meta(ge=2)] | None = None
    rules: tuple[PolicyRule, ...] = ()
    judge: bool = False  # whether a model looks at every trial, beside the detectors
    judge_kinds: tuple[SafetyKind, ...] = ()  # that the model looks for; (): all


class PackKeyConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A public key that may sign packs. Its id is the `signing.publicKeyRef` of a pack."""

    file: Annotated[str, msgspec.Meta(min_length=1)]  # Ed25519, PEM
    namespaces: tuple[str, ...] = ()  # whose packs it may sign, such as vendor.acme; (): all


class ToolConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A live tool, under the id `<scope>:<tool-id>`."""

    kind: Literal["python", "http", "mcp"]
    target: Annotated[str, msgspec.Meta(min_length=1)]  # module:function, an address, the name at the server
    server: str | None = None  # of kind mcp: which of `[mcp]`
    description: str = ""
    input_schema: dict[str, Any] | None = (
        None  # None: the schema of the function or the server, else any object
    )
    timeout: Positive = 30.0
    headers: Names = {}
    method: Literal["POST", "GET"] = "POST"


class McpServer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An MCP server: a command that is started, or an address. Each of its tools is `NAME:<tool>`."""

    command: str | None = None
    url: str | None = None
    env: Names = {}
    headers: Names = {}
    timeout: Positive = 30.0  # seconds for one call, and for the start


class ConfidenceFloors(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Below this confidence a person decides. A supervisor's floor is 0.5 or more (openwop-contract §13.6)."""

    actor: Share = 0.7
    critic: Share = 0.7
    supervisor: Annotated[float, msgspec.Meta(ge=0.5, le=1)] = 0.5


class VerifierLoopConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A built-in workflow: an actor, critics that review its work, and a supervisor that decides (RFC 0090)."""

    actor: Annotated[str, msgspec.Meta(min_length=1)]  # an agent's id, or `workflow:ID`
    supervisor: str = ""  # an agent's id; "": the plain rule
    critics: list[str] = []  # agents' ids; `checks` are the criteria
    criteria: list[str] | dict[str, Any] = []  # keys, or keys with the check each stands for
    max_turns: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 5
    gating: bool = True
    failing: Literal["revise", "fail"] = "revise"  # the verdict of a failed check
    on_fail: Literal["escalate", "retry", "give-up"] = "escalate"
    verify: Literal["decision", "tools"] = "decision"  # tools: their answers are verified too
    allow_self: bool = True  # whether the actor may be its own critic
    floors: ConfidenceFloors | None = None
    approval_seconds: Positive | None = None  # without an answer until then, the request is rejected
    approve: bool = False  # of an actor that is a workflow: a person approves its output
    memory: str | None = None  # the reference of the actor's memory


Days = Annotated[int, msgspec.Meta(ge=1, le=36_500)]


class RetentionPolicy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long the runs of a tenant keep their evidence. Without a number of days they keep it for ever."""

    evidence_days: Days | None = None  # after the end of a run
    keep_last: Annotated[int, msgspec.Meta(ge=0, le=1_000)] = 0  # completed runs of each kind and name
    kinds: dict[Literal["evaluation", "agent-eval", "workflow"], Days] = {}  # instead of `evidence_days`

    def days(self, kind: str) -> int | None:
        return next((days for name, days in self.kinds.items() if name == kind), self.evidence_days)


class Retention(RetentionPolicy, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[retention]`: the policy of every tenant without one of its own, and those in `[retention.tenants.NAME]`."""

    tenants: dict[str, RetentionPolicy] = {}

    def policy(self, tenant: str) -> RetentionPolicy:
        """The policy of a tenant; its own replaces the general one as a whole."""
        return self.tenants.get(tenant, self)

    @property
    def removes(self) -> bool:
        """Whether any policy has a number of days."""
        return any(one.evidence_days or one.kinds for one in (self, *self.tenants.values()))


_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_SPAN = re.compile(r"([0-9]{1,6})([smhdw])")


def seconds_of(span: Any) -> int | None:
    """`7d` in seconds; None for anything that is not a span of time."""
    found = _SPAN.fullmatch(span) if isinstance(span, str) else None
    return None if found is None else int(found[1]) * _UNITS[found[2]]


Duration = Annotated[str, msgspec.Meta(pattern=r"^[0-9]{1,6}[smhdw]\Z")]
AttributeValue = str | int | float | bool


class TraceProjectConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[traces.NAME]`: traces that a server receives over OTLP, and how it scores them."""

    checks: str | list[Any]  # a file of checks, or the checks
    sample: Annotated[float, msgspec.Meta(gt=0, le=1)] = 1.0  # the share of traces that are scored
    filter: dict[str, AttributeValue | list[AttributeValue]] = {}  # only traces with these attributes
    case: Literal["trace", "conversation"] = "trace"  # what one case is
    window: Duration = "1d"  # whose traces become one stored evaluation
    settle: Duration = "5s"  # after the root of a trace, for spans and log records that come later
    quiet: Duration = "60s"  # without a span, until a trace without a root is scored
    retention: Duration = "0s"  # that spans are kept after they are scored
    tenants: tuple[str, ...] = ()  # that may send; (): all
    to: str | tuple[str, ...] = ()  # where the verdicts go: otlp=URL or phoenix=URL, one or several
    headers: Names = {}  # of the requests to `to`, in place of those of variables; `${VARIABLES}` are filled in

    @property
    def targets(self) -> tuple[str, ...]:
        return (self.to,) if isinstance(self.to, str) else self.to
