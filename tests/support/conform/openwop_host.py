"""A server of ours as `assay conform` needs it: sample agents and workflows, a judge, a tool that counts its calls."""

from assay.agenteval.planning.request import EvalLimits
from assay.auth.keys import DEFAULT, DEPLOY
from assay.comparison.policy import ApprovalRules, PromotionPolicy, PromotionRules
from assay.conform.check import Host, Keys
from assay.conform.http_client import HttpClient
from assay.ports.agents import ToolFailure
from assay.protocol.agents import ToolSpec
from assay.seams.routes import SEAMS
from assay.seams.sample_agents import CONFORM, SAMPLES
from assay.serve.application import ROUTES
from assay.serve.web.limit_settings import ServerLimits
from support.servers.rest_client import Server

COUNTER = "conform:counter"
FAST = 100_000.0  # requests a second
MB = 2**20


class CountingTools:
    """One live tool, which returns the number of its calls."""

    def __init__(self):
        self.calls = 0

    def static_specs(self, tools):
        return [ToolSpec(id=tool) for tool in tools if tool == COUNTER]

    async def specs(self, tools):
        return self.static_specs(tools)

    async def call(self, tool, arguments):
        if tool != COUNTER:
            raise ToolFailure("unknown_tool", f"there is no tool {tool}")
        self.calls += 1
        return self.calls

    async def close(self): ...


def first_criterion_met(request):
    """A judge that finds the first criterion met, and no other."""
    names = request.schema["properties"]
    return {name: {"reason": "so it is", "met": at == 0} for at, name in enumerate(names)}


def conform_server(address, **changes):
    """A server with everything that the checks of OpenWOP need."""
    means = {
        "agents": SAMPLES,
        "judge": first_criterion_met,
        "tools": CountingTools(),
        "seeded": True,
        "policy": PromotionPolicy(agents={CONFORM: PromotionRules(approval=ApprovalRules())}),
        "routes": [*ROUTES, *SEAMS],
        "critic_seconds": 0.1,
        "host": EvalLimits(max_tasks=30),
        "serving": ServerLimits(max_body_bytes=MB, max_tenant_runs=64, max_runs=128),
    }
    return Server(address, **means | changes)


def keys_of(server):
    """Keys of two tenants, one that may only read, and one of an approver."""
    return Keys(
        server.key(scopes=DEFAULT | DEPLOY),
        server.key(tenant="other", scopes=DEFAULT | DEPLOY),
        server.key(scopes={"runs:read"}),
        server.key(scopes={"approvals:respond"}),
    )


def host_at(address, keys, *others):
    clients = [HttpClient(one, rate=FAST) for one in (address, *others)]
    return Host(clients[0], keys, agent=CONFORM, others=clients[1:])
