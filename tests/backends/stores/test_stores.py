"""What every store promises (the Store port), asked of each of them. A new backend adds a word in conftest.py."""

import asyncio
import shutil
import uuid
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from sqlalchemy import text

from assay.backends.stores.open import open_light_store, open_store
from assay.backends.stores.records import run_branches
from assay.backends.stores.records import transactions as rules
from assay.backends.stores.sql.connect import open_engine
from assay.backends.stores.sqlite_light import LightStore
from assay.errors import Conflict, InvalidRequest, UsageError
from assay.ports import (
    CaseBlock,
    CaseTotals,
    ChunkInfo,
    CreateRun,
    DeleteDocument,
    Event,
    EvidenceChunk,
    PutDocument,
    RequireCount,
    RequireRun,
    RunFacts,
    RunQuery,
    RunUpdate,
    Transaction,
)
from support.stores.postgres import server
from support.waiting import PATIENCE

NOW = datetime(2026, 7, 1, 12, 0, 0, 123456, tzinfo=UTC)

pytestmark = pytest.mark.anyio


def pytest_generate_tests(metafunc):
    if "store" in metafunc.fixturenames:
        metafunc.parametrize("address", ["memory", "sqlite", "light", "postgres"], indirect=True)


@pytest.fixture
def address(request, tmp_path):
    """As in conftest.py; and the light form of SQLite."""
    if request.param == "postgres":
        with server().store_database() as address:
            yield address
    else:
        yield "memory:" if request.param == "memory" else f"sqlite:///{tmp_path}/{request.param}.db"


@pytest.fixture(scope="module")
def empty_database(tmp_path_factory):
    """A file of SQLite with all tables. A copy takes less time than another one."""
    file = tmp_path_factory.mktemp("empty") / "runs.db"

    async def create():
        await (await open_store(f"sqlite:///{file}")).close()

    asyncio.run(create())
    return file


@pytest.fixture
async def store(address, empty_database, monkeypatch):
    if address.endswith("light.db"):
        shutil.copy(empty_database, address.removeprefix("sqlite:///"))
        monkeypatch.setattr(
            "assay.backends.stores.sqlite_light.COMMITS", 10_000
        )  # it writes all of them itself
        store = await open_light_store(address)
        assert isinstance(store, LightStore)
    else:
        store = await open_store(address)
    yield store
    await store.close()


def event(n=0):
    return Event("eval.scored", b'{"n":%d}' % n, NOW)


def opening(run="r", *, tenant="t", kind="evaluation", name="", holder=None, **rest):
    return Transaction(
        entries=[
            RunUpdate(run=run, opens=CreateRun(tenant=tenant, kind=kind, name=name, holder=holder), **rest)
        ]
    )


def entry(run="r", **rest):
    return Transaction(entries=[RunUpdate(run=run, **rest)])


def put(key="k", data=b"{}", version: int | None = 0, *, tenant="t", kind="suite"):
    return PutDocument(tenant=tenant, kind=kind, key=key, data=data, version=version)


# Names


@given(
    st.lists(
        st.text(st.characters(codec="utf-8") | st.just("\0"), max_size=6)
        | st.just("x" * 513)
        | st.just("é" * 257),
        min_size=1,
    )
)
def test_names_are_validated_together_as_one_by_one(names):
    def bad(batch):
        try:
            rules.check(batch)
        except InvalidRequest as refusal:
            return list(refusal.problems)
        return []

    together = Transaction(entries=[RunUpdate(run=name) for name in names])
    assert bad(together) == [problem for name in names for problem in bad(entry(name))]
    assert bool(bad(together)) == any("\0" in name or len(name.encode()) > 512 for name in names)


# Runs and events


async def test_a_run_reads_as_committed(store):
    assert await store.commit(opening(name="exp", metadata={"cases": 3}, events=[event()])) == (1,)
    await store.commit(entry(status="running"))
    running = await store.run("r")
    await store.commit(entry(status="completed", metadata={"cases": 3, "passed": 2}, events=[event(1)]))
    run = await store.run("r")

    assert (running.status, running.ended) == ("running", None)
    assert (run.id, run.tenant, run.kind, run.name, run.status) == (
        "r",
        "t",
        "evaluation",
        "exp",
        "completed",
    )
    assert (run.metadata, run.events) == ({"cases": 3, "passed": 2}, 2)
    assert run.created <= run.started <= run.ended
    assert run.started == running.started
    assert await store.run("r", tenant="t") == run
    assert await store.run("r", tenant="other") is None
    assert await store.run("unknown") is None


async def test_a_whole_run_can_be_one_commit(store):
    assert await store.commit(opening(status="completed", events=[event(), event(1)])) == (2,)
    assert (await store.run("r")).status == "completed"


