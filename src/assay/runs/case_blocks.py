"""Reads the rows of the table of cases, page by page."""

from assay.ports import Store
from assay.ports.cases import CaseBlock

PAGE = 500


async def all_blocks(store: Store, run: str, *, holding: str = "") -> list[CaseBlock]:
    """
    The rows of a run: about a kilobyte for 500 results. `holding`: only rows with a result of one of these outcomes.
    """
    found: list[CaseBlock] = []
    start = 0
    while page := await store.case_blocks(run, start=start, limit=PAGE, holding=holding):
        found += page
        start = page[-1].last + 1
        if len(page) < PAGE:
            break
    return found
