"""The installed packs of a tenant. A version is immutable, also after it was removed; an install is one transaction."""

from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from datetime import datetime
from typing import Literal, NamedTuple

import msgspec
from msgspec import UNSET, Struct

from assay.concurrency.threads import in_thread, off_loop
from assay.errors import Conflict, EnvironmentFailure, NotFound, Problem
from assay.packs.archive import PackRefused, hex_digest
from assay.packs.pack import Pack, PackFile, PackReader, Source
from assay.packs.pack_manifest import PACK_JSON
from assay.packs.references import PackSuite
from assay.ports import DeleteDocument, Document, Limits, PutDocument, Store, Transaction
from assay.ports.agents import Agent
from assay.ports.audit import audit_entry
from assay.protocol.agents import AgentCard
from assay.protocol.canonical import canonical
from assay.protocol.manifest import AgentDefinition
from assay.protocol.versions import VersionRange, precedence

PACK, FILE, AGENT, SUITE = "pack", "pack-file", "pack-agent", "pack-suite"
# one document of a tenant, which every install and upload of a suite writes: two at the same time conflict
INSTALLS = "pack-installs"
ATTEMPTS = 30  # of an install, while others commit
UPLOADED_SUITE = "suite"  # the kind of suites that a tenant uploads
PAGE = 200
AGENT_PAGE = 50  # definitions of agents have prompts and schemas
SHOWN = 10  # files that a message names
_encode = msgspec.json.Encoder().encode


class PackRecord(Struct, frozen=True, kw_only=True, rename="camel"):
    """An installed pack: its trust and its digests, without the content of its files."""

    name: str
    version: str
    integrity: str
    source: Source
    signed_by: str
    digest_source: Literal["manifest", "integrity", ""]
    installed_at: datetime
    description: str = ""
    license: str = ""
    agents: tuple[str, ...]
    suites: tuple[PackSuite, ...]
    files: dict[str, PackFile]
    dependencies: dict[str, str] = {}  # ranges of versions, by pack
    removed_at: datetime | None = None

    @property
    def key(self) -> str:
        return f"{self.name}@{self.version}"


class SuiteLocation(Struct, frozen=True, kw_only=True):
    """Where an installed suite is: the pack as name@version, and the file with its pinned digest."""

    pack: str
    suite: PackSuite

    @property
    def ref(self) -> str:
        return f"pack:{self.pack}/{self.suite.path}"


_record = msgspec.json.Decoder(PackRecord).decode
_definition = msgspec.json.Decoder(AgentDefinition).decode
_location = msgspec.json.Decoder(SuiteLocation).decode


