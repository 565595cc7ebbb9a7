"""The uploaded suites of a tenant (openwop-contract §7.4). A version is immutable."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from assay.agenteval.suites.suite import read_suite
from assay.concurrency.threads import in_place, json_size, off_loop
from assay.errors import Conflict, InvalidRequest, Problem
from assay.packs.archive import PackLimits, hex_digest
from assay.packs.pack import PackReader, trusted_keys
from assay.packs.requirements import Supplied
from assay.packs.store import ATTEMPTS, PackRecord, PackStore, install_guard
from assay.packs.store import UPLOADED_SUITE as KIND
from assay.ports import Document, Limits, PutDocument, Store, Transaction
from assay.ports.audit import audit_entry as audited
from assay.ports.config import PackKeyConfig
from assay.protocol.agent_evals import AgentEvalSuite
from assay.protocol.canonical import canonical
from assay.protocol.versions import precedence
from assay.runs.log_reader import read_documents

PAGE = 200


class SuiteEntry(Struct, frozen=True, kw_only=True, rename="camel"):
    """A suite in a list, with the number of its tasks."""

    suite_id: str
    version: str
    modes: tuple[str, ...]
    task_count: int
    digest: str


class SuiteStore:
    """The suites in a store, by tenant."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def put(self, tenant: str, document: Any) -> tuple[SuiteEntry, bool]:
        """Store a suite, and say whether it is new. A stored version with other content is refused."""
        data = msgspec.json.encode(document)
        entry = await in_place(lambda: suite_entry(read_suite(document), document), len(data))
        key = f"{entry.suite_id}@{entry.version}"
        put = PutDocument(tenant=tenant, kind=KIND, key=key, data=data)
        line = audited(tenant, "suite.put", key)
        for _ in range(ATTEMPTS):  # a pack that is installed in the meantime may have this suite
            guard = await install_guard(self._store, tenant)
            await self._check_packs(tenant, entry)
            try:
                await self._store.commit(Transaction(documents=[put, guard], lines=[line]))
            except Conflict as conflict:
                if conflict.reason not in ("exists", "version"):
                    raise
                if (kept := await self._store.document(tenant, KIND, key)) is None:
                    continue
                await _check_same(entry, kept.data, f"suite {key}")
                return entry, False
            return entry, True
        raise Conflict(
            "version", f"suite {key}", "other writes of this tenant were faster each time: try again"
        )

    async def _check_packs(self, tenant: str, entry: SuiteEntry) -> None:
        """Refuse a version that an installed pack has with other content."""
        packs = PackStore(self._store)
        packed = await packs.suite(tenant, entry.suite_id, entry.version)
        record = None if packed is None else await packs.get(tenant, packed.pack)
        data = (
            None if packed is None or record is None else await packs.read(tenant, record, packed.suite.path)
        )
        if packed is None or data is None:
            return
        await _check_same(entry, data, f"suite {packed.suite.key} in {packed.ref}")

    async def list(self, tenant: str, *, after: str = "", limit: int = PAGE) -> list[SuiteEntry]:
        found = await self._store.documents(tenant, KIND, after=after, limit=limit)
        return [_read_entry(document) for document in found]

    async def get(self, tenant: str, ref: str) -> Any | None:
        """By `<suiteId>@<version>`, or the highest version of `<suiteId>`; None if there is none."""
        suite, at, version = ref.partition("@")
        if at:
            document = await self._store.document(tenant, KIND, f"{suite}@{version}")
        else:
            document = await self._highest(tenant, suite)
        return None if document is None else msgspec.json.decode(document.data)

    async def _highest(self, tenant: str, suite: str) -> Document | None:
        best: Document | None = None
        async for document in read_documents(self._store, tenant, KIND, prefix=f"{suite}@", limit=PAGE):
            if best is None or _order(document) > _order(best):
                best = document
        return best


async def _check_same(entry: SuiteEntry, stored: bytes, name: str) -> None:
    """Refuse a version that is stored with other content."""
    if await off_loop(len(stored), lambda: digest_of(msgspec.json.decode(stored))) != entry.digest:
        why = "this version exists with other content and cannot be changed: use a new version"
        raise Conflict("exists", name, why)


def suite_entry(suite: AgentEvalSuite, document: Any) -> SuiteEntry:
    return SuiteEntry(
        suite_id=suite.suite_id,
        version=suite.version,
        modes=suite.modes,
        task_count=len(suite.tasks),
        digest=digest_of(document),
    )


def digest_of(document: Any) -> str:
    """A digest of the content, not of its formatting."""
    return hashlib.sha256(canonical(document).encode("utf-8", "surrogatepass")).hexdigest()


def suite_digest(suite: AgentEvalSuite) -> str:
    return digest_of(msgspec.to_builtins(suite))


def _read_entry(document: Document) -> SuiteEntry:
    content = msgspec.json.decode(document.data)
    return suite_entry(msgspec.convert(content, AgentEvalSuite), content)