async def test_events_are_read_in_order_from_any_sequence(store):
    await store.commit(opening())
    for n in range(0, 30, 3):
        await store.commit(entry(expected=n, events=[event(n), event(n + 1), event(n + 2)]))

    events = await store.events("r")
    assert events == [msgspec.structs.replace(event(n), sequence=n) for n in range(30)]
    assert await store.events("r", after=24) == events[25:]
    assert await store.events("r", after=9, limit=4) == events[10:14]
    assert await store.events("r", after=29) == await store.events("r", after=99) == []
    assert await store.events("unknown") == []


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("batch", "reason"),
    [
        (opening("open"), "exists"),
        (entry("unknown", events=[event()]), "missing"),
        (entry("open", expected=0, events=[event()]), "sequence"),  # it has two
        (entry("open", expected=3, events=[event()]), "sequence"),
        (opening("new", expected=1, events=[event()]), "sequence"),
        (entry("open", holder="other", events=[event()]), "lease"),
        (entry("free", holder="me", events=[event()]), "lease"),  # nobody's is not mine
        (entry("open", when=frozenset({"pending"}), status="running"), "status"),
        (entry("done", events=[event()]), "closed"),
        (entry("done", status="running"), "closed"),
        (entry("done", status="completed"), "closed"),  # not even the same again
        (entry("done", metadata={}), "closed"),
        (entry("done", evidence=[EvidenceChunk(kind="late", data=b"")]), "closed"),
        (entry("open", evidence=[EvidenceChunk(kind="request", data=b"again")]), "exists"),
        (
            entry(
                "open",
                evidence=[EvidenceChunk(kind="twin", data=b"1"), EvidenceChunk(kind="twin", data=b"2")],
            ),
            "exists",
        ),
        (Transaction(documents=[put("there")]), "exists"),
        (Transaction(documents=[put("there", version=2)]), "version"),
        (Transaction(documents=[put("absent", version=1)]), "missing"),
        (
            Transaction(documents=[DeleteDocument(tenant="t", kind="suite", key="there", version=2)]),
            "version",
        ),
        (
            Transaction(documents=[DeleteDocument(tenant="t", kind="suite", key="absent", version=1)]),
            "missing",
        ),
        (Transaction(documents=[put("twice"), put("twice")]), "exists"),
        (Transaction(requires=[RequireRun(run="unknown", status="failed", events=1)]), "required"),
        (Transaction(requires=[RequireRun(run="done", status="completed", events=1)]), "required"),
        (Transaction(requires=[RequireRun(run="done", status="failed", events=2)]), "required"),
        (Transaction(requires=[RequireRun(run="erased", status="failed", events=1)]), "required"),
        (
            Transaction(requires=[RequireCount(tenant="t", kind="suite", prefix="the", count=0)]),
            "required",
        ),
    ],
)
async def test_a_conflicting_transaction_is_refused_whole(store, batch, reason):
    await store.commit(opening("open", holder="me", status="running", events=[event(), event()],
                               evidence=[EvidenceChunk(kind="request", data=b"first")]))  # fmt: skip
    await store.commit(opening("free"))
    await store.commit(opening("done", status="failed", events=[event()]))
    await store.commit(opening("erased", status="failed", events=[event()]))
    await store.commit(entry("erased", erases=True))
    await store.commit(Transaction(documents=[put("there")]))
    good = RunUpdate(
        run="free", events=[event()], evidence=[EvidenceChunk(kind="note", data=b"")], metadata={"good": True}
    )

    with pytest.raises(Conflict) as refused:
        await store.commit(
            Transaction(
                entries=[good, *batch.entries],
                documents=[put("good"), *batch.documents],
                requires=batch.requires,
            )
        )

    assert refused.value.reason == reason
    assert (await store.run("free")).events == (await store.run("free")).metadata.get("good", 0) == 0
    assert await store.chunk_infos("free", "note") == []
    assert await store.document("t", "suite", "good") is None
    assert (await store.chunks("open", "request"))[0].data == b"first"
    assert await store.run("new") is None


async def test_preconditions_that_hold_change_nothing(store):
    await store.commit(opening("done", status="failed", events=[event()]))
    await store.commit(Transaction(documents=[put("there"), put("thin"), put("other")]))
    requires = [
        RequireRun(run="done", status="failed", events=1),
        RequireCount(tenant="t", kind="suite", prefix="th", count=2),
    ]
    before = await store.run("done")
    await store.commit(Transaction(documents=[put("new")], requires=requires))
    assert await store.document("t", "suite", "new") is not None
    assert await store.run("done") == before


