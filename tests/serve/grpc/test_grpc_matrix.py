"""Who may do what over gRPC: every RPC, for everybody who should not come in. An RPC without a row here fails."""

from itertools import product

import pytest
from grpc import StatusCode

from assay.conform.grpc.messages import message_of
from assay.serve.application import ROUTES
from assay.serve.grpc import fep_pb2 as fep
from assay.serve.grpc.server import METHODS
from support.servers.grpc_client import RestAndGrpcServer, connect, refusal_of
from support.servers.rest_client import invalid_keys, request_of, slow, sqlite

EVALUATION = message_of(request_of(1))

# By method: its scope (None: open to everybody), the route that is its twin, what to send, whether it names a run.
ROWS = {
    "RunEvaluation": ("evaluations:create", "runEvaluation", lambda run: EVALUATION, False),
    "GetEvaluation": ("evaluations:read", "getEvaluation", lambda run: fep.GetEvaluationRequest(evaluation_id=run), True),
    "HealthCheck": (None, "healthCheck", lambda run: fep.HealthCheckRequest(), False),
    "StreamEvaluation": ("evaluations:create", "startEvaluation", lambda run: EVALUATION, False),
    "RunBatch": ("evaluations:create", "runBatch", lambda run: fep.BatchEvaluationRequest(evaluations=[EVALUATION]), False),
    "StartEvaluation": ("evaluations:create", "startEvaluation", lambda run: EVALUATION, False),
    "GetOperation": ("evaluations:read", "getOperation", lambda run: fep.GetOperationRequest(operation_id=run), True),
    "ListOperations": ("evaluations:read", "listEvaluations", lambda run: fep.ListOperationsRequest(), False),
    "CancelOperation": ("evaluations:cancel", "cancelEvaluation", lambda run: fep.CancelOperationRequest(operation_id=run), True),
}  # fmt: skip
CLOSED = [method.name for method in METHODS if ROWS.get(method.name, ("",))[0] is not None]
NAMING = [method.name for method in METHODS if ROWS.get(method.name, ("", "", None, False))[3]]


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    with RestAndGrpcServer(sqlite(tmp_path_factory.mktemp("matrix")), keys_known_for=0) as host:
        yield host


@pytest.fixture(scope="module")
def keys(host):
    return invalid_keys(host)


@pytest.fixture(scope="module")
def ours(host):
    """A run of our tenant that has ended."""
    with connect(host) as client:
        yield client.RunEvaluation(EVALUATION).evaluation_id


def ask(client, name, run="eval_unknown"):
    answer = client.call(name, ROWS[name][2](run))
    return list(answer) if name == "StreamEvaluation" else answer


def test_every_method_has_a_row_and_every_row_a_method():
    assert {method.name: method.scope for method in METHODS} == {name: row[0] for name, row in ROWS.items()}
    served = {
        (service.full_name, method.name)
        for service in fep.DESCRIPTOR.services_by_name.values()
        for method in service.methods
    }
    assert {(method.service, method.name) for method in METHODS} == served


def test_every_method_needs_the_scope_of_its_rest_route():
    scopes = {route.id: route.scope for route in ROUTES}
    assert {name: scopes[row[1]] for name, row in ROWS.items()} == {
        name: row[0] for name, row in ROWS.items()
    }


@pytest.mark.parametrize(
    ("key", "code"),
    [
        ("none", "unauthenticated"),
        ("invented", "unauthenticated"),
        ("no key at all", "unauthenticated"),
        ("cut off", "unauthenticated"),
        ("expired", "key_expired"),
        ("revoked", "key_revoked"),
    ],
)
def test_a_request_without_a_valid_key_is_401(host, keys, ours, key, code):
    with connect(host, key=keys[key]) as client:
        for name, run in product(
            CLOSED, (ours, "eval_unknown")
        ):  # the answer does not show whether there is one
            status, body = refusal_of(ask, client, name, run)
            assert (status, body["error"]) == (StatusCode.UNAUTHENTICATED, code), name
            assert keys[key] == "" or keys[key] not in body["message"], name


@pytest.mark.parametrize("name", CLOSED)
def test_a_key_without_the_scope_is_forbidden_and_the_scope_alone_is_enough(host, ours, name):
    scope = ROWS[name][0]
    with connect(
        host, scopes={"evaluations:create", "evaluations:read", "evaluations:cancel"} - {scope}
    ) as client:
        status, body = refusal_of(ask, client, name, ours)
        assert (status, body["error"]) == (StatusCode.PERMISSION_DENIED, "forbidden")
        assert body["details"] == {"scopeRequired": scope}
    with connect(host, scopes={scope}) as client:
        if name == "CancelOperation":
            assert refusal_of(ask, client, name, ours)[1]["error"] == "run_terminal"
        else:
            ask(client, name, ours)


def test_public_routes_need_no_key(host, keys):
    for key in keys.values():
        with connect(host, key=key) as client:
            assert ask(client, "HealthCheck").status == "healthy"


@pytest.mark.parametrize("name", NAMING)
def test_a_run_of_another_tenant_is_not_found_like_an_unknown_one(host, ours, name):
    with connect(host, tenant="other") as client:
        unknown = "eval_" + "0" * (len(ours) - 5)
        theirs, none = refusal_of(ask, client, name, ours), refusal_of(ask, client, name, unknown)
    assert theirs[0] == none[0] == StatusCode.NOT_FOUND
    assert str(theirs).replace(ours, unknown) == str(none)


def test_a_running_run_is_not_cancelled_listed_or_read_by_another_tenant(host):
    with connect(host) as client, connect(host, tenant="other") as other:
        run = client.StartEvaluation(message_of(request_of(3, [slow(0.5)]))).operation_id
        for name in NAMING:
            assert refusal_of(ask, other, name, run)[0] == StatusCode.NOT_FOUND
        assert run not in str(other.ListOperations(fep.ListOperationsRequest()))
        assert client.GetOperation(fep.GetOperationRequest(operation_id=run)).status in ("pending", "running")
        client.CancelOperation(fep.CancelOperationRequest(operation_id=run))


@pytest.mark.parametrize(
    ("metadata", "good"),
    [
        ((("x-api-key", "{key}"),), True),
        ((("authorization", "Bearer {key}"),), True),
        ((("authorization", "bearer {key}"),), True),
        ((("authorization", "Bearer {key}"), ("x-api-key", "{key}")), True),
        ((("authorization", "Bearer {key}"), ("x-api-key", "{other}")), False),
        ((("authorization", "Basic {key}"),), False),
        ((("x-api-key", "{key}"), ("x-api-key", "{other}")), False),
    ],
)
def test_a_key_is_read_from_the_metadata(host, metadata, good):
    key = host.key()
    sent = tuple((name, value.format(key=key, other=host.key(tenant="other"))) for name, value in metadata)
    with connect(host, key="") as client:
        if good:
            client.ListOperations(fep.ListOperationsRequest(), metadata=sent)
        else:
            assert (
                refusal_of(client.ListOperations, fep.ListOperationsRequest(), metadata=sent)[0]
                == StatusCode.UNAUTHENTICATED
            )
