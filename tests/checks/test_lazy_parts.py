"""Parts that load at their first use: standard checks in their order, and patterns."""

import re

import pytest

from assay import STANDARD, Checker
from assay.lazy_pattern import lazy_pattern


class Mine(Checker):
    type = "mine"

    def run(self, services):
        return {"passed": True}


def test_the_order_of_checks_does_not_depend_on_their_use():
    names = [checker.type for checker in STANDARD.with_checks([])]
    used = STANDARD.with_checks([])
    used.find("has_items", None)
    used.find("contains", None)
    extended = used.with_checks([Mine])
    assert [checker.type for checker in used] == names
    assert [checker.type for checker in extended] == [*names, "mine"]
    assert extended.types == sorted([*names, "mine"])
    assert "mine" not in used.types


@pytest.mark.parametrize("pattern", [r"a+(b)?", rb"\d"])
def test_a_lazy_pattern_is_the_pattern(pattern):
    lazy, plain = lazy_pattern(pattern, re.IGNORECASE), re.compile(pattern, re.IGNORECASE)
    text = "xAab 1" if isinstance(pattern, str) else b"xAab 1"
    assert (lazy.pattern, lazy.flags) == (plain.pattern, plain.flags)
    for _ in range(2):
        assert lazy.search(text)[0] == plain.search(text)[0]
        assert lazy.sub(text[:1], text) == plain.sub(text[:1], text)
