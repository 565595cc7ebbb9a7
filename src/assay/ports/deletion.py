"""The deletion of all content of a tenant (ADR-0081)."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

import msgspec

from assay.ports.audit import AuditEntry


class TenantContent(msgspec.Struct, frozen=True, kw_only=True):
    """What a store has of a tenant, as numbers."""

    runs: int = 0
    open_runs: Sequence[str] = ()  # the ids of some runs that have not ended
    open_count: int = 0
    evidence: int = 0  # runs that have evidence
    documents: dict[str, int] = {}  # by kind
    keys: int = 0  # data keys that are not destroyed
    destroyed: datetime | None = None  # when the last data key was destroyed


class Destruction(msgspec.Struct, frozen=True, kw_only=True):
    """
    What became of the retired data keys of a tenant.

    `runs`: these are still encrypted with one, so nothing was destroyed. `emptied`: no log of the store has the old
    bytes; None: the database keeps its logs itself.
    """

    keys: int = 0
    runs: Sequence[str] = ()
    emptied: bool | None = None


class TenantContents(Protocol):
    """The part of a store that deletes the content of a tenant. The runs themselves are erased by transactions."""

    async def survey(self, tenant: str) -> TenantContent: ...

    async def retire(self, tenant: str, lines: Sequence[AuditEntry]) -> datetime:
        """
        Retire the data key of a tenant, and return the moment. What is written from then on has another key.

        RunNotFinished: a run of the tenant has not ended, and nothing was changed.
        """
        ...

    async def delete_documents(
        self, tenant: str, *, kept: frozenset[str], before: datetime, limit: int = 200
    ) -> int:
        """Delete a batch of a tenant's documents, but for the kept kinds; return its size. Repeat until it is 0."""
        ...

    async def compact(self) -> bool:
        """
        Write the files of the store anew: deleted rows may have left bytes in the unused parts of their pages.

        False: the database does not let clients do that. Other processes wait for the end before they write.
        """
        ...

    async def destroy(self, tenant: str, lines: Sequence[AuditEntry]) -> Destruction:
        """
        Destroy the retired data keys of a tenant, and empty the logs of the store.

        The documents that stay get the new key.

        `lines` are written with it, if there was a key.
        """
        ...
