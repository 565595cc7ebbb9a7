"""Scopes of keys and tokens (FEP-43, openwop-contract §2.1). No scope implies another."""

from collections.abc import Iterable

from assay.errors import Problem

SCOPES: dict[str, str] = {  # those that a route needs
    "evaluations:create": "start evaluations",
    "evaluations:read": "read evaluations, their results and the catalogue of checks",
    "evaluations:cancel": "cancel evaluations",
    "runs:create": "start and fork runs",
    "runs:read": "read runs, their events, summaries and reports",
    "runs:cancel": "cancel runs",
    "runs:delete": "erase the content of runs and evaluations",
    "deploy:promote": "promote versions of agents, and adjust their canary percentages",
    "deploy:pause": "pause and deprecate versions of agents",
    "deploy:rollback": "roll versions of agents back",
    "approvals:respond": "answer a run that waits for a person",
    "manifest:read": "read agents and workflows",
    "suites:read": "read suites",
    "suites:write": "store suites",
    "packs:publish": "install packs",
    "packs:yank": "remove packs",
    "metrics:read": "read metrics",
}
RESERVED: frozenset[str] = (
    frozenset(  # the protocols' names for what this host does not serve; a key may have them
        {
            "artifacts:read",
            "audit:read",
            "keys:manage",
            "webhooks:manage",
        }
    )
)
DEPLOY: frozenset[str] = frozenset(scope for scope in SCOPES if scope.startswith("deploy:"))
DEFAULT: frozenset[str] = (
    frozenset(SCOPES) - DEPLOY
)  # of the local key, and of a key created without scopes; the operator must name the others


def problems_of(scopes: Iterable[str]) -> list[Problem]:
    """One problem that names all unknown scopes."""
    unknown = ", ".join(repr(scope[:40]) for scope in sorted(set(scopes) - SCOPES.keys() - RESERVED))
    return [Problem("scope", f"no scope {unknown}; there are {', '.join(SCOPES)}")] if unknown else []
