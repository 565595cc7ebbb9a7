"""Semantic versions: which texts are versions, and their order."""

from itertools import pairwise

import pytest

from assay.protocol.versions import is_version, newest, precedence

ORDER = [  # of semver.org
    "0.9.0", "1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-beta.2", "1.0.0-beta.11", "1.0.0-rc.1", "1.0.0",
    "1.0.1", "1.10.0", "99999999999999999999.0.0", "100000000000000000000.0.0",
]  # fmt: skip


@pytest.mark.parametrize(("one", "two"), [*pairwise(ORDER)])
def test_versions_have_the_order_of_semver(one, two):
    assert precedence(one) < precedence(two)
    assert precedence(f"{one}+build") == precedence(one)


@pytest.mark.parametrize("text", [*ORDER, "1.0.0+build.1", "1.0.0-0a"])
def test_a_semantic_version_is_a_version(text):
    assert is_version(text)


@pytest.mark.parametrize(
    "text", ["", "1", "1.0", "01.0.0", "1.0.0-01", "1.0.0-", "v1.0.0", "1.0.0\n", "1.٠.0", "1.0.0.0"]
)
def test_another_text_is_no_version(text):
    assert not is_version(text)


@pytest.mark.parametrize(
    ("versions", "expected"),
    [(["1.0.0", "1.2.0", "2.0.0-rc.1"], "1.2.0"), (["1.0.0-a", "1.0.0-b"], "1.0.0-b")],
)
def test_a_pre_release_is_the_newest_only_without_a_release(versions, expected):
    assert newest([precedence(one) for one in versions]) == precedence(expected)


def test_a_number_that_python_does_not_read_has_an_order():
    assert precedence("1.0.0") < precedence(f"{'9' * 5000}.0.0")
