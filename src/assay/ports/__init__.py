"""
What the engine needs from its environment: clock, store, models, agents, tools (FEP-40).

Each port is a protocol. `assay.backends` implements them, and `app` chooses.
"""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from functools import partial
from typing import Protocol

import msgspec

from assay.ports.batches import BatchBudget as BatchBudget
from assay.ports.cases import CaseBlock as CaseBlock
from assay.ports.cases import CaseTotals as CaseTotals
from assay.ports.cases import RunFacts as RunFacts
from assay.ports.cases import RunGroup as RunGroup
from assay.ports.encryption import Cipher as Cipher
from assay.ports.encryption import ReencryptStep as ReencryptStep
from assay.ports.models import Config as Config
from assay.ports.models import Embed as Embed
from assay.ports.models import Embedder as Embedder
from assay.ports.models import Model as Model
from assay.ports.models import Positive as Positive
from assay.ports.models import Prices as Prices
from assay.ports.models import Provider as Provider
from assay.ports.models import Providers as Providers
from assay.ports.models import RepeatCounter as RepeatCounter
from assay.ports.models import Secret as Secret
from assay.ports.store import ACTIVE as ACTIVE
from assay.ports.store import ANY_UNIT as ANY_UNIT
from assay.ports.store import CLOSED as CLOSED
from assay.ports.store import DELETION as DELETION
from assay.ports.store import ERASED as ERASED
from assay.ports.store import ERASED_BY as ERASED_BY
from assay.ports.store import EXECUTING as EXECUTING
from assay.ports.store import LOSSES as LOSSES
from assay.ports.store import RETENTION as RETENTION
from assay.ports.store import ChunkInfo as ChunkInfo
from assay.ports.store import CreateRun as CreateRun
from assay.ports.store import DeleteDocument as DeleteDocument
from assay.ports.store import Document as Document
from assay.ports.store import DocumentInfo as DocumentInfo
from assay.ports.store import Event as Event
from assay.ports.store import EvidenceChunk as EvidenceChunk
from assay.ports.store import PutDocument as PutDocument
from assay.ports.store import RequireCount as RequireCount
from assay.ports.store import RequireRun as RequireRun
from assay.ports.store import Run as Run
from assay.ports.store import RunOrder as RunOrder
from assay.ports.store import RunQuery as RunQuery
from assay.ports.store import RunStatus as RunStatus
from assay.ports.store import RunUpdate as RunUpdate
from assay.ports.store import Store as Store
from assay.ports.store import Transaction as Transaction
from assay.ports.store import store_patience as store_patience
from assay.protocol.completion import RESERVED_PARAMETERS as RESERVED_PARAMETERS
from assay.protocol.completion import Completion as Completion
from assay.protocol.completion import CompletionRequest as CompletionRequest
from assay.protocol.completion import Embeddings as Embeddings
from assay.protocol.completion import Message as Message
from assay.protocol.completion import ToolCall as ToolCall

# Limits of the engine. Each one is a setting.


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Upper bounds for requests, runs and checks. Each is a setting (`ASSAY_MAX_…`, `[limits]`) with a default."""

    max_line_bytes: int = 64 * 1024 * 1024
    max_request_bytes: int = 512 * 1024 * 1024
    max_cases: int = 1_000_000
    max_checks: int = 1_000
    max_depth: int = 500
    max_nodes: int = 100_000
    check_seconds: float = 60.0
    run_seconds: float = 86_400.0
    max_tasks: int = 10_000
    task_seconds: float = 300.0
    max_suite_cost_usd: float = 100.0
    max_node_executions: int = 1_000
    max_loop_iterations: int = 25
    max_run_attempts: int = 3
    max_pack_bytes: int = 8 * 1024 * 1024
    max_packs: int = 100


class Clock(Protocol):
    """The current time, for records."""

    def now(self) -> datetime: ...


class SystemClock:
    now = staticmethod(partial(datetime.now, UTC))  # called several times per case


LOCAL_TENANT = "local"  # of the command and the library, and of a server's local key


class Principal(msgspec.Struct, frozen=True, kw_only=True):
    """The caller, as its credential names it; a request cannot change it (openwop-contract §2.2). The id is opaque."""

    tenant: str
    id: str
    scopes: frozenset[str] = frozenset()

    def may(self, scope: str) -> bool:
        return scope in self.scopes


class Services(msgspec.Struct, frozen=True, kw_only=True):
    """What a check may use of its host."""

    clock: Clock = SystemClock()
    limits: Limits = Limits()
    providers: Providers | None = None
    repeats: RepeatCounter | None = None  # of one run; None: nothing is cached
    allow_python_code: bool = False  # checks may bring code; the operator decides
    persists_requests: bool = False  # requests are stored as they came, so they must not contain secrets
    batch_budget: BatchBudget | None = None  # of a run whose judges are asked in batches

    async def close(self) -> None:
        """Call it on every event loop that used these services, at its end."""
        if self.providers is not None:
            await self.providers.close()


class Engine(Protocol):
    """Runs units of work, in this process or elsewhere. Only a name and bytes cross the boundary, never a closure."""

    def map(self, work: str, units: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Yield the result of each unit, in the order they end. An abandoned unit may run again."""
        ...
