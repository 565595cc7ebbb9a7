"""What the claims of an issuer say of a person: the id, the tenant and the scopes here."""

import hashlib
from collections.abc import Mapping
from typing import Any, Literal

from assay.auth.keys import SCOPES, is_tenant, resolve_scopes
from assay.auth.oidc_settings import EVERYBODY, OidcSettings
from assay.ports import Principal
from assay.protocol.json_types import is_list, is_object

MAX_TENANTS = 50  # that a person may choose from
SignInProblem = Literal["away", "denied", "expired", "refused", "tenant", "scopes"]


class SignInRefused(Exception):
    """Nobody was signed in. The page shows the sentence of the problem; `why` is for the log of the server."""

    def __init__(self, problem: SignInProblem, why: str) -> None:
        self.problem: SignInProblem = problem
        super().__init__(why)


class ChooseTenant(SignInRefused):
    """The person belongs to several tenants, and has not chosen one."""

    def __init__(self, tenants: list[str]) -> None:
        self.tenants = tenants
        super().__init__("tenant", "the person belongs to several tenants")


def principal_of(claims: Mapping[str, Any], settings: OidcSettings, chosen: str = "") -> Principal:
    """Who a person is here: the tenant and the scopes that the settings make of the claims."""
    words = set(words_of(claim_of(claims, settings.grant_claim)))
    grants = [grant for name, grant in settings.grants.items() if name in words or name == EVERYBODY]
    own = {settings.tenant} if settings.tenant else {
        name for name in names_of(claim_of(claims, settings.tenant_claim)) if is_tenant(name)
    }  # fmt: skip
    tenants = own | {grant.tenant for grant in grants if grant.tenant}
    if not tenants or (chosen and chosen not in tenants):
        raise SignInRefused("tenant", "the claims of the person name no tenant")
    if len(tenants) > 1 and not chosen:
        raise ChooseTenant(sorted(tenants)[:MAX_TENANTS])
    tenant = chosen or next(iter(tenants))
    scopes = frozenset(
        scope
        for grant in grants
        if grant.tenant == tenant or (not grant.tenant and tenant in own)
        for scope in resolve_scopes(grant.scopes)
    )
    if not settings.grants:
        scopes = known_scopes(list(words))
    if not scopes:
        raise SignInRefused("scopes", "the claims of the person give no scope")
    return Principal(tenant=tenant, id=opaque_id(settings.issuer, claims["sub"]), scopes=scopes)


def claim_of(claims: Mapping[str, Any], name: str) -> Any:
    """A claim by its name, or by its path: `realm_access.roles`. None: there is none."""
    if not name or name in claims:
        return claims.get(name)
    value: Any = claims
    for part in name.split("."):
        value = value.get(part) if is_object(value) else None
    return value


def names_of(claim: Any) -> list[str]:
    """The names in a claim, which is one name, also one with spaces, or a list."""
    return words_of([claim] if isinstance(claim, str) else claim)


def known_scopes(claim: Any) -> frozenset[str]:
    """The scopes in a claim. Unknown ones are dropped: other services may use them."""
    return frozenset(SCOPES.keys() & set(words_of(claim)))


def words_of(claim: Any) -> list[str]:
    """The words of a claim, which is a list or a text that is separated by spaces."""
    if isinstance(claim, str):
        claim = claim.split(" ")
    return [word for word in claim if isinstance(word, str) and word] if is_list(claim) else []


def opaque_id(issuer: str, subject: str) -> str:
    """A stable id that does not reveal the subject, which may be an e-mail address (openwop-contract §2.2)."""
    whole = "\0".join((issuer, subject)).encode("utf-8", "surrogatepass")
    return f"jwt_{hashlib.sha256(whole).hexdigest()[:16]}"
