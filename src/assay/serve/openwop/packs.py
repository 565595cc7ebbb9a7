"""The packs of a tenant: publish, list, show and remove (openwop-contract §7)."""

from datetime import UTC, datetime

from assay.concurrency.threads import in_thread
from assay.errors import InvalidRequest, NotFound, Problem
from assay.packs.archive import expected_digest
from assay.packs.pack import Pack
from assay.packs.store import PackService, PackStore, record_of
from assay.serve.openwop.errors import NotProvided
from assay.serve.openwop.host import host_of
from assay.serve.web.body_reader import read_binary
from assay.serve.web.handler import LIMIT, Parameter, ResponseSpec, RouteSpec
from assay.serve.web.request import HttpRequest
from assay.serve.web.responses import Response, answer

TYPES = ("application/gzip", "application/x-gzip", "application/octet-stream")
PATH = "/v1/host/assay/packs"


def _reading(call: HttpRequest) -> PackStore:
    service = host_of(call).packs
    if service is None or not service.offered:
        raise NotFound("this host does not offer packs")
    return service.packs


def _writing(call: HttpRequest) -> PackService:
    service = host_of(call).packs
    if service is None or not service.offered:
        raise NotProvided("packs")
    return service


async def publish_pack(call: HttpRequest) -> Response:
    """201 for a new pack, 200 for the same one again; other files under an existing version are 409."""
    call.query()
    service = _writing(call)
    pack = await _read(call, service)
    record, new = await service.packs.install(call.tenant, pack, datetime.now(UTC))
    return answer(record, 201 if new else 200, ((b"location", f"{PATH}/{record.key}".encode()),))


async def verify_pack(call: HttpRequest) -> Response:
    """The record that an install would write; nothing is written."""
    call.query()
    service = _writing(call)
    pack = await _read(call, service)
    record = await in_thread(lambda: record_of(pack, datetime.now(UTC)))
    await service.packs.check_dependencies(call.tenant, record)
    return answer(record)


async def _read(call: HttpRequest, service: PackService) -> Pack:
    """The verified pack in the body."""
    limits = service.reader.limits
    body = await read_binary(call, TYPES, limits.tarball, "max_pack_bytes")
    call.reservation.reserve_bytes(min(limits.unpacked, 100 * len(body)))  # of the files
    digest = call.header(b"pack-integrity")
    expected = None if digest is None else expected_digest(digest, "Pack-Integrity")
    return await in_thread(lambda: service.reader.read_archive(body, expected))


async def list_packs(call: HttpRequest) -> Response:
    params = call.query("after", "limit")
    limit = params.get("limit", "100")
    if not (limit.isascii() and limit.isdigit() and len(limit) <= 6 and 1 <= int(limit) <= 1000):
        raise InvalidRequest(Problem("limit", f"expected a number from 1 to 1000, got {limit[:40]!r}"))
    packs = await _reading(call).list(call.tenant, after=params.get("after", ""), limit=int(limit))
    return answer({"packs": packs})


async def get_pack(call: HttpRequest) -> Response:
    call.query()
    (ref,) = call.scope["path_params"].values()
    record = await _reading(call).get(call.tenant, ref)
    if record is None:
        raise NotFound(f"there is no pack {ref[:400]!r}")
    return answer(record)


async def remove_pack(call: HttpRequest) -> Response:
    """The record of the removed pack. Runs keep what they need."""
    call.query()
    (ref,) = call.scope["path_params"].values()
    return answer(await _writing(call).packs.remove(call.tenant, ref, datetime.now(UTC)))


INTEGRITY = Parameter(
    "Pack-Integrity",
    {"type": "string", "pattern": "^sha256-[A-Za-z0-9+/]{43}=$"},
    "The digest of the tarball. Packs outside private. and local. need it, and a signature by a key of the host.",
    "header",
)
PACK_ROUTES = [
    RouteSpec(
        method="POST",
        path=PATH,
        endpoint=publish_pack,
        scope="packs:publish",
        id="publishPack",
        summary="Verify a pack and install it for this tenant; a version cannot be changed",
        media=TYPES[0],
        responses={
            200: ResponseSpec("Unchanged.", "PackRecord", headers=("Location",)),
            201: ResponseSpec("Installed.", "PackRecord", headers=("Location",)),
        },
        errors=(409, 501),
        parameters=(INTEGRITY,),
    ),
    RouteSpec(
        method="POST",
        path=f"{PATH}:verify",
        endpoint=verify_pack,
        scope="packs:publish",
        id="verifyPack",
        summary="Verify a pack as an install does, and write nothing",
        media=TYPES[0],
        responses={
            200: ResponseSpec("The pack is valid: the record that an install would write.", "PackRecord")
        },
        errors=(501,),
        parameters=(INTEGRITY,),
    ),
    RouteSpec(
        method="GET",
        path=PATH,
        endpoint=list_packs,
        scope="manifest:read",
        id="listPacks",
        summary="List the installed packs of this tenant",
        responses={200: ResponseSpec("One page of packs.", "PackRecordList")},
        errors=(404,),
        parameters=(
            Parameter("after", {"type": "string"}, "The last pack of the page before, as name@version."),
            LIMIT,
        ),
    ),
    RouteSpec(
        method="GET",
        path=f"{PATH}/{{pack_ref}}",
        endpoint=get_pack,
        scope="manifest:read",
        id="getPack",
        summary="Get an installed pack; without a version, the highest one",
        responses={200: ResponseSpec("The pack, without the content of its files.", "PackRecord")},
    ),
    RouteSpec(
        method="DELETE",
        path=f"{PATH}/{{pack_ref}}",
        endpoint=remove_pack,
        scope="packs:yank",
        id="removePack",
        summary="Remove a version of a pack; runs keep what they need",
        responses={200: ResponseSpec("Removed.", "PackRecord")},
        errors=(409, 501),
    ),
]
