"""Resolves `evalSuiteRef` (openwop-contract §7.4): to a suite that was uploaded, or to one in an installed pack."""

from typing import Any

import msgspec
from msgspec import Struct

from assay.agenteval.suite import read_suite
from assay.agenteval.suite_store import SuiteStore
from assay.concurrency.tenant_threads import in_place, json_size, off_loop
from assay.errors import InvalidRequest, Problem
from assay.packs.archive import hex_digest
from assay.packs.store import PackRecord, PackStore
from assay.protocol.agent_evals import AgentEvalSuite
from assay.protocol.versions import precedence

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
