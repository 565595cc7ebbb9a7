"""The redaction of events: large values that are known to have no secrets are not searched again, and nothing else differs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.concurrency.threads import LARGE
from assay.protocol.redaction import redact
from assay.workflow.state.execution_state import Redactor

NAMES = st.sampled_from(["a", "password", "api_key", "text", "sk-0123456789abcdefghij"])
LEAVES = st.sampled_from(
    ["", "x", "see sk-0123456789abcdefghij", "é" * 40_000, "y" * (LARGE + 1), 1, None, True]
)
VALUES = st.recursive(
    LEAVES,
    lambda parts: st.lists(parts, max_size=3) | st.dictionaries(NAMES, parts, max_size=3),
    max_leaves=12,
)


@given(VALUES, VALUES, NAMES, NAMES)
def test_the_redactor_equals_the_plain_redaction(large, other, name, deeper):
    redactor = Redactor()
    clean = redact(large)
    redactor.remember(clean)
    parts = [clean, *(clean.values() if isinstance(clean, dict) else ())]
    for content in (
        {name: clean, "other": other},
        *({"outputs": {deeper: part}, name: other} for part in parts),
        {"outputs": {name: {deeper: {name: {deeper: clean}}}}},
        {name: [clean, other]},
    ):
        assert redactor.redact(content) == redact(content)


@pytest.mark.parametrize("value", ["x" * (LARGE + 1), ["x" * (LARGE + 1)], {"a": {"b": ["x" * (LARGE + 1)]}}])
def test_a_large_value_is_not_searched_again(value, monkeypatch):
    redactor = Redactor()
    redactor.remember(value)
    searched = []
    monkeypatch.setattr("assay.protocol.redaction._maybe_secret", lambda line: searched.append(len(line)))
    monkeypatch.setattr("assay.protocol.redaction.hide", lambda text: searched.append(len(text)) or text)
    assert redactor.redact({"outputs": {"payload": value}})["outputs"]["payload"] is value
    assert max(searched) < 1000
