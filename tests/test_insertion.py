"""The quick forms of the store's writing give what the plain ones give."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import create_engine, select

from assay.backends.stores import rules
from assay.backends.stores.insertion import MOST, Insertion
from assay.backends.stores.tables import documents
from assay.ports import Batch, Entry, Event, Opening, Piece, Put
from assay.ports import SystemClock as Clock

NOW = Clock().now()
SOME_NAMES = st.sampled_from(
    ["a", "results", "", "é", "two words", "tab\t", "nul\0", "x" * 512, "x" * 513, "\ud83d"]
)


@pytest.mark.parametrize("many", [0, 1, 2, 3, 15, MOST - 1, MOST, MOST + 1, 2 * MOST + 45])
def test_any_number_of_rows_arrives_whole(tmp_path, many):
    engine = create_engine(f"sqlite:///{tmp_path / 'some.db'}")
    rows = [("t", "k", f"{at:04}", at, at, 0, "", b"%d" % at) for at in range(many)]
    with engine.begin() as connection:
        documents.create(connection)
        Insertion(documents, engine.dialect).add(connection, rows)
        found = connection.execute(select(documents).order_by(documents.c.key)).all()
    engine.dispose()
    assert [tuple(row) for row in found] == rows


@given(names=st.lists(SOME_NAMES, min_size=8, max_size=8), first=st.integers(-1, 2), last=st.integers(-1, 2))
def test_a_batch_that_looks_usual_has_no_problems(names, first, last):
    run, tenant, kind, name, event, piece, key, document = names
    batch = Batch(
        entries=[
            Entry(
                run=run,
                opens=Opening(tenant=tenant, kind=kind, name=name),
                events=[Event(event, b"{}", NOW)],
                evidence=[Piece(kind=piece, key=key, first=first, last=last, data=b"")],
            )
        ],
        documents=[Put(tenant="t", kind="k", key=document, data=b"")],
    )
    plain = "".join(names).isascii() and "".join(names).isprintable()
    assert not (rules.usual(batch) and rules.problems_of(batch))
    assert rules.usual(batch) or not plain or rules.problems_of(batch)
