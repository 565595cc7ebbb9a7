"""Keys of a tenant over REST: a key that may manage keys makes keys with scopes that it has, and no others."""

from datetime import datetime, timedelta

import pytest

from assay.auth import keys
from assay.auth.keys import DEFAULT, SERVER, TENANT
from support.servers.rest_client import Server

PATH = "/v1/host/assay/keys"


@pytest.fixture(scope="module")
def host(database):
    with Server(database, keys_known_for=0) as host:
        yield host


@pytest.fixture
def manager(host):
    with host.client(tenant="acme", scopes=TENANT) as client:
        yield client


def test_a_new_key_works_until_it_is_revoked(host, manager):
    answer = manager.post(PATH, json={"scopes": ["evaluations:read"], "expires": "12h", "note": "CI"})
    made = answer.json()
    assert (answer.status_code, answer.headers["cache-control"]) == (201, "no-store")
    assert answer.headers["location"] == f"{PATH}/{made['id']}"
    assert (made["scopes"], made["note"], made["state"]) == (["evaluations:read"], "CI", "active")
    with host.client(key=made["key"]) as client:
        assert client.get("/v1/checks").status_code == 200
        assert client.get(PATH).json()["details"] == {"scopeRequired": "keys:manage"}
        listed = next(key for key in manager.get(PATH).json()["keys"] if key["id"] == made["id"])
        assert listed == {name: value for name, value in made.items() if name != "key"}
        assert manager.delete(f"{PATH}/{made['id']}").json()["state"] == "revoked"
        assert client.get("/v1/checks").json()["error"] == "key_revoked"
    again = manager.delete(f"{PATH}/{made['id']}")
    assert (again.status_code, again.json()["state"]) == (200, "revoked")


@pytest.mark.parametrize(
    ("request_scopes", "expected"),
    [(None, DEFAULT), (["everything"], TENANT), ([], set()), (["runs:read", "runs:read"], {"runs:read"})],
)
def test_scopes_of_a_new_key(manager, request_scopes, expected):
    made = manager.post(PATH, json={} if request_scopes is None else {"scopes": request_scopes}).json()
    assert set(made["scopes"]) == expected
    assert not SERVER & set(made["scopes"])


@pytest.mark.parametrize("scopes", [["runs:read"], ["everything"], ["metrics:read"]])
def test_a_key_gives_no_scope_that_it_lacks(host, scopes):
    with host.client(tenant="acme", scopes={"keys:manage", "evaluations:read"}) as client:
        answer = client.post(PATH, json={"scopes": scopes})
        assert (answer.status_code, answer.json()["error"]) == (403, "forbidden")
        assert client.post(PATH, json={}).json()["scopes"] == ["evaluations:read"]


@pytest.mark.parametrize(
    ("expires", "days"), [(None, 90), ("2w", 14), ("never", None)], ids=["default", "span", "never"]
)
def test_a_key_expires_after_90_days_unless_the_request_says_otherwise(manager, expires, days):
    made = manager.post(PATH, json={} if expires is None else {"expires": expires}).json()
    if days is None:
        assert made["expires"] is None
    else:
        created, ends = (datetime.fromisoformat(made[name]) for name in ("created", "expires"))
        assert ends - created == timedelta(days=days)


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ({"scopes": ["runs:*"]}, "scope"),
        ({"expires": "yesterday"}, "expires"),
        ({"expires": "2020-01-01"}, "expires"),
        ({"note": "two\nlines"}, "note"),
        ({"tenant": "other"}, ""),
        ({"scopes": "everything"}, "scopes"),
    ],
)
def test_a_wrong_request_is_refused(manager, body, place):
    before = manager.get(PATH).json()
    answer = manager.post(PATH, json=body)
    assert (answer.status_code, answer.json()["error"]) == (400, "validation_error"), answer.text
    assert place in str(answer.json()["details"])
    assert manager.get(PATH).json() == before


def test_keys_of_another_tenant_are_unknown(host, manager):
    made = manager.post(PATH, json={}).json()
    with host.client(tenant="other", scopes=TENANT) as other:
        assert made["id"] not in other.get(PATH).text
        theirs, unknown = other.delete(f"{PATH}/{made['id']}"), other.delete(f"{PATH}/{'z' * 8}")
        assert (theirs.status_code, unknown.status_code) == (404, 404)
        assert theirs.json()["message"].replace(made["id"], "z" * 8) == unknown.json()["message"]
    with host.client(key=made["key"]) as client:
        assert client.get("/v1/checks").status_code == 200


def test_ended_keys_make_room_and_active_ones_do_not(host, monkeypatch):
    monkeypatch.setattr(keys, "MOST", 3)
    with host.client(tenant="few", scopes=TENANT) as client:
        first, second = (client.post(PATH, json={}).json()["id"] for _ in range(2))
        refused = client.post(PATH, json={})
        assert (refused.status_code, "at most 3 keys" in refused.text) == (400, True)
        client.delete(f"{PATH}/{first}")
        third = client.post(PATH, json={}).json()["id"]
        left = {key["id"] for key in client.get(PATH).json()["keys"]}
        assert {second, third} < left
        assert first not in left