class PackStore:
    """The packs in a store, by tenant. A tenant has at most `max_packs`."""

    def __init__(self, store: Store, *, max_packs: int = Limits().max_packs) -> None:
        self._store, self._max_packs = store, max_packs

    async def install(self, tenant: str, pack: Pack, now: datetime) -> tuple[PackRecord, bool]:
        """
        Store a pack, and say whether it is new.

        The same version with other octets is a Conflict; then nothing is written.

        An install that commits in the meantime can make the checks wrong, so they are then made again.
        """
        record = await in_thread(lambda: record_of(pack, now))
        for _ in range(ATTEMPTS):
            guard = await install_guard(self._store, tenant)
            stored = await self._store.document(tenant, PACK, record.key)
            if stored is not None:
                known = _record(stored.data)
                _check_same(known, record)
                if known.removed_at is None:
                    return known, False
            await self._check_count(tenant, record.key)
            await self.check_dependencies(tenant, record)
            await self._check_agents(tenant, pack)
            await self._check_suites(tenant, pack)
            documents = [
                guard,
                _put(tenant, PACK, record.key, _encode(record), version=stored.version if stored else 0),
                *_contents(tenant, pack),
            ]
            line = audit_entry(tenant, "pack.install", record.key)
            try:
                await self._store.commit(Transaction(documents=documents, lines=[line]))
            except Conflict:
                continue
            return record, True
        raise _outrun(record.key)

    async def remove(self, tenant: str, ref: str, now: datetime) -> PackRecord:
        """Remove a pack. Runs keep what they need; the digest stays, so that the version never means other octets."""
        for _ in range(ATTEMPTS):
            guard = await install_guard(self._store, tenant)
            stored = await self._store.document(tenant, PACK, ref)
            record = None if stored is None else _record(stored.data)
            if stored is None or record is None or record.removed_at is not None:
                raise NotFound(f"there is no pack {ref[:400]!r}; a pack is named name@version")
            await self._check_dependents(tenant, record)
            removed = msgspec.structs.replace(record, removed_at=now)
            keys = [
                *((FILE, f"{ref}/{path}") for path in record.files),
                *((AGENT, _agent_key(agent, record.version)) for agent in record.agents),
                *((SUITE, _suite_key(suite, ref)) for suite in record.suites),
            ]
            put = _put(tenant, PACK, ref, _encode(removed), version=stored.version)
            deletes = [DeleteDocument(tenant=tenant, kind=kind, key=key, version=None) for kind, key in keys]
            line = audit_entry(tenant, "pack.remove", ref)
            try:
                await self._store.commit(Transaction(documents=[guard, put, *deletes], lines=[line]))
            except Conflict:
                continue
            return removed
        raise _outrun(ref)

    async def list(self, tenant: str, *, after: str = "", limit: int = PAGE) -> list[PackRecord]:
        """The installed packs by name@version."""
        found: list[PackRecord] = []
        async for document in self._documents(tenant, PACK, after=after):
            record = _record(document.data)
            if record.removed_at is None:
                found.append(record)
            if len(found) == limit:
                break
        return found

    async def get(self, tenant: str, ref: str) -> PackRecord | None:
        """By `name@version`, or the highest version of `name`; None if it is not installed."""
        if "@" in ref:
            document = await self._store.document(tenant, PACK, ref)
            found = [] if document is None else [_record(document.data)]
        else:
            found = [_record(one.data) async for one in self._documents(tenant, PACK, prefix=f"{ref}@")]
        installed = [one for one in found if one.removed_at is None]
        return max(installed, key=lambda one: precedence(one.version), default=None)

    async def read(self, tenant: str, record: PackRecord, path: str) -> bytes | None:
        """A file of an installed pack, or None. Octets that differ from the pinned digest are not returned."""
        pinned = record.files.get(path)
        if pinned is None:
            return None
        document = await self._store.document(tenant, FILE, f"{record.key}/{path}")
        if document is None or hex_digest(document.data) != pinned.digest:
            raise EnvironmentFailure(
                f"pack {record.key}: {path} in the store does not have the digest that was pinned at install"
            )
        return document.data

    async def suite(self, tenant: str, suite_id: str, version: str | None) -> SuiteLocation | None:
        """Where a suite is: of this version, or of the highest one."""
        prefix = f"{suite_id}@" if version is None else f"{suite_id}@{version}:"
        found = [_location(one.data) async for one in self._documents(tenant, SUITE, prefix=prefix)]
        return max(found, key=lambda one: precedence(one.suite.version), default=None)

    async def agent(self, tenant: str, agent_id: str, version: str | None = None) -> AgentDefinition | None:
        """The agent of this version of its pack, or of the highest one."""
        if version is not None:
            document = await self._store.document(tenant, AGENT, _agent_key(agent_id, version))
            return None if document is None else _definition(document.data)
        found = [_definition(one.data) async for one in self._documents(tenant, AGENT, prefix=f"{agent_id}@")]
        return max(found, key=lambda one: precedence(one.version), default=None)

    async def agent_versions(self, tenant: str, agent_id: str) -> "list[str]":
        """The installed versions of an agent's pack."""
        prefix = f"{agent_id}@"
        return [one.key.removeprefix(prefix) async for one in self._documents(tenant, AGENT, prefix=prefix)]

    async def agent_pages(self, tenant: str, prefix: str = "") -> AsyncIterator["list[AgentDefinition]"]:
        """All versions of agents whose ids begin with this, some at a time; large ones decoded off the loop."""
        after = ""
        while page := await self._store.documents(
            tenant, AGENT, prefix=prefix, after=after, limit=AGENT_PAGE
        ):
            size, after = sum(len(one.data) for one in page), page[-1].key
            yield await off_loop(size, lambda page=page: [_definition(one.data) for one in page])

    async def _check_count(self, tenant: str, key: str) -> None:
        if len(await self.list(tenant, limit=self._max_packs)) >= self._max_packs:
            message = f"{self._max_packs} packs are installed, which is the limit (ASSAY_MAX_PACKS): remove one first"
            raise Conflict("status", f"pack {key}", message)

    async def _versions(self, tenant: str, name: str) -> "list[str]":
        """The installed versions of a pack."""
        found = [_record(one.data) async for one in self._documents(tenant, PACK, prefix=f"{name}@")]
        return [one.version for one in found if one.removed_at is None]

    async def check_dependencies(self, tenant: str, record: PackRecord) -> None:
        """The packs that it depends on are installed, each in a version within the range."""
        problems: list[Problem] = []
        for name, wanted in record.dependencies.items():
            versions = await self._versions(tenant, name)
            if not any(map(VersionRange(wanted).admits, versions)):
                got = f"installed: {', '.join(versions)}" if versions else "no version of it is installed"
                problems.append(
                    Problem(
                        f"{PACK_JSON}: dependencies.{name}", f"expected {wanted!r}, {got}; install it first"
                    )
                )
        if problems:
            raise PackRefused("pack_version_not_found", problems)

    async def _check_dependents(self, tenant: str, record: PackRecord) -> None:
        """A pack stays while another one needs it, and no other version of it would do."""
        others = [one for one in await self._versions(tenant, record.name) if one != record.version]
        async for document in self._documents(tenant, PACK):
            other = _record(document.data)
            wanted = other.dependencies.get(record.name)
            if wanted is None or other.removed_at is not None:
                continue
            needed = VersionRange(wanted)
            if needed.admits(record.version) and not any(map(needed.admits, others)):
                raise Conflict("required", f"pack {record.key}", f"the pack {other.key} depends on it")

    async def _check_agents(self, tenant: str, pack: Pack) -> None:
        """Two packs may not have the same agent: its id would mean one of them by chance."""
        ids = {agent.manifest.agent_id for agent in pack.agents}
        prefix = f"{pack.manifest.name}."  # of the ids of all its agents
        async for page in self.agent_pages(tenant, prefix):
            for other in page:
                if other.manifest.agent_id in ids and other.pack != pack.manifest.name:
                    place = f"agent {other.manifest.agent_id}"
                    raise Conflict("exists", place, f"the pack {other.pack}@{other.version} has it already")

    async def _check_suites(self, tenant: str, pack: Pack) -> None:
        """A version of a suite is immutable too, whichever pack or upload brought it first."""
        for suite in pack.suites:
            why = "it exists with other content and cannot be changed: use a new version of the suite"
            other = await self.suite(tenant, suite.suite_id, suite.version)
            if other is not None and other.suite.digest != suite.digest:
                raise Conflict("exists", f"suite {suite.key} in {other.ref}", why)
            uploaded = await self._store.document(tenant, UPLOADED_SUITE, suite.key)
            if uploaded is not None and not await in_thread(
                lambda one=uploaded, path=suite.path: _same_json(one.data, pack.files[path])
            ):
                raise Conflict("exists", f"the uploaded suite {suite.key}", why)

    async def _documents(
        self, tenant: str, kind: str, *, prefix: str = "", after: str = "", page_size: int = PAGE
    ) -> AsyncIterator[Document]:
        while page := await self._store.documents(tenant, kind, prefix=prefix, after=after, limit=page_size):
            for document in page:
                yield document
            after = page[-1].key


