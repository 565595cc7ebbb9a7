"""
Message shapes (FEP-2): messages that differ only in their values are decoded by one generated function.

The cases of a request mostly have the same members, and protobuf writers mostly keep their order. The decoder learns
the shape of such messages and reads others of that shape, in this request or the next, in one step. Any other message
is read member by member, with the same result. A shape has names of members and lengths of texts, and no content.
"""

from collections import defaultdict
from collections.abc import Callable
from itertools import islice

from assay.serve.grpc.codec.decode import Span
from assay.serve.grpc.codec.shape_source import SourcePart
from assay.serve.grpc.codec.shape_trace import Made, Shape, Trace

_SOME, _OFTEN = (
    4,
    8,
)  # messages before the cache is searched for a shape, and messages that a shape is learned from
_WORTH = 64  # remaining messages that make learning worthwhile
_LONGEST = 4_096  # bytes of a message that a shape is learned from
_PER_REQUEST, _CACHED = 4, 16  # shapes
Form = Callable[[Trace, int, int], None]


class ShapeCache:
    """The shapes of all requests, newest first."""

    def __init__(self, form: Form) -> None:
        self.form = form
        self.shapes: tuple[Shape, ...] = ()

    def add(self, shape: Shape, previous: Shape | None) -> None:
        """Add a shape in place of another. Two threads at the same time may lose one, which is then learned again."""
        others = (other for other in self.shapes if other is not previous and other[:3] != shape[:3])
        self.shapes = (shape, *others)[:_CACHED]


CASES, OUTPUTS = ShapeCache(Trace.case), ShapeCache(Trace.output)


class RequestShapes:
    """The shapes of the cases of one request, or of its outputs."""

    def __init__(self, cache: ShapeCache, count: int, deepest: int) -> None:
        self._cache, self._remaining, self._deepest = cache, count, deepest
        self._shapes: list[Shape] = []
        self._samples: list[Span] = []
        self._misses, self._next_learning = 0, _OFTEN

    def read(self, data: bytes, start: int, end: int) -> Made | None:
        """The document of a message of a learned shape; None for any other."""
        for shape in self._shapes:
            if (made := shape.read(data, start, end)) is not None:
                return made
        return None

    def record_miss(self, data: bytes, start: int, end: int) -> None:
        """
        A canonical message was read member by member. After eight of them, and again after four times as many, a shape
        is learned.
        """
        self._misses += 1
        if self._misses == _SOME:
            fitting = (shape for shape in self._cache.shapes if shape.depth <= self._deepest)
            self._shapes = list(islice((shape for shape in fitting if shape.read(data, start, end)), 1))
        if self._next_learning - _OFTEN < self._misses <= self._next_learning and end - start <= _LONGEST:
            self._samples.append((start, end))
        if self._misses == self._next_learning:
            learned = self._remaining - self._misses >= _WORTH and self._learn(data)
            self._next_learning = self._next_learning * 4 if learned else 0
            self._samples = []

    def _learn(self, data: bytes) -> bool:
        """Whether half of the samples have one shape. If not, their writer keeps no order, and learning stops."""
        alike: dict[tuple[SourcePart, ...], list[Trace]] = defaultdict(list)
        for span in self._samples:
            trace = self._trace(data, span)
            alike[tuple(trace.pieces)].append(trace)
        often = {kind: traces for kind, traces in alike.items() if len(traces) * 2 >= _OFTEN}
        for kind, traces in often.items():
            if traces[0].depth > self._deepest:
                continue
            before = next((shape for shape in self._shapes if shape.kind == kind), None)
            lengths = [trace.lengths for trace in traces]
            free = {which for which, some in enumerate(zip(*lengths, strict=True)) if len(set(some)) > 1}
            if before is not None:
                pairs = enumerate(zip(before.lengths, lengths[0], strict=True))
                free |= before.free | {which for which, (one, other) in pairs if one != other}
                self._shapes.remove(before)
            trace = self._trace(data, traces[0].span, free)
            if trace.is_small:
                shape = trace.shape(kind)
                self._shapes = [shape, *self._shapes][:_PER_REQUEST]
                self._cache.add(shape, before)
        return bool(often)

    def _trace(self, data: bytes, span: Span, free: set[int] | None = None) -> Trace:
        trace = Trace(data, span, free)
        self._cache.form(trace, *span)
        return trace
