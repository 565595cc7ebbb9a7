"""Settings of the sign-in of the page at an OpenID provider: `[oidc]`."""

from msgspec import Struct
from msgspec.structs import replace

from assay.auth.jwt_settings import MAX_LEEWAY, check_address
from assay.errors import UsageError
from assay.ports import Secret

MAX_HOURS = 12.0
EVERYBODY = "*"  # the grant of everybody who signs in


class OidcGrant(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a value of the claim `grant_claim` gives. `tenant`: it makes its people members, and holds there only."""

    scopes: list[str]
    tenant: str = ""


class OidcSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """In the environment: `ASSAY_OIDC_ISSUER` and so on. Without an issuer the page asks for a key."""

    issuer: str = ""  # as in `iss`; its document is at /.well-known/openid-configuration below it
    client_id: str = ""
    client_secret: Secret | None = None  # or file:PATH; None: a public client
    page: str = ""  # the address of the page in a browser
    label: str = "your organization"  # the name of the provider on the button
    request: str = "openid"  # the OAuth scopes that are asked for
    tenant: str = ""  # of everybody who signs in
    tenant_claim: str = ""  # the claim with the tenant
    grant_claim: str = "groups"
    grants: dict[str, OidcGrant] = {}  # by value of the claim `grant_claim`; none: the values are scopes
    session_hours: float = 1.0
    end_provider_session: bool = False  # "Sign out" ends the session at the provider too
    leeway_seconds: float = 30.0  # allowed clock difference

    @property
    def redirect(self) -> str:
        """The address that the provider sends the browser back to."""
        return f"{self.page}sign-in/callback"

    @property
    def needed_claims(self) -> frozenset[str]:
        """The claims that decide the tenant and the scopes."""
        by_group = not self.grants or self.grants.keys() - {EVERYBODY}
        return frozenset({self.tenant_claim, self.grant_claim if by_group else ""} - {""})


def validate_oidc(settings: OidcSettings) -> OidcSettings:
    """Refuse an incomplete or unsafe configuration. The address of the page ends with a slash afterwards."""
    if settings == OidcSettings():
        return settings
    for name in ("issuer", "client_id", "page", "grant_claim", "label"):
        if not getattr(settings, name):
            raise UsageError(
                f"settings: oidc.{name}: expected a value, because other settings of [oidc] are set"
            )
    for name in ("issuer", "page"):
        place, text = f"settings: oidc.{name}", getattr(settings, name)
        check_address(place, text)
        if set(text) & set("?#"):
            raise UsageError(f"{place}: expected an address without a query and a fragment")
    if "openid" not in settings.request.split():
        raise UsageError(
            f"settings: oidc.request: expected openid among the scopes, got {settings.request!r}"
        )
    if not 0 < settings.session_hours <= MAX_HOURS:
        raise UsageError(
            f"settings: oidc.session_hours: expected a number above 0, up to {MAX_HOURS:g},"
            f" got {settings.session_hours:g}"
        )
    if not 0 <= settings.leeway_seconds <= MAX_LEEWAY:
        raise UsageError(
            f"settings: oidc.leeway_seconds: expected 0 to {MAX_LEEWAY:g}, got {settings.leeway_seconds:g}"
        )
    _check_grants(settings)
    page = settings.page if settings.page.endswith("/") else f"{settings.page}/"
    return replace(settings, page=page)


def _check_grants(settings: OidcSettings) -> None:
    from assay.auth.keys import is_tenant, scope_problems  # deferred import: most commands need no keys

    for name, grant in settings.grants.items():
        place = f'settings: oidc.grants."{name}"'
        if problems := scope_problems(grant.scopes):
            raise UsageError(f"{place}.scopes: {problems[0].message}")
        if grant.tenant and not is_tenant(grant.tenant):
            raise UsageError(f"{place}.tenant: expected the name of a tenant, got {grant.tenant[:40]!r}")
    if settings.tenant and not is_tenant(settings.tenant):
        raise UsageError(
            f"settings: oidc.tenant: expected the name of a tenant, got {settings.tenant[:40]!r}"
        )
    if settings.tenant and settings.tenant_claim:
        raise UsageError("settings: oidc.tenant_claim: expected no claim beside oidc.tenant, got both")
    sources = (settings.tenant, settings.tenant_claim, *(grant.tenant for grant in settings.grants.values()))
    if not any(sources):
        raise UsageError(
            "settings: oidc.tenant: expected a tenant, or tenant_claim, or a grant with a tenant, got none"
        )