async def test_one_transaction_updates_several_runs(store):
    await store.commit(opening("parent"))
    child = RunUpdate(
        run="child",
        opens=CreateRun(tenant="t", kind="workflow"),
        metadata={"parent": "parent"},
        events=[event()],
    )
    ends = await store.commit(
        Transaction(
            entries=[
                RunUpdate(run="parent", events=[event()]),
                child,
                RunUpdate(run="child", events=[event()]),
            ]
        )
    )
    assert ends == (1, 1, 2)


@pytest.mark.parametrize("name", ["a\0b", "x" * 513, "é" * 300, "\ud800"])
async def test_a_name_that_no_database_can_store_is_refused(store, name):
    for batch in (
        opening(name),
        Transaction(documents=[put(name)]),
        opening(evidence=[EvidenceChunk(kind="k", key=name, data=b"")]),
    ):
        with pytest.raises(InvalidRequest):
            await store.commit(batch)


async def test_runs_are_listed_newest_first_by_filter_and_page(store):
    rows = [
        ("a", "evaluation", "x", "completed"),
        ("a", "evaluation", "y", "failed"),
        ("b", "evaluation", "x", None),
    ]
    for n in range(12):
        tenant, kind, name, status = rows[n % 3]
        await store.commit(opening(f"r{n:02}", tenant=tenant, kind=kind, name=name, status=status))

    async def ids(**query):
        return [int(run.id[1:]) for run in await store.runs(RunQuery(**query))]

    everything = await store.runs(RunQuery())
    middle = next(run for run in everything if run.id == "r06")
    assert await ids() == list(range(11, -1, -1))
    assert await ids(tenant="a") == [10, 9, 7, 6, 4, 3, 1, 0]
    assert await ids(name="x") == [11, 9, 8, 6, 5, 3, 2, 0]
    assert await ids(tenant="a", name="x", limit=2) == [9, 6]
    assert await ids(statuses=frozenset({"failed", "pending"})) == [11, 10, 8, 7, 5, 4, 2, 1]
    assert await ids(statuses=frozenset()) == await ids(kind="other") == []
    assert await ids(since=middle.created) == [11, 10, 9, 8, 7, 6]
    assert await ids(until=middle.created) == [5, 4, 3, 2, 1, 0]
    await store.commit(entry("r02", evidence=[EvidenceChunk(kind="request", data=b"{}")]))
    assert (await ids(evidence=True), await ids(tenant="a", evidence=True)) == ([2], [])
    await store.erase("r02")
    assert await ids(evidence=True) == []

    seen, before = [], None
    while page := await store.runs(RunQuery(before=before, limit=5)):
        seen += page
        before = page[-1].created, page[-1].id
    assert seen == everything


async def test_a_run_that_starts_while_it_is_listed_is_in_the_list(store, address, monkeypatch):
    """A list reads one range of an index for each status. A run that goes from one to another meanwhile is in one of them."""
    await store.commit(opening("r1", status="running"))
    await store.commit(opening("r2"))
    if address == "memory:":
        ids = [run.id for run in await store.runs(RunQuery(tenant="t", kind="evaluation"))]
    else:
        find, engine = run_branches._branches, open_engine(address)

        def find_and_start(execute, query):
            branches = find(execute, query)
            with engine.execution_options(writes=True).begin() as connection:
                connection.execute(text("UPDATE runs SET status = 'suspended' WHERE id = 'r2'"))
            return branches

        monkeypatch.setattr(run_branches, "_branches", find_and_start)
        ids = [run.id for run in await store.runs(RunQuery(tenant="t", kind="evaluation"))]
        engine.dispose()
    assert ids == ["r2", "r1"]


