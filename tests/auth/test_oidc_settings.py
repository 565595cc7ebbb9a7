"""The settings of the sign-in at an OpenID provider, and what they make of the claims of a person."""

import json

import pytest

from assay.auth import keys
from assay.auth.claims import ChooseTenant, SignInRefused, principal_of
from assay.auth.oidc_settings import OidcGrant, OidcSettings, validate_oidc
from assay.errors import UsageError
from assay.host.host import read_secret
from assay.ports import Secret
from assay.settings import load

ADMINS = OidcGrant(scopes=["everything"])
READERS = OidcGrant(scopes=["runs:read"])
ALL = keys.TENANT
PEOPLE = [  # the settings, the claims; the tenant and the scopes, or the problem
    ("a tenant for all", {"tenant": "acme", "grants": {"*": READERS}}, {}, ("acme", {"runs:read"})),
    ("a tenant for all, whatever is claimed", {"tenant": "acme", "grants": {"*": READERS}}, {"org": "evil"}, ("acme", {"runs:read"})),
    ("everything of the tenant", {"tenant_claim": "org", "grants": {"a": ADMINS}}, {"org": "acme", "groups": ["a"]}, ("acme", ALL)),
    ("two groups", {"tenant": "t", "grants": {"a": OidcGrant(scopes=["suites:read"]), "b": READERS}}, {"groups": "b a c"}, ("t", {"runs:read", "suites:read"})),
    ("a group that nobody configured", {"tenant": "t", "grants": {"a": ADMINS}}, {"groups": ["A", "a ", "everything", "*", 7, None]}, "scopes"),
    ("no groups", {"tenant": "t", "grants": {"a": ADMINS}}, {}, "scopes"),
    ("groups that are an object", {"tenant": "t", "grants": {"a": ADMINS}}, {"groups": {"a": True}}, "scopes"),
    ("scopes in the claim", {"tenant": "t", "grant_claim": "scope"}, {"scope": "runs:read openid everything *"}, ("t", {"runs:read"})),
    ("scopes in the claim beside grants", {"tenant": "t", "grants": {"a": READERS}}, {"groups": ["runs:delete"]}, "scopes"),
    ("a path", {"tenant": "t", "grant_claim": "realm_access.roles", "grants": {"a": READERS}}, {"realm_access": {"roles": ["a"]}}, ("t", {"runs:read"})),
    ("a name with dots", {"tenant": "t", "grant_claim": "https://x.org/roles", "grants": {"a": READERS}}, {"https://x.org/roles": ["a"]}, ("t", {"runs:read"})),
    ("a path into a text", {"tenant": "t", "grant_claim": "groups.x", "grants": {"a": READERS}}, {"groups": "x"}, "scopes"),
    ("no tenant", {"tenant_claim": "org", "grants": {"*": READERS}}, {}, "tenant"),
    ("a tenant that is none", {"tenant_claim": "org", "grants": {"*": READERS}}, {"org": "../x"}, "tenant"),
    ("an empty tenant", {"tenant_claim": "org", "grants": {"*": READERS}}, {"org": ""}, "tenant"),
    ("a tenant with a space", {"tenant_claim": "org", "grants": {"*": READERS}}, {"org": "two words"}, ("two words", {"runs:read"})),
    ("a tenant of a group", {"grants": {"a": OidcGrant(tenant="acme", scopes=["runs:read"])}}, {"groups": ["a"]}, ("acme", {"runs:read"})),
    ("several tenants", {"tenant_claim": "org", "grants": {"*": READERS}}, {"org": ["b", "a"]}, "tenant"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("settings", "claims", "expected"), [row[1:] for row in PEOPLE], ids=[row[0] for row in PEOPLE]
)
def test_claims_become_a_tenant_and_scopes_by_the_settings(settings, claims, expected):
    settings = OidcSettings(issuer="https://i.example", client_id="x", page="https://p.example/", **settings)
    validate_oidc(settings)
    if isinstance(expected, str):
        with pytest.raises(SignInRefused) as refused:
            principal_of({"sub": "ann", **claims}, settings)
        assert refused.value.problem == expected
        return
    person = principal_of({"sub": "ann", **claims}, settings)
    assert (person.tenant, person.scopes) == expected


def test_the_rights_of_one_tenant_do_not_hold_in_another():
    admin_of_beta = OidcGrant(tenant="beta", scopes=["everything"])
    settings = OidcSettings(issuer="i", tenant_claim="org", grants={"b": admin_of_beta, "r": READERS})
    claims = {"sub": "ann", "org": "acme", "groups": ["b", "r"]}
    with pytest.raises(ChooseTenant) as choice:
        principal_of(claims, settings)
    assert choice.value.tenants == ["acme", "beta"]
    assert principal_of(claims, settings, "acme").scopes == {"runs:read"}
    assert principal_of(claims, settings, "beta").scopes == keys.TENANT
    with pytest.raises(SignInRefused):
        principal_of(claims, settings, "gamma")


GOOD = {
    "issuer": "https://login.example.org",
    "client_id": "assay",
    "page": "https://evals.example.org",
    "tenant": "acme",
}
SETTINGS = [
    ({"client_id": ""}, "oidc.client_id: expected a value"),
    ({"page": ""}, "oidc.page: expected a value"),
    ({"issuer": ""}, "oidc.issuer: expected a value"),
    ({"issuer": "http://login.example.org"}, "oidc.issuer: expected an https address, got http://login.example.org"),
    ({"page": "http://evals.example.org"}, "oidc.page: expected an https address"),
    ({"page": "https://evals.example.org/?a=1"}, "oidc.page: expected an address without a query"),
    ({"page": "https://evals.example.org/#/runs"}, "oidc.page: expected an address without a query"),
    ({"page": "https://evals.example.org/\r\nx"}, "oidc.page: expected an https address of ASCII"),
    ({"tenant": ""}, "oidc.tenant: expected a tenant, or tenant_claim, or a grant with a tenant"),
    ({"tenant": "../x"}, "oidc.tenant: expected the name of a tenant, got '../x'"),
    ({"tenant_claim": "org"}, "oidc.tenant_claim: expected no claim beside oidc.tenant"),
    ({"request": "profile"}, "oidc.request: expected openid among the scopes, got 'profile'"),
    ({"session_hours": 0.0}, "oidc.session_hours: expected a number above 0, up to 12, got 0"),
    ({"session_hours": 13.0}, "oidc.session_hours: expected a number above 0, up to 12, got 13"),
    ({"leeway_seconds": 301.0}, "oidc.leeway_seconds: expected 0 to 300, got 301"),
    ({"grants": {"a": OidcGrant(scopes=["runs:rad"])}}, 'oidc.grants."a".scopes: there is no scope \'runs:rad\''),
    ({"grants": {"a": OidcGrant(scopes=[], tenant="/")}}, 'oidc.grants."a".tenant: expected the name of a tenant'),
]  # fmt: skip


@pytest.mark.parametrize(("change", "message"), SETTINGS)
def test_settings_that_are_not_right_are_refused_with_their_place(change, message):
    with pytest.raises(UsageError) as refused:
        validate_oidc(OidcSettings(**GOOD | change))
    assert f"settings: {message}" in str(refused.value)


def test_all_settings_may_come_from_the_environment(tmp_path):
    (tmp_path / "secret").write_text("a secret\n")
    grants = {"admins": {"scopes": ["everything"]}, "readers": {"tenant": "beta", "scopes": ["runs:read"]}}
    environment = {f"ASSAY_OIDC_{name.upper()}": value for name, value in GOOD.items()} | {
        "ASSAY_OIDC_CLIENT_SECRET": f"file:{tmp_path / 'secret'}",
        "ASSAY_OIDC_GRANTS": json.dumps(grants),
        "ASSAY_OIDC_SESSION_HOURS": "8",
        "ASSAY_OIDC_END_PROVIDER_SESSION": "true",
    }
    found = load(environment).oidc
    assert (found.session_hours, found.end_provider_session) == (8.0, True)
    assert found.grants["readers"] == OidcGrant(tenant="beta", scopes=["runs:read"])
    assert found.redirect == "https://evals.example.org/sign-in/callback"
    assert read_secret(found.client_secret) == Secret("a secret")
    assert "a secret" not in repr(found)
    assert (
        load({name: "" for name in environment if "CLIENT" in name or "GRANTS" in name}).oidc
        == OidcSettings()
    )
    with pytest.raises(UsageError, match=r"oidc.client_secret: .*nowhere: expected a file that can be read"):
        read_secret(Secret("file:/nowhere"))
    for text, message in [
        ("{", "ASSAY_OIDC_GRANTS: expected JSON"),
        ('{"a": 1}', "ASSAY_OIDC_GRANTS|oidc.grants"),
    ]:
        with pytest.raises(UsageError, match=message):
            load(environment | {"ASSAY_OIDC_GRANTS": text})
