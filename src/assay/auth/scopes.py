"""Scopes of keys and tokens (decision 43, openwop-contract §2.1). No scope implies another."""

from collections.abc import Iterable

from assay.errors import Problem

SCOPES: dict[str, str] = {
    "evaluations:create": "start evaluations",
    "evaluations:read": "read evaluations, their results and the catalogue of checks",
    "evaluations:cancel": "cancel evaluations",
    "runs:create": "start and fork runs",
    "runs:read": "read runs, their events, summaries and reports",
    "runs:cancel": "cancel, pause and resume runs",
    "artifacts:read": "read the artifacts of runs",
    "approvals:respond": "answer a run that waits for a person",
    "manifest:read": "read agents, deployments and workflows",
    "suites:read": "read suites",
    "suites:write": "store suites",
    "packs:publish": "publish packs",
    "packs:yank": "withdraw packs",
    "deploy:promote": "promote deployments",
    "deploy:rollback": "roll deployments back",
    "deploy:pause": "pause deployments",
    "webhooks:manage": "register and remove webhooks",
    "audit:read": "read the audit log",
    "metrics:read": "read metrics",
    "keys:manage": "create, list and revoke keys of the same tenant",
}
DEFAULT: frozenset[str] = frozenset(SCOPES)  # of the local key, and of a key created without scopes


def problems_of(scopes: Iterable[str]) -> list[Problem]:
    """One problem that names all unknown scopes."""
    unknown = ", ".join(repr(scope[:40]) for scope in sorted(set(scopes) - SCOPES.keys()))
    return [Problem("scope", f"no scope {unknown}; there are {', '.join(SCOPES)}")] if unknown else []