def _outrun(key: str) -> Conflict:
    return Conflict(
        "version", f"pack {key}", "other installs of this tenant were faster each time: try again"
    )


async def install_guard(store: Store, tenant: str) -> PutDocument:
    """A write that conflicts if a pack is installed, or a suite is stored, between this call and its commit."""
    installs = await store.document(tenant, INSTALLS, INSTALLS)
    return _put(tenant, INSTALLS, INSTALLS, b"{}", version=installs.version if installs else 0)


def record_of(pack: Pack, now: datetime) -> PackRecord:
    """The record that an install of this pack writes."""
    manifest = pack.manifest
    return PackRecord(
        name=manifest.name,
        version=manifest.version,
        integrity=pack.integrity,
        source=pack.source,
        signed_by=pack.signed_by,
        digest_source=pack.digest_source,
        installed_at=now,
        description=manifest.description or "",
        license=manifest.license or "",
        agents=tuple(agent.manifest.agent_id for agent in pack.agents),
        suites=pack.suites,
        files=pack.file_digests(),
        dependencies={} if manifest.dependencies is UNSET else manifest.dependencies,
    )


def _check_same(existing: PackRecord, new: PackRecord) -> None:
    """The same files are the same pack, whether they came as a tarball or as a folder."""
    different = sorted(
        path
        for path in existing.files.keys() | new.files.keys()
        if existing.files.get(path) != new.files.get(path)
    )
    if not different:
        return
    names = _join_paths(different)
    was = "was installed and removed" if existing.removed_at else "is installed"
    raise Conflict(
        "exists",
        f"pack {new.key}",
        f"this version {was} with other content of {names}, and cannot be changed: use a new version",
    )


