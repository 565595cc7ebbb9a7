"""
Which addresses the agents of tenants may have: public ones, and those that the operator allows.

A tenant must not reach the network of the server through it. A name is looked at when it is resolved, so that it cannot
point elsewhere later.
"""

import ipaddress
import socket
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any
from urllib.parse import urlsplit

import aiohttp  # an extra: `from_settings.py` imports this file on demand
from aiohttp.abc import AbstractResolver, ResolveResult

from assay.backends.agents.http import HttpAgent, HttpSessions
from assay.errors import ForeignFault, InvalidRequest, Problem
from assay.ports.agents import AgentContext
from assay.protocol.agents import AgentCard, AgentRegistration, InvocationResult

SETTING = "agent_hosts"
# prefixes whose addresses lead to IPv4 addresses of other networks
_TRANSLATED = tuple(map(ipaddress.ip_network, ("64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32")))


class EndpointPolicy:
    """`allowed` are names and addresses, such as `agents.internal`, `*.svc`, `10.1.0.0/16` or `127.0.0.1:9000`."""

    def __init__(self, allowed: Sequence[str] = ()) -> None:
        self._allowed = tuple(one.strip().lower() for one in allowed)

    def check(self, url: str) -> None:
        """Refuse an address that is not of an agent, or that is not allowed."""
        try:
            parts = urlsplit(url)
            host, port = parts.hostname or "", parts.port
        except ValueError:
            host, port, parts = "", None, urlsplit("")
        if parts.scheme not in ("http", "https") or not host or not url.isprintable() or " " in url:
            raise _refused(
                f"expected an address such as https://agents.example.com/answer, got {url[:200]!r}"
            )
        if parts.username is not None or parts.password is not None or parts.fragment:
            raise _refused("expected an address without a user, a password and a fragment; use `headers`")
        if (number := _number(host)) is not None and not self.allows(host, port, number):
            raise _refused(self.reason(host))

    def allows(self, host: str, port: int | None, address: str) -> bool:
        """Whether a host that has this address may be asked."""
        found = ipaddress.ip_address(address.partition("%")[0])
        if any(self._matches(one, host.lower().rstrip("."), port, found) for one in self._allowed):
            return True
        return found.is_global and not found.is_multicast and not any(found in one for one in _TRANSLATED)

    def reason(self, host: str) -> str:
        return (
            f"{host[:200]} is not a public address, and agents of tenants may only be at public addresses;"
            f" the operator of this host allows others with the setting {SETTING}"
        )

    @staticmethod
    def _matches(allowed: str, host: str, port: int | None, address: Any) -> bool:
        if "/" in allowed:
            try:
                return address in ipaddress.ip_network(allowed, strict=False)
            except ValueError:
                return False
        name, colon, number = allowed.rpartition(":")
        if colon and number.isdigit() and (":" not in name or name.endswith("]")):
            return port == int(number) and fnmatchcase(host, name.strip("[]"))
        return fnmatchcase(host, allowed.strip("[]"))


class AllowedEndpoints:
    """Makes the agents of tenants. They share their connections."""

    def __init__(self, allowed: Sequence[str] = ()) -> None:
        self._policy = EndpointPolicy(allowed)
        self._sessions = HttpSessions(lambda: PolicyResolver(self._policy))

    def check(self, registration: AgentRegistration) -> None:
        self._policy.check(registration.url)

    def make(self, agent_id: str, registration: AgentRegistration) -> HttpAgent:
        """The agent. One whose address is not allowed any more cannot be reached."""
        name = agent_id.rpartition(".")[2]
        card = AgentCard(
            agent_id=agent_id,
            version=registration.version,
            kind="http",
            persona=registration.persona or name,
            label=registration.label or registration.persona or name,
            description=registration.description,
            model_class=registration.model_class,
            free=registration.free,
            takes_tools=registration.takes_tools,
            takes_memory=registration.takes_memory,
        )
        return _TenantAgent(
            card,
            registration.url,
            headers=registration.headers,
            seconds=registration.timeout_seconds,
            sessions=self._sessions,
            policy=self._policy,
        )

    async def close(self) -> None:
        await self._sessions.close()


class _TenantAgent(HttpAgent):
    """Its address is looked at again before it is asked: the operator may have allowed less since."""

    def __init__(self, card: AgentCard, url: str, *, policy: EndpointPolicy, **options: Any) -> None:
        super().__init__(card, url, **options)
        self._checked_url, self._policy = url, policy

    async def invoke(self, task: Any, context: AgentContext) -> InvocationResult:
        try:
            self._policy.check(self._checked_url)
        except InvalidRequest as refused:
            raise ForeignFault(refused.problems[0].message) from None
        return await super().invoke(task, context)


class PolicyResolver(AbstractResolver):
    """Resolves names as aiohttp does, and leaves out addresses that the policy does not allow."""

    def __init__(self, policy: EndpointPolicy) -> None:
        self._policy, self._inner = policy, aiohttp.ThreadedResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        found = await self._inner.resolve(host, port, family)
        allowed = [one for one in found if self._policy.allows(host, port, one["host"])]
        if not allowed:
            raise OSError(self._policy.reason(host))
        return allowed

    async def close(self) -> None:
        await self._inner.close()


def _number(host: str) -> str | None:
    try:
        return str(ipaddress.ip_address(host.partition("%")[0]))
    except ValueError:
        return None


def _refused(message: str) -> InvalidRequest:
    return InvalidRequest(Problem("url", message))
