"""Tables for a file are written without rich, byte for byte as rich would write them."""

import io
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.cli.console.console_table import NARROW, Page, Table, cell

TEXTS = (
    st.text("aZ 09.,%()–—×±…·•✓✗°µ←→↑↓", max_size=9)
    | st.text(max_size=5)
    | st.text("日é́🙂\t\n\x1b", max_size=4)
)
JUSTIFY = st.sampled_from(["left", "right"])
PADDINGS = st.sampled_from([{}, {"padding": (0, 2, 0, 0)}, {"padding": (0, 1, 0, 0)}])
TABLES = st.builds(
    lambda columns, rows, padding, header: (columns, [row[: len(columns)] for row in rows], padding, header),
    st.lists(st.tuples(TEXTS, JUSTIFY), min_size=1, max_size=4),
    st.lists(st.lists(TEXTS, min_size=4, max_size=4), min_size=1, max_size=4),
    PADDINGS,
    st.booleans(),
)


def written(put, *, plain):
    out = io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdout", out)
        page = Page()
        if not plain:
            patch.setattr("assay.cli.console.console_table.NARROW", NOTHING)
            page._soft_wrap, page._opened = None, page._console
        put(page)
    return out.getvalue()


class NOTHING:
    """Knows the width of no character, so that rich writes every table."""

    fullmatch = staticmethod(lambda text: None)


def table_of(columns, rows, padding, header):
    table = Table(show_header=header, **padding)
    for name, justify in columns:
        table.add_column(name, justify=justify, no_wrap=True)
    for row in rows:
        table.add_row(*(cell(text, "red") if at % 2 else text for at, text in enumerate(row)))
    return table


@given(TABLES)
def test_a_table_is_that_of_rich(form):
    def put(page):
        widths.append(page.width_of(table_of(*form)))
        page.put_table(table_of(*form))

    widths = []
    assert written(put, plain=True) == written(put, plain=False)
    assert widths[0] == widths[1]


@given(TEXTS, TEXTS)
def test_a_line_is_that_of_rich(text, more):
    def put(page):
        page.put(text, "red")
        page.put(cell(text).append(more, "green").append(cell(more)))

    assert written(put, plain=True) == written(put, plain=False)


def test_usual_tables_need_no_rich():
    assert NARROW.fullmatch("contains 1 – 100.0% (20.7–100.0%) 3×2 ✗ · …")