def _join_paths(paths: Iterable[str]) -> str:
    paths = list(paths)
    more = len(paths) - SHOWN
    return ", ".join(paths[:SHOWN]) + (f" and {more} more files" if more > 0 else "")


def _contents(tenant: str, pack: Pack) -> Iterator[PutDocument]:
    """The files, agents and suites of a pack, as documents."""
    key = pack.manifest.key
    for path, data in pack.files.items():
        yield _put(tenant, FILE, f"{key}/{path}", data)
    for agent in pack.agents:
        yield _put(tenant, AGENT, _agent_key(agent.manifest.agent_id, agent.version), _encode(agent))
    for suite in pack.suites:
        yield _put(tenant, SUITE, _suite_key(suite, key), _encode(SuiteLocation(pack=key, suite=suite)))


def _put(tenant: str, kind: str, key: str, data: bytes, *, version: int | None = None) -> PutDocument:
    return PutDocument(tenant=tenant, kind=kind, key=key, data=data, version=version)


def _agent_key(agent: str, version: str) -> str:
    return f"{agent}@{version}"


def _suite_key(suite: PackSuite, pack: str) -> str:
    return f"{suite.key}:{pack}"


def _same_json(left: bytes, right: bytes) -> bool:
    """Whether two documents have the same content, in whatever form they are written."""
    texts = [canonical(msgspec.json.decode(data)) for data in (left, right)]
    return texts[0] == texts[1]


# The agents of installed packs. How one is made of its definition is the host's business: it has the models.


class InstalledAgents:
    """The agents of each tenant's packs."""

    def __init__(self, packs: PackStore, make: Callable[[AgentDefinition], Agent]) -> None:
        self._packs, self._make = packs, make

    async def cards(self, tenant: str) -> list[AgentCard]:
        """The cards of all agents, each of the highest version of its pack, by id."""
        best: dict[str, AgentCard] = {}
        async for page in self._packs.agent_pages(tenant):
            for card in await in_thread(lambda page=page: [self._make(one).card for one in page]):
                known = best.get(card.agent_id)
                if known is None or precedence(card.version) > precedence(known.version):
                    best[card.agent_id] = card
        return await in_thread(lambda: [best[id] for id in sorted(best)])

    async def get(self, tenant: str, agent_id: str, version: str | None = None) -> Agent | None:
        definition = await self._packs.agent(tenant, agent_id, version)
        return None if definition is None else self._make(definition)

    async def versions(self, tenant: str, agent_id: str) -> list[str]:
        return await self._packs.agent_versions(tenant, agent_id)

    def restore(self, definition: AgentDefinition) -> Agent:
        """The agent of a run, from the definition that the run stores."""
        return self._make(definition)

    async def close(self) -> None:
        """Its agents have no connections of their own."""


# The packs that a host offers to its tenants.


class PackService(NamedTuple):
    """The stored packs, and the reader with the keys of the host. `offered`: False answers as if there were none."""

    packs: PackStore
    reader: PackReader
    offered: bool = True
