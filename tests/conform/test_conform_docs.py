"""The documents about conformance name checks that exist."""

import re
from pathlib import Path

from assay.conform.catalog import OPENWOP_CHECKS, all_checks

ROOT = Path(__file__).parents[2]
NAMED = re.compile(r"`((?:fep|openwop)\.[a-z0-9_.-]+)`")


def test_a_check_that_the_page_names_is_there():
    names = {one.name for one in all_checks()}
    families = {name.rpartition(".")[0] for name in names}
    assert {*NAMED.findall((ROOT / "docs/conformance.md").read_text("utf-8"))} <= names | families


def test_every_family_of_openwop_is_on_the_page():
    page = (ROOT / "docs/conformance.md").read_text("utf-8")
    families = {one.name.rpartition(".")[0] for one in OPENWOP_CHECKS} - {"openwop.runs"}
    assert {one for one in families if f"`{one}`" not in page} == set()
