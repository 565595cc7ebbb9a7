"""The methods that the light SQLite store leaves to the whole one: retention, deletion and the audit log."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import datetime

from assay.ports import ReencryptStep, Run, Store
from assay.ports.audit import AuditEntry, AuditRecord, LaneHead
from assay.ports.deletion import Destruction, TenantContent


class WholeStoreMethods(ABC):
    @abstractmethod
    async def _store(self) -> Store:
        """The whole store. The first call opens it."""

    async def erase(self, *runs: str, kind: str | None = None, limit: int = 500) -> int:
        return await (await self._store()).erase(*runs, kind=kind, limit=limit)

    async def sweep(self, kind: str, *, before: datetime, limit: int = 1000) -> int:
        return await (await self._store()).sweep(kind, before=before, limit=limit)

    async def adopt(
        self, holder: str, *, seconds: float, limit: int = 10, max_takeovers: int | None = None
    ) -> list[Run]:
        store = await self._store()
        return await store.adopt(holder, seconds=seconds, limit=limit, max_takeovers=max_takeovers)

    async def forgive(self, run: str, holder: str) -> None:
        await (await self._store()).forgive(run, holder)

    async def ping(self) -> None:
        await (await self._store()).ping()

    async def audit(
        self, tenant: str | None = None, *, following: AuditRecord | None = None, limit: int = 1000
    ) -> list[AuditRecord]:
        return await (await self._store()).audit(tenant, following=following, limit=limit)

    async def heads(self, tenant: str | None = None) -> Sequence[LaneHead]:
        return await (await self._store()).heads(tenant)

    async def misfits(self, tenant: str | None = None) -> int:
        return await (await self._store()).misfits(tenant)

    async def survey(self, tenant: str) -> TenantContent:
        return await (await self._store()).survey(tenant)

    async def retire(self, tenant: str, lines: Sequence[AuditEntry]) -> datetime:
        return await (await self._store()).retire(tenant, lines)

    async def delete_documents(
        self, tenant: str, *, kept: frozenset[str], before: datetime, limit: int = 200
    ) -> int:
        return await (await self._store()).delete_documents(tenant, kept=kept, before=before, limit=limit)

    async def compact(self) -> bool:
        return await (await self._store()).compact()

    async def destroy(self, tenant: str, lines: Sequence[AuditEntry]) -> Destruction:
        return await (await self._store()).destroy(tenant, lines)

    async def reencrypt(self, cursor: str = "") -> ReencryptStep:
        return await (await self._store()).reencrypt(cursor)
