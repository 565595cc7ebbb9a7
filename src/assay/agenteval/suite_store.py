"""The uploaded suites of a tenant, and how a reference is resolved (contract §7.4). A version is immutable."""

import hashlib
from typing import Any

import msgspec
from msgspec import Struct

from assay.agenteval.suite import read_suite
from assay.errors import Conflict, InvalidRequest, Problem
from assay.ports import Document, PutDocument, Store, Transaction
from assay.ports.audit import audit_entry as audited
from assay.protocol.canonical import canonical
from assay.protocol.suite import AgentEvalSuite
from assay.runs.off_loop import json_size, off_loop
from assay.runs.paging import read_documents

KIND = "suite"
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
        """Store a suite, and say whether it is new. The same suite again changes nothing; the same version with other content is refused."""
        data = msgspec.json.encode(document)
        shelved = await off_loop(len(data), lambda: described(read_suite(document), document))
        key = f"{shelved.suite_id}@{shelved.version}"
        put = PutDocument(tenant=tenant, kind=KIND, key=key, data=data)
        try:
            await self._store.commit(Transaction(documents=[put], lines=[audited(tenant, "suite.put", key)]))
        except Conflict as conflict:
            kept = await self._store.document(tenant, KIND, key)
            if conflict.what not in ("exists", "version") or kept is None:
                raise
            stored = await off_loop(len(kept.data), lambda: digest_of(msgspec.json.decode(kept.data)))
            if stored != shelved.digest:
                why = "this version exists with other content and cannot be changed: use a new version"
                raise Conflict("exists", f"suite {key}", why) from None
            return shelved, False
        return shelved, True

    async def list(self, tenant: str, *, after: str = "", limit: int = PAGE) -> list[SuiteEntry]:
        found = await self._store.documents(tenant, KIND, after=after, limit=limit)
        return [_described(document) for document in found]

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

    async def resolve(self, tenant: str, ref: str) -> tuple[AgentEvalSuite, Any]:
        """Resolve `evalSuiteRef` to a suite of this tenant. URLs, files and packs are refused."""
        field = "evalSuiteRef"
        scheme = ref.partition(":")[0].lower()
        if ":" in ref and scheme in ("inline", "http", "https", "file", "data"):
            raise InvalidRequest(
                Problem(field, f"a suite cannot be read from a {scheme}: address; upload it first")
            )
        if ":" in ref or "/" in ref:
            raise InvalidRequest(
                Problem(field, "this host has no packs; expected <suiteId> or <suiteId>@<version>")
            )
        document = await self.get(tenant, ref)
        if document is None:
            raise InvalidRequest(Problem(field, f"there is no suite {ref[:200]!r}; upload it first"))
        try:
            suite = await off_loop(json_size(document), lambda: read_suite(document))
            return suite, document
        except InvalidRequest as refusal:
            raise InvalidRequest(
                [Problem(f"{field}: {one.place}", one.message) for one in refusal.problems]
            ) from None


def described(suite: AgentEvalSuite, document: Any) -> SuiteEntry:
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


def _described(document: Document) -> SuiteEntry:
    content = msgspec.json.decode(document.data)
    return described(msgspec.convert(content, AgentEvalSuite), content)


def _order(document: Document) -> tuple[int, ...]:
    return tuple(int(part) for part in document.key.rpartition("@")[2].split("."))
