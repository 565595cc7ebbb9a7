"""
Messages that are alike but for their values (decision 2): what they have in common is found out once.

The cases of a request mostly have the same members, and writers of protocol buffers mostly put them in the same order. Of those
that do a shape is learned, and others of it, in this request or the next, are read in one go. Anything else is read member by
member, which finds the same. A shape knows the names of members and lengths of texts, and nothing that they say.
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
)  # messages until a shape is looked for among those of others, and of which one is learned
_WORTH = 64  # messages to come that it is learned for
_LONGEST = 4_096  # bytes of a message that is looked at
_MANY, _KEPT = 4, 16  # shapes in a request, and in memory
Form = Callable[[Trace, int, int], None]


class ShapeCache:
    """The shapes of all requests, those that were learned last first."""

    def __init__(self, form: Form) -> None:
        self.form = form
        self.shapes: tuple[Shape, ...] = ()

    def add(self, shape: Shape, instead: Shape | None) -> None:
        """Two who learn at the same time may lose one, which is then learned again."""
        others = (one for one in self.shapes if one is not instead and one[:3] != shape[:3])
        self.shapes = (shape, *others)[:_KEPT]


CASES, OUTPUTS = ShapeCache(Trace.case), ShapeCache(Trace.output)


class RequestShapes:
    """Those of one request's cases, or of its outputs."""

    def __init__(self, known: ShapeCache, many: int, deepest: int) -> None:
        self._known, self._left, self._deepest = known, many, deepest
        self._shapes: list[Shape] = []
        self._samples: list[Span] = []
        self._missed, self._due = 0, _OFTEN

    def read(self, data: bytes, at: int, end: int) -> Made | None:
        """The document of a message like others before; of any other, nothing."""
        for shape in self._shapes:
            if (made := shape.read(data, at, end)) is not None:
                return made
        return None

    def missed(self, data: bytes, at: int, end: int) -> None:
        """One was read member by member, and was of the usual kind. After eight, and again after four times as many, they are compared."""
        self._missed += 1
        if self._missed == _SOME:
            fitting = (one for one in self._known.shapes if one.deep <= self._deepest)
            self._shapes = list(islice((one for one in fitting if one.read(data, at, end)), 1))
        if self._due - _OFTEN < self._missed <= self._due and end - at <= _LONGEST:
            self._samples.append((at, end))
        if self._missed == self._due:
            learned = self._left - self._missed >= _WORTH and self._learn(data)
            self._due = self._due * 4 if learned else 0
            self._samples = []

    def _learn(self, data: bytes) -> bool:
        """Whether half of them are alike; if not, their writer has no order, and no more are compared."""
        alike: dict[tuple[SourcePart, ...], list[Trace]] = defaultdict(list)
        for place in self._samples:
            trace = self._traced(data, place)
            alike[tuple(trace.pieces)].append(trace)
        often = {kind: traces for kind, traces in alike.items() if len(traces) * 2 >= _OFTEN}
        for kind, traces in often.items():
            if traces[0].deep > self._deepest:
                continue
            before = next((shape for shape in self._shapes if shape.kind == kind), None)
            lengths = [trace.lengths for trace in traces]
            free = {which for which, some in enumerate(zip(*lengths, strict=True)) if len(set(some)) > 1}
            if before is not None:
                pairs = enumerate(zip(before.lengths, lengths[0], strict=True))
                free |= before.free | {which for which, (one, other) in pairs if one != other}
                self._shapes.remove(before)
            trace = self._traced(data, traces[0].place, free)
            if trace.handy:
                shape = trace.shape(kind)
                self._shapes = [shape, *self._shapes][:_MANY]
                self._known.add(shape, before)
        return bool(often)

    def _traced(self, data: bytes, place: Span, free: set[int] | None = None) -> Trace:
        trace = Trace(data, place, free)
        self._known.form(trace, *place)
        return trace
