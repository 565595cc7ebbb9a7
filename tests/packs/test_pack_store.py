"""Installed packs: immutable versions, one transaction, references to suites, and removal. On every store."""

import asyncio
import json
from datetime import UTC, datetime

import msgspec
import pytest

from assay.agenteval.planning.run_header import EvalHeader
from assay.agenteval.suites.suite_store import SuiteResolver, SuiteStore
from assay.errors import Conflict, EnvironmentFailure, InvalidRequest, NotFound
from assay.packs.archive import hex_digest
from assay.packs.pack import Pack
from assay.packs.store import AGENT, FILE, PACK, SUITE, PackStore
from assay.ports import PutDocument, Transaction
from support.packs import agent_of, build_pack, files_of, reader, suite_document

pytestmark = pytest.mark.anyio
NOW = datetime(2026, 11, 16, tzinfo=UTC)
NAME = "local.acme.shop"
BOT, EVALS = f"{NAME}.bot", f"{NAME}.evals.bot"


def pack(name=NAME, version="1.0.0", *, suite=None, extra=None, **changes) -> Pack:
    files = files_of(name, version, suite=suite, **changes) | (extra or {})
    return reader().read_archive(build_pack(files).tarball)


async def everything(store, tenant="acme"):
    kinds = (PACK, FILE, AGENT, SUITE)
    return [(one.kind, one.key) for kind in kinds for one in await store.documents(tenant, kind, limit=1000)]


async def test_an_install_is_listed_with_its_agents_and_suites(store):
    packs = PackStore(store)
    record, new = await packs.install("acme", pack(), NOW)
    assert (new, record.key, record.agents) == (True, f"{NAME}@1.0.0", (BOT,))
    assert await packs.list("acme") == [record] == [await packs.get("acme", NAME)]
    assert (await packs.agent("acme", BOT)).prompt == "You answer questions – briefly.\n"
    assert [one.manifest.agent_id async for page in packs.agent_pages("acme") for one in page] == [BOT]
    for other in ("other", "acm"):  # another tenant has nothing of it
        assert await everything(store, other) == [] == await packs.list(other)
        assert await packs.agent(other, BOT) is None
        with pytest.raises(NotFound):
            await packs.remove(other, record.key, NOW)
    (line,) = [msgspec.json.decode(one.data) for one in await store.audit("acme")]
    assert (line["action"], line["what"]) == ("pack.install", f"{NAME}@1.0.0")


async def test_a_version_is_immutable_also_after_it_was_removed(store):
    packs, changed = PackStore(store), pack(description="other")
    await packs.install("acme", pack(), NOW)
    _, again = await packs.install("acme", pack(), NOW)
    assert not again
    before = await everything(store)
    with pytest.raises(Conflict, match=r"is installed with other content of pack\.json"):
        await packs.install("acme", changed, NOW)
    assert await everything(store) == before
    await packs.remove("acme", f"{NAME}@1.0.0", NOW)
    assert await everything(store) == [(PACK, f"{NAME}@1.0.0")]
    assert (await packs.list("acme"), await packs.get("acme", NAME)) == ([], None)
    with pytest.raises(NotFound):
        await packs.remove("acme", f"{NAME}@1.0.0", NOW)
    with pytest.raises(Conflict, match="was installed and removed"):
        await packs.install("acme", changed, NOW)
    _, new = await packs.install("acme", pack(), NOW)
    assert new
    assert await everything(store) == before


async def test_installs_at_the_same_time_cannot_give_one_name_two_meanings(store):
    packs = PackStore(store)

    async def outcomes(*several):
        async def outcome(one):
            try:
                return (await packs.install("acme", one, NOW))[1]
            except Conflict as conflict:
                return conflict.reason

        return sorted(await asyncio.gather(*(outcome(one) for one in several)), key=str)

    assert await outcomes(*[pack()] * 4) == [False, False, False, True]
    assert await outcomes(*(pack("local.acme.a", description=str(at)) for at in range(4))) == [
        True, "exists", "exists", "exists",
    ]  # fmt: skip
    suites = [suite_document(value=f"Paris {at}") | {"suiteId": "local.acme.evals.one"} for at in range(4)]
    assert await outcomes(*(pack(f"local.acme.s{at}", suite=suite) for at, suite in enumerate(suites))) == [
        True, "exists", "exists", "exists",
    ]  # fmt: skip
    agents = [agent_of("local.acme.b.c")]
    assert await outcomes(*(pack(name, agents=agents) for name in ("local.acme.b", "local.acme.b.c"))) == [
        True, "exists",
    ]  # fmt: skip