async def test_runs_are_listed_in_any_order_counted_and_grouped(store):
    scores = [0.5, None, 0.25, 0.5, 1.0, None]
    for n, score in enumerate(scores):
        facts = RunFacts(
            score=score, cost=None if n % 2 else n / 10, passed=None if score is None else score > 0.3
        )
        kind, name = ("evaluation", "x") if n % 3 else ("agent-eval", "y")
        status = "completed" if n else "failed"
        await store.commit(opening(f"r{n}", kind=kind, name=name, status=status, facts=facts))
    await store.commit(opening("other", tenant="b", status="completed", facts=RunFacts(score=0.1)))
    mine = RunQuery(tenant="t")

    async def pages(**query):
        """The runs in pages of two, and all at once."""
        query = msgspec.structs.replace(mine, **query)
        seen, beyond = [], None
        while page := await store.runs(msgspec.structs.replace(query, beyond=beyond, limit=2)):
            seen += [int(run.id[1:]) for run in page]
            last = page[-1]
            number = {"score": last.facts.score, "cost": last.facts.cost}.get(query.order)
            if query.order == "duration":
                number = (last.ended - last.started) / timedelta(microseconds=1)
            beyond = number, last.created, last.id
        assert seen == [int(run.id[1:]) for run in await store.runs(query)]
        return seen

    assert await pages(order="created", ascending=True) == [0, 1, 2, 3, 4, 5]
    assert await pages(order="score") == [4, 3, 0, 2, 5, 1]
    assert await pages(order="score", ascending=True) == [2, 0, 3, 4, 5, 1]
    assert await pages(order="cost", ascending=True) == [0, 2, 4, 5, 3, 1]
    assert sorted(await pages(order="duration")) == [0, 1, 2, 3, 4, 5]
    assert await pages(order="score", name="x") == [4, 2, 5, 1]
    assert await pages(order="score", ascending=True, name="x") == [2, 4, 5, 1]
    assert await pages(order="score", passed=True, kinds=frozenset({"evaluation"})) == [4]
    assert await store.count_runs(mine) == {
        ("agent-eval", "failed"): 1, ("agent-eval", "completed"): 1, ("evaluation", "completed"): 4
    }  # fmt: skip
    groups = await store.group_runs(mine)
    assert [(one.kind, one.count, one.newest) for one in groups] == [
        ("evaluation", 4, "r5"),
        ("agent-eval", 2, "r3"),
    ]
    assert [run.id for run in await store.find(["r1", "other", "none", "\0"], tenant="t")] == ["r1"]
    kept = await store.run("r0")
    assert kept.facts == RunFacts(score=0.5, cost=0.0, passed=True)


# The table of cases


def block(first, last, **rest):
    return CaseBlock(first=first, last=last, data=b"columns", **rest)


async def test_rows_of_cases_are_written_with_their_unit_summed_and_erased_with_the_run(store):
    await store.commit(opening(events=[event()]))
    await store.commit(entry(events=[event(1)], cases=[block(10, 19, passed=10, spent=0.5, unknown=1)]))
    await store.commit(
        entry(cases=[block(0, 9, passed=4, failed=3, ungraded=1, error=1, skipped=1, spent=0.25)])
    )
    with pytest.raises(Conflict):  # all or nothing
        await store.commit(entry(events=[event(2)], cases=[block(20, 20), block(10, 12)]))
    assert (await store.run("r")).events == 2

    rows = await store.case_blocks("r")
    assert [(row.first, row.last, row.passed, row.sequence, row.data) for row in rows] == [
        (0, 9, 4, 2, b"columns"), (10, 19, 10, 1, b"columns")
    ]  # fmt: skip
    assert [row.first for row in await store.case_blocks("r", holding="fe")] == [0]
    assert [row.first for row in await store.case_blocks("r", start=10)] == [10]
    assert [row.first for row in await store.case_blocks("r", start=9, limit=1)] == [0]
    assert await store.case_blocks("r", start=20) == await store.case_blocks("none") == []
    totals = await store.case_totals(["r", "none"])
    assert totals == {
        "r": CaseTotals(passed=14, failed=3, ungraded=1, error=1, skipped=1, spent=0.75, unknown=1)
    }
    assert totals["r"].results == 20

    with pytest.raises(InvalidRequest, match="expected first to last, got 3 to 2"):
        await store.commit(entry(cases=[block(3, 2)]))
    await store.commit(entry(status="completed"))
    while await store.erase("r"):
        pass
    assert await store.case_blocks("r") == []
    assert await store.case_totals(["r"]) == {}


# Evidence


async def test_a_range_of_many_results_is_read_in_pieces(store):
    await store.commit(opening())
    for first in (20, 0, 10, 40):  # units end in any order; 30 to 39 are not there yet
        lines = b"\n".join(b'{"case":%d}' % n for n in range(first, first + 10))
        await store.commit(
            entry(evidence=[EvidenceChunk(kind="results", first=first, last=first + 9, data=lines)])
        )

    async def firsts(**query):
        return [piece.first for piece in await store.chunks("r", "results", limit=99, **query)]

    assert await firsts() == [0, 10, 20, 40]
    assert await firsts(start=9) == [0, 10, 20, 40]
    assert await firsts(start=10) == [10, 20, 40]
    assert await firsts(start=35) == [40]
    assert await firsts(start=15, stop=20) == [10]
    assert await firsts(start=15, stop=21) == [10, 20]
    assert await firsts(start=50) == await firsts(start=30, stop=40) == await firsts(key="other") == []

    cases, at = [], 5
    while pieces := await store.chunks("r", "results", start=at, stop=25, limit=2):
        cases += [msgspec.json.decode(line)["case"] for piece in pieces for line in piece.lines(at, 25)]
        at = pieces[-1].last + 1
    assert cases == list(range(5, 25))


