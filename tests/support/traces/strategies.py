"""Conversations of any content, for laws."""

from hypothesis import strategies as st

from support.traces.conversations import Conversation, ToolUse

texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=20).filter(
    lambda text: text.lstrip()[:1] not in ("{", "[")
)
scalars = st.integers(-(10**9), 10**9) | st.booleans() | texts
uses = st.builds(
    ToolUse,
    name=st.sampled_from(["search", "send_mail"]),
    arguments=st.dictionaries(texts, scalars, max_size=3),
    result=st.dictionaries(texts, scalars, min_size=1, max_size=3),
)
conversations = st.builds(
    Conversation,
    question=texts,
    answer=texts,
    uses=st.lists(uses, max_size=3).map(tuple),
    tokens=st.tuples(st.integers(0, 1_000), st.integers(0, 1_000)),
)
