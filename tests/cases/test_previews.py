"""What a row shows of an input and an output."""

import pytest

from assay.cases.previews import PREVIEW, preview_of

TALK = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Where is it?"},
    {"role": "assistant", "content": "On its way.", "tool_calls": []},
]
PARTS = [{"type": "text", "text": "What is this?"}, {"type": "image_url", "image_url": {"url": "data:,"}}]


@pytest.mark.parametrize(
    ("value", "role", "text"),
    [
        ("plain", "user", "plain"),
        (None, "user", "null"),
        ({"messages": TALK}, "user", "Where is it?"),
        (TALK, "assistant", "On its way."),
        (TALK[:1], "user", "Be brief."),
        ([*TALK, {"role": "user", "content": PARTS}], "user", "What is this?"),
        ({"text": "Yes", "confidence": 1}, "assistant", "Yes"),
        ({"answer": "Yes"}, "assistant", "Yes"),
        ({"content": PARTS}, "assistant", "What is this?"),
        ({"messages": "no list"}, "user", '{"messages":"no list"}'),
        ({"messages": [1, {"role": 2}]}, "user", '{"messages":[1,{"role":2}]}'),
        ([], "user", "[]"),
        ({"text": ""}, "user", '{"text":""}'),
        ("x" * 400, "user", "x" * (PREVIEW - 1) + "…"),
    ],
)
def test_a_preview_is_what_a_person_reads_first(value, role, text):
    assert preview_of(value, role) == text