async def test_a_run_is_marked_as_erased_only_when_it_has_ended(store):
    await store.commit(opening(metadata={"total": 1}, status="running", events=[event()]))
    with pytest.raises(Conflict) as refused:
        await store.commit(entry(erases=True))
    assert refused.value.reason == "status"
    with pytest.raises(Conflict) as missing:
        await store.commit(entry("another", erases=True))
    assert missing.value.reason == "missing"
    await store.commit(entry(status="completed"))
    ended = await store.run("r")
    assert await store.commit(entry(erases=True)) == (1,)
    marked = await store.run("r")
    assert (ended.erased, bool(marked.erased), marked.metadata) == (
        "",
        True,
        {"total": 1, "erased": marked.erased},
    )
    assert msgspec.structs.replace(marked, metadata=ended.metadata) == ended  # and nothing else has changed
    await store.commit(entry(erases=True))
    assert (await store.run("r")).erased == marked.erased  # the first time


async def test_a_store_that_works_answers_a_ping(store):
    await store.ping()


async def test_probes_at_the_same_time_share_answers(store):
    async def probe():
        for _ in range(20):
            await store.ping()

    assert await asyncio.gather(*[probe() for _ in range(8)]) == [None] * 8


async def test_evidence_is_stored_by_kind_key_and_ordinal_until_erased(store):
    places = [("judge", "b", 0), ("judge", "a", 1), ("judge", "a", 0), ("request", "", 0)]
    pieces = [
        EvidenceChunk(kind=kind, key=key, first=first, last=first, data=key.encode())
        for kind, key, first in places
    ]
    await store.commit(opening(evidence=pieces))
    await store.commit(opening("other", evidence=pieces))

    slots = await store.chunk_infos("r", "judge")
    assert [(slot.key, slot.first, slot.size) for slot in slots] == [("a", 0, 1), ("a", 1, 1), ("b", 0, 1)]
    assert await store.chunk_infos("r", "judge", after=slots[0], limit=1) == slots[1:2]
    assert await store.chunk_infos("r", "judge", after=slots[-1]) == []
    assert await store.chunks("r", "judge", key="a") == [pieces[2], pieces[1]]

    assert [await store.erase("r", kind="judge", limit=2) for _ in range(3)] == [2, 1, 0]
    assert await store.chunk_infos("r", "judge") == []
    assert await store.chunk_infos("r", "request") == [ChunkInfo(kind="request")]
    assert [await store.erase("r"), await store.erase("r")] == [1, 0]
    assert len(await store.chunk_infos("other", "judge")) == 3


# Documents


async def test_a_document_changes_only_from_the_version_it_was_read_at(store):
    await store.commit(Transaction(documents=[put(data=b"1")]))
    await store.commit(Transaction(documents=[put(data=b"2", version=1)]))
    await store.commit(Transaction(documents=[put(data=b"3", version=None)]))
    document = await store.document("t", "suite", "k")
    assert (document.version, document.data, document.key) == (3, b"3", "k")
    for where in (("other", "suite", "k"), ("t", "other", "k"), ("t", "suite", "other")):
        assert await store.document(*where) is None

    await store.commit(Transaction(documents=[DeleteDocument(tenant="t", kind="suite", key="k", version=3)]))
    assert await store.document("t", "suite", "k") is None
    await store.commit(
        Transaction(documents=[DeleteDocument(tenant="t", kind="suite", key="k", version=None)])
    )  # gone anyway
    await store.commit(Transaction(documents=[put(version=None)]))
    assert (await store.document("t", "suite", "k")).version == 1


async def test_documents_are_listed_in_one_order_everywhere(store):
    keys = ["", "B", "a", "a%", "a/1", "a/10", "a/2", "a_", "ab", "é", "\ud7ff", "\uffff", "😀", "😀x"]
    await store.commit(Transaction(documents=[put(key, key.encode()) for key in reversed(keys)]))
    await store.commit(Transaction(documents=[put("a/3", tenant="other"), put("a/4", kind="other")]))

    async def found(**query):
        return [document.key for document in await store.documents("t", "suite", **query)]

    assert await found() == keys
    assert await found(prefix="a/") == ["a/1", "a/10", "a/2"]
    assert await found(prefix="a/", after="a/1", limit=1) == ["a/10"]
    assert await found(prefix="a%") == ["a%"]  # a sign, not a pattern
    assert await found(prefix="\ud7ff") == ["\ud7ff"]
    assert await found(prefix="😀") == ["😀", "😀x"]
    assert await found(after="ab", limit=2) == ["é", "\ud7ff"]


