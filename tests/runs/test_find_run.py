"""References to runs: ids, names, beginnings of ids, `latest` and `previous`, on every kind of store."""

import pytest

from assay.errors import InvalidRequest, UsageError
from assay.ports import CreateRun, RunUpdate, Transaction
from assay.runs.find_run import find_run
from assay.runs.run_names import name_documents, name_tag, title_of

RUNS = (  # id, suite, name
    ("run-1", "suite.a", "model-a"),
    ("run-2", "suite.b", "model-b"),
    ("run-3", "suite.a", ""),
    ("run-4", "suite.b", "model-a"),
    ("eval_10", "", "größer 2"),
)


@pytest.fixture
async def stored(store):
    for id, suite, name in RUNS:
        metadata = {"tags": [name_tag(name), "by=me"]} if name else {}
        kind = "eval" if id.startswith("run-") else "evaluation"
        entry = RunUpdate(
            run=id,
            opens=CreateRun(tenant="local", kind=kind, name=suite),
            metadata=metadata,
            status="completed",
        )
        await store.commit(Transaction(entries=[entry], documents=name_documents("local", id, metadata)))
    return store


@pytest.mark.anyio
async def test_a_reference_finds_its_run(stored):
    found = {
        reference: (await find_run(stored, reference)).id
        for reference in (
            "run-2", "run-3", "eval", "model-b", "model-a", "größer 2", "latest", "latest:suite.a", "previous:suite.a",
            "previous:suite.b",
        )
    }  # fmt: skip
    assert found == {
        "run-2": "run-2",
        "run-3": "run-3",
        "eval": "eval_10",
        "model-b": "run-2",
        "model-a": "run-4",  # the newest of this name
        "größer 2": "eval_10",
        "latest": "eval_10",
        "latest:suite.a": "run-3",
        "previous:suite.a": "run-1",
        "previous:suite.b": "run-2",
    }
    assert (await find_run(stored, "previous", "eval")).id == "run-2"  # before run-4, of the same suite
    both = frozenset({"eval"})
    assert (await find_run(stored, "latest", latest_of=both)).id == "run-4"
    assert (await find_run(stored, "previous", latest_of=both)).id == "run-2"
    assert title_of(await find_run(stored, "model-a")) == "run-4  model-a"


@pytest.mark.anyio
async def test_latest_is_of_this_machine_before_other_tenants(stored):
    entry = RunUpdate(
        run="run-5",
        opens=CreateRun(tenant="acme", kind="eval", name="suite.c"),
        metadata={},
        status="completed",
    )
    await stored.commit(Transaction(entries=[entry]))
    assert (await find_run(stored, "latest")).id == "eval_10"
    assert (await find_run(stored, "latest", tenant="acme")).id == "run-5"
    assert (await find_run(stored, "latest:suite.c")).id == "run-5"  # there is none of this machine


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("reference", "words"),
    [
        ("run-", "'run-': expected the beginning of one run id, got that of 4"),
        ("model-z", "there is no run 'model-z'; did you mean 'model-b'? `assay list` shows"),
        ("other", "there is no run 'other'; `assay list` shows the stored runs"),
        ("latest:suite.c", "no run of 'suite.c' is stored here"),
        ("previous", "previous: no run is stored before eval_10"),
        ("previous:suite.c", "no run of 'suite.c' is stored here"),
    ],
)
async def test_a_reference_to_no_run_is_refused(stored, reference, words):
    with pytest.raises(UsageError, match=words.replace("?", r"\?")):
        await find_run(stored, reference)


@pytest.mark.anyio
async def test_a_name_is_of_its_tenant_alone(stored):
    with pytest.raises(UsageError, match="there is no run 'model-a'"):
        await find_run(stored, "model-a", tenant="other")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("latest", "which refers to a run already"),
        ("previous", "which refers to a run already"),
        ("run-7", "which refers to a run already"),
        ("", "the first a letter or digit"),
        ("a/b", "the first a letter or digit"),
        ("a:b", "the first a letter or digit"),
        ("-a", "the first a letter or digit"),
        ("a\nb", "the first a letter or digit"),
        ("x" * 101, "at most 100 characters, got 101"),
    ],
)
def test_a_name_that_is_none_is_refused(name, words):
    with pytest.raises(InvalidRequest, match=words):
        name_tag(name)