async def test_a_tenant_has_a_limited_number_of_packs(store):
    packs = PackStore(store, max_packs=2)
    for name in ("local.acme.one", "local.acme.two"):
        await packs.install("acme", pack(name), NOW)
    before = await everything(store)
    with pytest.raises(Conflict, match=r"2 packs are installed, which is the limit \(ASSAY_MAX_PACKS\)"):
        await packs.install("acme", pack("local.acme.three"), NOW)
    assert await everything(store) == before
    await packs.install("other", pack("local.acme.three"), NOW)
    await packs.install("acme", pack("local.acme.two"), NOW)  # it is there
    await packs.remove("acme", "local.acme.one@1.0.0", NOW)
    await packs.install("acme", pack("local.acme.three"), NOW)


def test_the_agents_of_a_pack_have_a_limited_size():
    prompt = "prompts/bot.md"
    assert prompt in files_of(NAME)
    assert pack(extra={prompt: b"x" * 200_000}).agents
    with pytest.raises(InvalidRequest, match="prompts and schemas; expected at most 262,144") as refused:
        pack(extra={prompt: b"x" * 300_000})
    assert refused.value.code == "tarball_entry_too_large"


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        (pack(NAME, agents=[agent_of(NAME, agentId=f"{NAME}.deep.bot")]), pack(f"{NAME}.deep"), "the pack local.acme.shop@1.0.0 has it"),
        (pack(), pack(version="2.0.0", suite=suite_document(value="Rome")), "suite local.acme.shop.evals.bot@1.0.0 in pack:"),
    ],
    ids=["agent", "suite"],
)  # fmt: skip
async def test_an_agent_and_a_suite_have_one_meaning_and_a_failed_install_leaves_nothing(
    store, first, second, words
):
    packs = PackStore(store)
    await packs.install("acme", first, NOW)
    before = await everything(store)
    with pytest.raises(Conflict, match=words):
        await packs.install("acme", second, NOW)
    assert await everything(store) == before


async def test_an_upload_and_a_pack_cannot_differ_under_one_version(store):
    packs, suites = PackStore(store), SuiteStore(store)
    await suites.put("acme", suite_document(value="Rome"))
    with pytest.raises(Conflict, match="the uploaded suite"):
        await packs.install("acme", pack(), NOW)
    assert await everything(store) == []
    await packs.install("acme", pack(suite=suite_document(value="Rome")), NOW)  # the same content
    await packs.install("acme", pack("local.acme.two", suite=suite_document("local.acme.two")), NOW)
    with pytest.raises(Conflict, match=r"pack:local\.acme\.two@1\.0\.0/evals/bot\.json"):
        await suites.put("acme", suite_document("local.acme.two", value="Rome"))
    _, new = await suites.put("acme", suite_document("local.acme.two"))
    assert new


async def test_a_pack_that_is_installed_during_an_upload_is_noticed(store, monkeypatch):
    packs, suites = PackStore(store), SuiteStore(store)
    check = suites._check_packs

    async def check_then_install(tenant, entry):
        await check(tenant, entry)
        await packs.install("acme", pack(), NOW)

    monkeypatch.setattr(suites, "_check_packs", check_then_install)
    with pytest.raises(Conflict, match=r"pack:local\.acme\.shop@1\.0\.0/evals/bot\.json"):
        await suites.put("acme", suite_document(value="Rome"))
    assert await suites.list("acme") == []