async def test_documents_are_listed_and_measured_without_their_data(store):
    keys = ["a/1", "a/10", "a/2", "b"]
    await store.commit(Transaction(documents=[put(key, b"x" * 900) for key in keys]))
    await store.commit(Transaction(documents=[put("a/3", tenant="other"), put("a/4", kind="other")]))

    async def found(**query):
        return [info.key for info in await store.document_infos("t", "suite", **query)]

    assert await found() == keys
    assert await found(prefix="a/", after="a/1", limit=1) == ["a/10"]
    sizes = [info.size for info in await store.document_infos("t", "suite", prefix="a/")]
    assert all(sizes)  # as stored: a database compresses
    assert await store.measure_documents("t", "suite", prefix="a/") == (3, sum(sizes))
    assert await store.measure_documents("t", "none") == (0, 0)


async def test_several_documents_are_read_at_once(store):
    keys = [f"k{at:04}" for at in range(1200)]
    await store.commit(Transaction(documents=[put(key, key.encode()) for key in keys]))
    found = await store.find_documents("t", "suite", ["k0007", "none", "k0003", "k0007"])
    assert [(one.key, one.data) for one in found] == [("k0003", b"k0003"), ("k0007", b"k0007")]
    assert len(await store.find_documents("t", "suite", keys)) == 1200
    assert await store.find_documents("t", "suite", []) == await store.find_documents("t", "none", keys) == []


async def test_a_key_that_no_database_can_store_is_not_found(store):
    await store.commit(Transaction(documents=[put(key) for key in ("a", "a/1", "b")]))
    assert (await store.document("t", "suite", "a\0"), await store.run("a\0")) == (None, None)
    assert await store.documents("t", "suite", prefix="a\0") == []
    assert [one.key for one in await store.documents("t", "suite", after="a\0b")] == ["a/1", "b"]


async def test_the_content_of_many_events_is_read_at_once(store):
    pieces = [EvidenceChunk(kind="content", key=f"k{at}", data=b"%d" % at) for at in range(1200)]
    more = [
        EvidenceChunk(kind="content", key="k7", first=1, last=1, data=b"more"),
        EvidenceChunk(kind="other", key="k8", data=b"x"),
    ]
    await store.commit(opening(evidence=[*pieces, *more]))
    keys = [f"k{at}" for at in range(1100, -1, -1)]
    found = await store.contents("r", "content", [*keys, "none", "k7"])
    assert found == {f"k{at}": b"%d" % at for at in range(1101)}
    assert await store.contents("r", "content", []) == await store.contents("none", "content", ["k1"]) == {}


async def test_old_documents_are_swept(store):
    await store.commit(
        Transaction(documents=[put(f"{n}", kind="idempotency", tenant=f"t{n}") for n in range(5)])
    )
    await store.commit(Transaction(documents=[put("suite")]))
    later = (await store.document("t0", "idempotency", "0")).updated + timedelta(seconds=1)
    assert await store.sweep("idempotency", before=later - timedelta(seconds=1)) == 0
    assert [await store.sweep("idempotency", before=later, limit=3) for _ in range(3)] == [3, 2, 0]
    assert await store.document("t", "suite", "suite")


# Leases


async def test_a_lease_is_held_until_released_or_expired(store):
    await store.commit(opening(holder="a"))
    assert await store.claim("r", "b", seconds=30) is None
    assert (await store.claim("r", "a", seconds=0.05)).holder == "a"
    assert await store.adopt("a", seconds=30) == []  # what one holds is not lost
    await asyncio.sleep(0.06)
    assert [run.id for run in await store.adopt("b", seconds=30)] == ["r"]
    assert await store.renew("a", seconds=30) == {}
    with pytest.raises(Conflict, match="a no longer holds its lease; the holder is b"):
        await store.commit(entry(holder="a", events=[event()]))

    await store.commit(entry(holder="b", status="running", events=[event()]))
    await store.commit(entry(status="cancelling"))  # anybody may ask for it
    assert await store.renew("b", seconds=30) == {"r": "cancelling"}
    await store.release("r", "a")
    assert (await store.run("r")).holder == "b"
    await store.release("r", "b")
    assert (await store.claim("r", "a", seconds=30)).leased > datetime.now(UTC)

    await store.commit(entry(holder="a", status="cancelled"))
    assert (await store.run("r")).holder is None
    assert await store.claim("r", "a", seconds=30) is None
    assert await store.adopt("b", seconds=30) == []