def _order(document: Document) -> tuple[int, ...]:
    return tuple(int(part) for part in document.key.rpartition("@")[2].split("."))


# The reader of packs of one host: it trusts the keys of the operator and validates suites as uploads are
# validated.


def pack_reader(
    keys: Mapping[str, PackKeyConfig], limits: Limits, supplied: Supplied, key_files: Sequence[str] = ()
) -> PackReader:
    """With the keys of `[pack_keys]` and of `--public-key`. A key that cannot be read is refused now."""
    return PackReader(
        trusted_keys(keys, key_files), read_suite, PackLimits(limits.max_pack_bytes), supplied=supplied
    )


# Resolves `evalSuiteRef` (openwop-contract §7.4): to a suite that was uploaded, or to one in an installed pack.

FIELD = "evalSuiteRef"
FORMS = "<suiteId>@<version>, <suiteId>, pack:<name>@<version>/<path>, or a path in the pack of the agent"


class ResolvedSuite(Struct, frozen=True, kw_only=True):
    """A suite with its document. `source` and `file_digest` are set for a file of a pack."""

    suite: AgentEvalSuite
    document: Any
    source: str = ""
    file_digest: str = ""


class SuiteResolver:
    """The suites of each tenant, by reference."""

    def __init__(self, suites: SuiteStore, packs: PackStore) -> None:
        self._suites, self._packs = suites, packs

    async def resolve(self, tenant: str, ref: str, agent_id: str = "") -> ResolvedSuite:
        """The suite that the reference means, or an InvalidRequest. A path needs the agent whose pack has the file."""
        scheme, is_scheme, rest = ref.partition(":")
        if is_scheme and scheme.lower() == "pack":
            return await self._in_pack(tenant, rest)
        if is_scheme:
            message = f"a suite cannot be read from a {scheme.lower()[:20]}: address; expected {FORMS}"
            raise InvalidRequest(Problem(FIELD, message))
        suite_id, _, version = ref.partition("@")
        found = await self._by_id(tenant, suite_id, version or None)
        if found is None and "@" not in ref and agent_id:
            found = await self._beside_agent(tenant, ref, agent_id)
        if found is None:
            message = f"there is no suite {ref[:200]!r}: upload it, or install its pack; expected {FORMS}"
            raise InvalidRequest(Problem(FIELD, message))
        return found

    async def _by_id(self, tenant: str, suite_id: str, version: str | None) -> ResolvedSuite | None:
        """An uploaded suite or one in a pack; without a version, the highest of both."""
        uploaded = await self._suites.get(tenant, suite_id if version is None else f"{suite_id}@{version}")
        packed = await self._packs.suite(tenant, suite_id, version)
        if uploaded is not None and (
            packed is None or precedence(uploaded["version"]) >= precedence(packed.suite.version)
        ):
            return await _read(uploaded)
        return None if packed is None else await self._in_pack(tenant, packed.ref.removeprefix("pack:"))

    async def _in_pack(self, tenant: str, rest: str) -> ResolvedSuite:
        """`<name>@<version>/<path>`."""
        key, _, path = rest.partition("/")
        record = await self._packs.get(tenant, key) if "@" in key else None
        if record is None:
            message = f"there is no pack {key[:400]!r} here; expected pack:<name>@<version>/<path> of an installed pack"
            raise InvalidRequest(Problem(FIELD, message))
        found = await self._file(tenant, record, path)
        if found is None:
            raise InvalidRequest(Problem(FIELD, f"the pack {record.key} has no file {path[:255]!r}"))
        return found

    async def _beside_agent(self, tenant: str, path: str, agent_id: str) -> ResolvedSuite | None:
        """A file of the pack that has the agent."""
        agent = await self._packs.agent(tenant, agent_id)
        record = None if agent is None else await self._packs.get(tenant, f"{agent.pack}@{agent.version}")
        return None if record is None else await self._file(tenant, record, path)

    async def _file(self, tenant: str, record: PackRecord, path: str) -> ResolvedSuite | None:
        data = await self._packs.read(tenant, record, path)
        if data is None:
            return None
        try:
            document = await off_loop(len(data), lambda: msgspec.json.decode(data))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise InvalidRequest(Problem(FIELD, f"{path} in {record.key} is not JSON")) from None
        found = await _read(document)
        return msgspec.structs.replace(
            found, source=f"pack:{record.key}/{path}", file_digest=hex_digest(data)
        )


async def _read(document: Any) -> ResolvedSuite:
    try:
        suite = await in_place(lambda: read_suite(document), json_size(document))
    except InvalidRequest as refusal:
        raise InvalidRequest(
            [Problem(f"{FIELD}: {one.place}", one.message) for one in refusal.problems]
        ) from None
    return ResolvedSuite(suite=suite, document=document)
