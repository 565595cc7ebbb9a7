"""The API keys of a tenant over REST: create, list and revoke them with a key that may manage keys."""

from datetime import datetime
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from assay.auth import keys
from assay.serve.fep.request_parser import read_json
from assay.serve.web.body_reader import body_format, read_document
from assay.serve.web.handler import ResponseSpec, RouteSpec
from assay.serve.web.request import HttpRequest
from assay.serve.web.responses import Response, answer

PATH = "/v1/host/assay/keys"
SCOPE = "keys:manage"


class KeyRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """A key to create. `expires`: `90d`, `12h`, a date or `never`; 90 days if it is missing."""

    scopes: tuple[str, ...] | UnsetType = UNSET
    expires: str | UnsetType = UNSET
    note: str = ""


class ApiKey(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A key. `key` is its text, which only the answer to its creation has."""

    id: str
    prefix: str
    state: str
    scopes: list[str]
    created: datetime
    expires: datetime | None
    revoked: datetime | UnsetType = UNSET
    note: str = ""
    key: str | UnsetType = UNSET


class ApiKeyList(Struct, frozen=True):
    """The keys of a tenant, oldest first."""

    keys: list[ApiKey]


TYPES: tuple[Any, ...] = (KeyRequest, ApiKey, ApiKeyList)
_decode = msgspec.json.Decoder(KeyRequest).decode


def _shown(key: keys.Key, now: datetime, text: str | UnsetType = UNSET) -> ApiKey:
    return ApiKey(
        id=key.id,
        prefix=key.prefix,
        state=key.state(now),
        scopes=sorted(key.scopes),
        created=key.created,
        expires=key.expires,
        revoked=UNSET if key.revoked is None else key.revoked,
        note=key.note,
        key=text,
    )


async def create_key(call: HttpRequest) -> Response:
    """The new key may do what the key of the request may do, and no more."""
    call.query()
    body_format(call)
    request = await read_json(call, _decode, await read_document(call))
    now = call.server.clock.now()
    expires = keys.end_of_life(None if request.expires is UNSET else request.expires, now)
    scopes = None if request.scopes is UNSET else request.scopes
    key, text = await keys.create_within(
        call.server.store, call.principal, scopes=scopes, expires=expires, note=request.note, now=now
    )
    location = (b"location", f"{PATH}/{key.id}".encode())
    return answer(_shown(key, now, text.reveal()), 201, (location, (b"cache-control", b"no-store")))


async def list_keys(call: HttpRequest) -> Response:
    call.query()
    now = call.server.clock.now()
    stored = await keys.list_keys(call.server.store, call.tenant)
    return answer(ApiKeyList([_shown(key, now) for key in stored]))


async def revoke_key(call: HttpRequest) -> Response:
    call.query()
    now = call.server.clock.now()
    (id,) = call.scope["path_params"].values()
    return answer(_shown(await keys.revoke(call.server.store, id, tenant=call.tenant, now=now), now))


KEY_ROUTES = [
    RouteSpec(
        method="POST",
        path=PATH,
        endpoint=create_key,
        scope=SCOPE,
        id="createKey",
        summary="Create an API key of this tenant, with scopes that this key has",
        body="KeyRequest",
        responses={
            201: ResponseSpec("The key. Its text is not shown again.", "ApiKey", headers=("Location",))
        },
    ),
    RouteSpec(
        method="GET",
        path=PATH,
        endpoint=list_keys,
        scope=SCOPE,
        id="listKeys",
        summary="List the API keys of this tenant",
        responses={200: ResponseSpec("The keys, without their texts.", "ApiKeyList")},
    ),
    RouteSpec(
        method="DELETE",
        path=f"{PATH}/{{key_id}}",
        endpoint=revoke_key,
        scope=SCOPE,
        id="revokeKey",
        summary="Revoke an API key of this tenant",
        responses={200: ResponseSpec("The revoked key.", "ApiKey")},
    ),
]