async def leases_are_written(store):
    """What `claim`, `renew` and `release` answer is also what another process finds."""
    await store.commit(opening())
    claimed = await store.claim("r", "a", seconds=30)
    assert (claimed.holder, (await store.run("r")).holder) == ("a", "a")
    assert await store.claim("r", "b", seconds=30) is None
    assert await store.renew("a", seconds=90) == {"r": "pending"}
    assert (await store.run("r")).leased > claimed.leased + timedelta(seconds=30)
    assert await store.adopt("b", seconds=30) == []
    await store.release("r", "a")
    assert (await store.run("r")).holder is None
    assert (await store.claim("r", "b", seconds=30)).holder == "b"


async def test_leases_are_written(store):
    await leases_are_written(store)


class Forgetful:
    """A store that answers as another does and writes nothing, in one method."""

    def __init__(self, store, method):
        self._store, self._method = store, method

    def __getattr__(self, name):
        return getattr(self, f"_{name}") if name == self._method else getattr(self._store, name)

    async def _claim(self, run, holder, *, seconds):
        found = await self._store.run(run)
        return msgspec.structs.replace(found, holder=holder) if found.holder in (None, holder) else None

    async def _renew(self, holder, *, seconds):
        runs = await self._store.runs(RunQuery())
        return {run.id: run.status for run in runs if run.holder == holder}

    async def _release(self, run, holder):
        pass


@pytest.mark.parametrize("method", ["claim", "renew", "release"])
async def test_a_store_that_forgets_a_lease_fails_the_lease_test(store, method):
    with pytest.raises(AssertionError):
        await leases_are_written(Forgetful(store, method))


async def test_a_run_that_waits_for_a_person_is_not_adopted(store):
    await store.commit(opening("waits", holder="a", status="waiting-approval"))
    await store.commit(opening("queued"))
    assert (await store.run("waits")).holder is None
    assert [run.id for run in await store.adopt("b", seconds=30)] == ["queued"]
    assert await store.claim("waits", "b", seconds=30) is None


async def test_a_lost_run_is_adopted_once(store):
    for n in range(20):
        await store.commit(opening(f"r{n}"))
    taken = await asyncio.gather(*(store.adopt(f"p{n}", seconds=30, limit=4) for n in range(8)))
    ids = [run.id for runs in taken for run in runs]
    assert sorted(ids) == sorted(f"r{n}" for n in range(20))


# Following


async def test_a_follower_waits_for_the_next_event(store):
    await store.commit(opening(events=[event()]))
    assert await store.wait_for_events("r", after=-1, timeout=PATIENCE)
    assert not await store.wait_for_events("r", after=0, timeout=0.05)

    waiting = [asyncio.create_task(store.wait_for_events("r", after=0, timeout=PATIENCE)) for _ in range(200)]
    await asyncio.sleep(0.05)
    await store.commit(entry(metadata={}))  # nothing to read
    assert not any(task.done() for task in waiting)
    await store.commit(entry(events=[event()]))
    assert all(await asyncio.gather(*waiting))

    await store.commit(entry(status="completed", events=[event()]))
    assert await store.wait_for_events("r", after=2, timeout=PATIENCE)  # and nothing will come
    assert await store.wait_for_events("unknown", after=-1, timeout=PATIENCE)


async def test_followers_get_every_event_once(store):
    await store.commit(opening())

    async def follow():
        seen = []
        while (run := await store.run("r")) and (run.status == "pending" or len(seen) < run.events):
            if await store.wait_for_events("r", after=len(seen) - 1, timeout=PATIENCE):
                seen += [event.sequence for event in await store.events("r", after=len(seen) - 1, limit=7)]
        return seen

    followers = [asyncio.create_task(follow()) for _ in range(10)]
    for n in range(40):
        await store.commit(entry(events=[event(n)], status="completed" if n == 39 else None))
    assert await asyncio.gather(*followers) == [list(range(40))] * 10


# Many at once


async def test_writers_of_many_runs_and_of_one_do_not_disturb_each_other(store, series):
    steps = series(8, 25)
    await store.commit(opening("shared"))
    conflicts = []

    async def write(n):
        await store.commit(opening(f"own{n}"))
        for step in range(steps):
            await store.commit(entry(f"own{n}", expected=step, events=[event(step)]))
            while True:  # compare and set, by the sequence seen
                seen = (await store.run("shared")).events
                try:
                    await store.commit(entry("shared", expected=seen, events=[event(n)]))
                    break
                except Conflict as conflict:
                    conflicts.append(conflict.reason)

    await asyncio.gather(*(write(n) for n in range(8)))
    shared = await store.events("shared")
    assert set(conflicts) <= {"sequence"}
    assert [event.sequence for event in shared] == list(range(8 * steps))
    assert sorted(event.data for event in shared) == sorted([event(n).data for n in range(8)] * steps)
    for n in range(8):
        assert [msgspec.json.decode(event.data)["n"] for event in await store.events(f"own{n}")] == list(
            range(steps)
        )