async def test_a_reference_has_each_form_of_the_contract(store):
    packs, suites = PackStore(store), SuiteStore(store)
    resolver = SuiteResolver(suites, packs)
    other = json.dumps(suite_document("local.acme.other")).encode()
    await packs.install("acme", pack(extra={"evals/other.json": other, "evals/no.json": b"{}"}), NOW)
    await packs.install("acme", pack(version="1.10.0", suite=suite_document(version="1.10.0")), NOW)
    await suites.put("acme", suite_document(version="1.9.0"))
    one = f"pack:{NAME}@1.0.0/evals/bot.json"
    for ref, version, source in [
        (f"{EVALS}@1.0.0", "1.0.0", one),
        (f"{EVALS}@1.9.0", "1.9.0", ""),
        (
            EVALS,
            "1.10.0",
            f"pack:{NAME}@1.10.0/evals/bot.json",
        ),  # the highest of uploads and packs, as numbers
        (one, "1.0.0", one),
        ("evals/bot.json", "1.10.0", f"pack:{NAME}@1.10.0/evals/bot.json"),  # the pack that has the agent
        (f"pack:{NAME}@1.0.0/evals/other.json", "1.0.0", f"pack:{NAME}@1.0.0/evals/other.json"),  # any file
    ]:
        found = await resolver.resolve("acme", ref, BOT)
        assert (found.suite.version, found.source) == (version, source), ref
        assert bool(found.file_digest) == bool(source)
    assert (await resolver.resolve("acme", one)).file_digest == hex_digest(
        json.dumps(suite_document(NAME)).encode()
    )
    await suites.put("acme", suite_document(version="2.0.0"))
    assert (await resolver.resolve("acme", EVALS)).source == ""
    for ref, agent, words in [
        (f"{EVALS}@7.0.0", BOT, "there is no suite"),
        ("evals/none.json", BOT, "there is no suite"),
        ("evals/bot.json", "", "there is no suite"),
        ("evals/bot.json", "local.acme.none", "there is no suite"),
        ("../bot.json", BOT, "there is no suite"),
        (f"pack:{NAME}@7.0.0/evals/bot.json", BOT, "there is no pack"),
        (f"pack:{NAME}/evals/bot.json", BOT, "there is no pack"),
        (f"pack:{NAME}@1.0.0/none.json", BOT, "has no file"),
        (f"pack:{NAME}@1.0.0/README.md", BOT, "is not JSON"),
        (f"pack:{NAME}@1.0.0/evals/no.json", BOT, "evalSuiteRef: suiteId: this is missing"),
        ("inline:{}", BOT, "inline: address"),
        ("https://example.com/s.json", BOT, "https: address"),
        ("FILE:///etc/passwd", BOT, "file: address"),
    ]:
        with pytest.raises(InvalidRequest, match="evalSuiteRef") as refused:
            await resolver.resolve("acme", ref, agent)
        assert words in str(refused.value), ref
    with pytest.raises(InvalidRequest):
        await resolver.resolve("other", one)


async def test_a_stored_file_that_was_changed_is_not_used(store):
    packs = PackStore(store)
    await packs.install("acme", pack(), NOW)
    edit = PutDocument(tenant="acme", kind=FILE, key=f"{NAME}@1.0.0/evals/bot.json", data=b"{}", version=None)
    await store.commit(Transaction(documents=[edit]))
    with pytest.raises(EnvironmentFailure, match=r"evals/bot\.json in the store does not have the digest"):
        await SuiteResolver(SuiteStore(store), packs).resolve("acme", EVALS)


async def test_a_run_of_the_version_before_is_read():
    """Its request has no definition of an agent and no file of a suite."""
    before = {
        "suite_id": "local.a.evals.b", "suite_version": "1.0.0", "suite_ref": "x", "suite_digest": "d", "agent_id": "local.a.b",
        "agent_version": "0.0.0", "modes": ["golden"], "total": 1, "seconds": 1.0,
    }  # fmt: skip
    header = msgspec.json.decode(json.dumps(before), type=EvalHeader)
    assert (header.definition, header.suite_source, header.suite_file_digest) == (None, "", "")
    assert json.loads(msgspec.json.encode(header)).keys() <= before.keys() | {
        "thresholds"
    }  # and written as before
