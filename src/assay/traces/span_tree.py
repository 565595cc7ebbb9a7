"""The spans of one trace as a tree. Hostile ones end too: cycles, several roots, spans without a parent."""

from collections.abc import Iterable
from typing import NamedTuple

from assay.traces.dialects import Facts, facts_of
from assay.traces.messages import is_cut
from assay.traces.spans import CONSUMER, Span

WRAPPERS = 4  # spans between a model call and the span that has its messages
SKEW = 1_000_000_000  # nanoseconds: a span that starts so long before its parent has another clock


class SpanTree(NamedTuple):
    """What the spans of a trace say, by their start. `depth`: the agents and tools that a span is within."""

    facts: list[Facts]
    tops: list[Facts]
    depth: dict[str, int]
    children: dict[str, list[Facts]]
    problems: list[str]  # why spans are missing or cannot be trusted
    skewed: bool
    limit: int  # characters to which the sender cut texts; 0: none shows that it did

    @property
    def main(self) -> Facts:
        """The span that stands for the trace: a root, the longest if there are several."""
        roots = [one for one in self.tops if not one.span.parent] or self.tops
        return max(roots, key=lambda one: (one.span.end - one.span.start, -one.span.start))

    def leaf_models(self) -> list[Facts]:
        """Model calls without model calls inside. Others repeat the usage of those."""
        by_id = {one.span.span_id: one.span for one in self.facts}
        outer: set[str] = set()  # the ancestors of model calls
        for one in self.facts:
            parent = one.span.parent if one.kind == "model" else ""
            while parent in by_id and parent not in outer and parent != one.span.span_id:
                outer.add(parent)
                parent = by_id[parent].parent
        leaves = [one for one in self.facts if one.kind == "model" and one.span.span_id not in outer]
        self._take_messages(leaves)
        return leaves

    def _take_messages(self, leaves: list[Facts]) -> None:
        """Give a model call without messages or tokens those of the span around it, if it is the only call in there."""
        by_id = {one.span.span_id: one for one in self.facts}
        around: dict[str, list[Facts]] = {}
        for leaf in leaves:
            outer = by_id.get(leaf.span.parent)
            for _ in range(WRAPPERS):
                if outer is None or outer.kind in ("agent", "tool"):
                    break
                if outer.kind == "model":
                    around.setdefault(outer.span.span_id, []).append(leaf)
                outer = by_id.get(outer.span.parent)
        for span_id, inside in around.items():
            outer, leaf = by_id[span_id], inside[0]
            if len(inside) == 1 and not (leaf.inputs or leaf.outputs):
                leaf.inputs, leaf.outputs, leaf.is_partial = outer.inputs, outer.outputs, outer.is_partial
                leaf.system, leaf.cut = leaf.system or outer.system, [*leaf.cut, *outer.cut]
            if len(inside) == 1 and leaf.input_tokens is None and leaf.output_tokens is None:
                leaf.input_tokens, leaf.output_tokens = outer.input_tokens, outer.output_tokens
                leaf.cached_tokens, leaf.cost = outer.cached_tokens, leaf.cost or outer.cost


def tree_of(spans: Iterable[Span]) -> SpanTree:
    """The tree of the spans of one trace, in the order in which they came."""
    problems: list[str] = []
    by_id: dict[str, Span] = {}
    doubled = 0
    for span in spans:
        earlier = by_id.setdefault(span.span_id, span)
        doubled += earlier is not span and earlier != span  # equal ones were sent twice
    if doubled:
        problems.append(f"{doubled} spans have the id of another span and are left out")
    facts = sorted(map(facts_of, by_id.values()), key=lambda one: (one.span.start, one.span.end))
    children: dict[str, list[Facts]] = {}
    tops: list[Facts] = []
    lost: set[str] = set()
    is_local = False  # a lost parent is not in another service
    for one in facts:
        parent = one.span.parent
        if parent in by_id and parent != one.span.span_id:
            children.setdefault(parent, []).append(one)
            continue
        tops.append(one)
        if parent and not one.span.has_remote_parent:
            lost.add(parent)
            is_local = is_local or one.span.has_local_parent
    if is_local or (lost and len(tops) > 1):  # else the parent of the only top span may be in another service
        problems.append(f"{len(lost)} parent spans are missing")
    depth = _depths(tops, children)
    if len(depth) < len(facts):
        inside = [one for one in facts if one.span.span_id not in depth]
        problems.append(f"{len(inside)} spans are their own ancestors")
        for one in inside:
            depth[one.span.span_id] = 0
        children = {
            parent: below
            for parent, below in children.items()
            if parent not in {i.span.span_id for i in inside}
        }
        tops += inside
    skewed = any(_is_skewed(span, by_id.get(span.parent)) for span in by_id.values())
    return SpanTree(facts, tops, depth, children, problems, skewed, _length_limit(by_id.values()))


def _length_limit(spans: Iterable[Span]) -> int:
    """The length of the longest texts, if one of them is JSON that does not end: each was cut, also a plain text."""
    longest: list[str] = [""]
    for span in spans:
        for attributes in (span.attributes, *(event.attributes for event in span.events)):
            for text in attributes.values():
                if isinstance(text, str) and len(text) >= len(longest[0]):
                    longest = [*longest, text] if len(text) == len(longest[0]) else [text]
    return len(longest[0]) if any(map(is_cut, longest)) else 0


def _is_skewed(span: Span, parent: Span | None) -> bool:
    """Whether the clocks of a span and of its parent cannot be one. Consumers may start long after the parent ended."""
    if span.end < span.start or parent is None:
        return span.end < span.start
    is_elsewhere = span.resource != parent.resource and span.kind != CONSUMER
    return span.start + SKEW < parent.start or (is_elsewhere and parent.end + SKEW < span.start)


def _depths(tops: list[Facts], children: dict[str, list[Facts]]) -> dict[str, int]:
    depth: dict[str, int] = {}
    stack = [(one, 0) for one in tops]
    while stack:
        one, level = stack.pop()
        if one.span.span_id in depth:
            continue
        depth[one.span.span_id] = level
        below = level + (one.kind in ("agent", "tool"))
        stack += [(child, below) for child in children.get(one.span.span_id, ())]
    return depth
