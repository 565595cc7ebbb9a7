"""The uploaded suites of a tenant (openwop-contract §7.4). A version is immutable."""

import hashlib
from typing import Any

import msgspec
from msgspec import Struct

from assay.agenteval.suite import read_suite
from assay.concurrency.tenant_threads import in_place, off_loop
from assay.errors import Conflict
from assay.packs.store import ATTEMPTS, PackStore, install_guard
from assay.packs.store import UPLOADED_SUITE as KIND
from assay.ports import Document, PutDocument, Store, Transaction
from assay.ports.audit import audit_entry as audited
from assay.protocol.agent_evals import AgentEvalSuite
from assay.protocol.canonical import canonical
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
        """
        Store a suite, and say whether it is new. The same suite again changes nothing; the same version with other
        content is refused.
        """
        data = msgspec.json.encode(document)
        shelved = await in_place(lambda: suite_entry(read_suite(document), document), len(data))
        key = f"{shelved.suite_id}@{shelved.version}"
        put = PutDocument(tenant=tenant, kind=KIND, key=key, data=data)
        line = audited(tenant, "suite.put", key)
        for _ in range(ATTEMPTS):  # a pack that is installed in the meantime may have this suite
            guard = await install_guard(self._store, tenant)
            await self._check_packs(tenant, shelved)
            try:
                await self._store.commit(Transaction(documents=[put, guard], lines=[line]))
            except Conflict as conflict:
                if conflict.reason not in ("exists", "version"):
                    raise
                if (kept := await self._store.document(tenant, KIND, key)) is None:
                    continue
                await _check_same(shelved, kept.data, f"suite {key}")
                return shelved, False
            return shelved, True
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