async def test_of_concurrent_writers_of_one_version_one_wins(store):
    answers = await asyncio.gather(
        *(store.commit(Transaction(documents=[put("key", b"%d" % n)])) for n in range(20)),
        *(store.commit(opening("same", tenant=f"t{n}")) for n in range(20)),
        return_exceptions=True,
    )
    assert [
        sum(isinstance(answer, Conflict) for answer in some) for some in (answers[:20], answers[20:])
    ] == [19, 19]


# A plain model


RUNS, KEYS = st.sampled_from(["r1", "r2"]), st.sampled_from(["k1", "k2"])
CHANGES = st.one_of(
    st.builds(put, KEYS, st.binary(max_size=3), st.none() | st.integers(0, 2)),
    st.builds(
        DeleteDocument,
        tenant=st.just("t"),
        kind=st.just("suite"),
        key=KEYS,
        version=st.none() | st.integers(1, 2),
    ),
)
ENTRIES = st.builds(
    RunUpdate,
    run=RUNS,
    opens=st.none() | st.just(CreateRun(tenant="t", kind="k")),
    expected=st.none() | st.integers(0, 3),
    status=st.sampled_from([None, None, None, "running", "completed"]),
    events=st.lists(st.builds(event, st.integers(0, 9)), max_size=2),
    evidence=st.lists(st.builds(EvidenceChunk, kind=st.just("e"), first=st.integers(0, 3), last=st.just(3), data=st.binary(max_size=3)), max_size=1),
)  # fmt: skip
BATCHES = st.builds(
    Transaction, entries=st.lists(ENTRIES, max_size=2), documents=st.lists(CHANGES, max_size=2)
)


class Model:
    """The whole promise of `commit` in dictionaries, written apart from the stores' own rules."""

    def __init__(self):
        self.runs, self.documents = {}, {}

    def commit(self, batch):
        runs = {
            id: (status, list(events), dict(pieces)) for id, (status, events, pieces) in self.runs.items()
        }
        documents = dict(self.documents)
        for entry in batch.entries:
            if (entry.run in runs) == bool(entry.opens):
                return False
            status, events, pieces = runs.setdefault(entry.run, ("pending", [], {}))
            if status == "completed" or entry.expected not in (None, len(events)):
                return False
            events += [event.data for event in entry.events]
            if any(piece.first in pieces for piece in entry.evidence):
                return False
            pieces |= {piece.first: piece.data for piece in entry.evidence}
            runs[entry.run] = (entry.status or status, events, pieces)
        for change in batch.documents:
            version = documents.get(change.key, (0, b""))[0]
            if change.version not in (None, version):
                return False
            if isinstance(change, PutDocument):
                documents[change.key] = (version + 1, change.data)
            else:
                documents.pop(change.key, None)
        self.runs, self.documents = runs, documents
        return True


@given(groups=st.lists(st.lists(BATCHES, min_size=1, max_size=4), max_size=6))
@settings(
    max_examples=40,
    deadline=None,
    phases=[Phase.generate, Phase.shrink],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
async def test_any_transactions_leave_the_state_of_a_plain_model(store, groups):
    model, prefix = Model(), uuid.uuid4().hex  # an example finds nothing of the one before

    def placed(batch):
        entries = [msgspec.structs.replace(entry, run=prefix + entry.run) for entry in batch.entries]
        changes = [msgspec.structs.replace(change, tenant=prefix) for change in batch.documents]
        return Transaction(entries=entries, documents=changes)

    for group in groups:  # committed at once, so in one transaction, in this order
        answers = await asyncio.gather(
            *(store.commit(placed(batch)) for batch in group), return_exceptions=True
        )
        assert [isinstance(answer, tuple) for answer in answers] == [
            model.commit(batch) for batch in group
        ], answers

    for id_, (status, events, pieces) in model.runs.items():
        run = await store.run(prefix + id_)
        assert (run.status, run.events) == (status, len(events))
        found = await store.events(prefix + id_)
        assert [(event.sequence, event.data) for event in found] == list(enumerate(events))
        slots = await store.chunk_infos(prefix + id_, "e")
        assert [slot.first for slot in slots] == sorted(pieces)
    kept = await store.documents(prefix, "suite")
    assert {document.key: (document.version, document.data) for document in kept} == model.documents


@pytest.mark.parametrize(
    "address", ["mysql://x", "no address", "sqlite://", "sqlite:///:memory:"], indirect=False
)
async def test_an_invalid_store_address_is_refused(address):
    with pytest.raises(UsageError):
        await open_store(address)
