"""A context from its messages (FEP 2.3, 5.2): the documents that checks look at, the line that is kept, and how both go out again."""

from collections.abc import Callable
from typing import Any

import msgspec

from assay.errors import Problem
from assay.fep.context import Context, NotAContext, context_of, problems_of_case, problems_of_output
from assay.fep.error_paths import deepest, joined
from assay.ports import Limits
from assay.protocol.json_types import depth
from assay.serve.grpc.codec import decode as unpacked
from assay.serve.grpc.codec.decode import NonCanonical, Span, field
from assay.serve.grpc.codec.encode import DEEPEST
from assay.serve.grpc.codec.results import EncodedContext, echo_of
from assay.serve.grpc.codec.shape_cache import CASES, OUTPUTS, RequestShapes

DEEP = DEEPEST - 2  # so that a result can say it too, among the nodes that a path has found
_encode = msgspec.json.Encoder().encode


Half = tuple[
    dict[str, Any], bytes, bool
]  # a document, what results say of it, and whether it was said as we do


class Contexts:
    """Those of one request, by where their messages lie in it."""

    def __init__(self, data: bytes, cases: list[Span], outputs: list[Span], limits: Limits) -> None:
        self.echoes: list[EncodedContext] = []
        self._data, self._cases, self._outputs, self._limits = data, cases, outputs, limits
        self._struct = unpacked.structs()
        deepest = min(limits.max_depth, DEEP + 2) - 1
        self._like_cases, self._like_outputs = (
            RequestShapes(CASES, len(cases), deepest),
            RequestShapes(OUTPUTS, len(outputs), deepest),
        )

    def read(self, at: int) -> Context:
        data, (start, stop), (begin, end) = self._data, self._cases[at], self._outputs[at]
        try:
            case, output = self._like_cases.read(data, start, stop), self._like_outputs.read(data, begin, end)
        except unpacked.NotJSON:  # where, is found member by member
            return self._read(start, stop, begin, end)
        if case is None or output is None or not case[0]["id"] or output[0].get("id") == "":
            return self._read(start, stop, begin, end)
        document = {"test_case": case[0], "output": output[0]}
        self.echoes.append((data[start:stop], data[begin:end], case[1] + output[1]))
        return Context(_encode(document), document)

    def alone(self) -> list[Problem]:
        """What is wrong with cases that have no output, or with outputs that have no case."""
        problems: list[Problem] = []
        most = self._limits.max_cases
        paired = min(len(self._cases), len(self._outputs), most)
        halves = (
            ("test_cases", self._cases, self._case, problems_of_case),
            ("outputs", self._outputs, self._output, problems_of_output),
        )
        for name, places, read, look in halves:
            for at, place in enumerate(places[paired:most], paired):
                try:
                    problems += look(read(*place)[0], f"{name}[{at}]")
                except NotAContext as wrong:
                    problems += [
                        Problem(f"{name}[{at}].{one.place.partition('.')[2]}", one.message)
                        for one in wrong.problems
                    ]
        return problems

    def _read(self, start: int, stop: int, begin: int, end: int) -> Context:
        """Member by member."""
        data = self._data
        problems: list[Problem] = []
        case, about, usual = self._half(self._case, start, stop, problems)
        output, more, common = self._half(self._output, begin, end, problems)
        if problems:
            raise NotAContext(problems)
        document = {"test_case": case, "output": output}
        line = _encode(document)
        if line.count(b"{") + line.count(b"[") > DEEP and depth(document) - 2 > DEEP:
            place = joined("", deepest(document, 2))
            raise NotAContext(
                [Problem(place, f"nested more than {DEEP} deep, which gRPC cannot say; REST can")]
            )
        context = context_of(line, document, self._limits)
        if usual and common:
            self.echoes.append((data[start:stop], data[begin:end], about + more))
        else:  # another way of saying the same is ours
            self.echoes.append(echo_of(case, output))
        return context

    def _half(self, read: Callable[[int, int], Half], at: int, end: int, problems: list[Problem]) -> Half:
        try:
            return read(at, end)
        except NotAContext as wrong:
            problems += wrong.problems
            return {}, b"", True

    def _struct_at(self, place: str, at: int, end: int) -> dict[str, Any]:
        try:
            return self._struct(self._data, at, end)
        except unpacked.NotJSON as wrong:
            raise NotAContext([Problem(place, str(wrong))]) from None

    def _case(self, at: int, end: int) -> Half:
        data, first = self._data, at
        found: dict[str, Any] = {"id": ""}
        named, about, usual, before = 0, 0, True, 0
        while at < end:
            tag, start, stop = data[at], at + 2, at + 2 + data[at + 1]
            if data[at + 1] > 127:
                start, stop = field(data, at)
            if tag <= before:
                raise NonCanonical
            if tag == 0x0A:
                found["id"] = data[start:stop].decode()
                named = stop - first
            elif tag == 0x22:
                found["metadata"] = self._struct_at("test_case.metadata", start, stop)
                about = at + 1 - first
            elif tag in (0x12, 0x1A):
                usual &= self._put(found, "test_case", "input" if tag == 0x12 else "expected", start, stop)
            else:
                raise NonCanonical
            before, at = tag, stop
        if at != end:
            raise NonCanonical
        if usual and "input" in found:
            self._like_cases.missed(data, first, end)
        said = b"\x12" + data[first + about : end] if about else b""  # the metadata is the last
        return found, data[first : first + named] + said, usual

    def _output(self, at: int, end: int) -> Half:
        data, first = self._data, at
        found: dict[str, Any] = {}
        about, usual, before = b"", True, 0
        while at < end:
            tag, start, stop = data[at], at + 2, at + 2 + data[at + 1]
            if data[at + 1] > 127:
                start, stop = field(data, at)
            if tag <= before:
                raise NonCanonical
            if tag == 0x0A:
                usual = self._put(found, "output", "value", start, stop)
            elif tag == 0x12:
                found["metadata"] = self._struct_at("output.metadata", start, stop)
                about = b"\x1a" + data[at + 1 : stop]
            elif tag == 0x1A:
                found["id"] = data[start:stop].decode()
            else:
                raise NonCanonical
            before, at = tag, stop
        if at != end:
            raise NonCanonical
        if usual and "value" in found:
            self._like_outputs.missed(data, first, end)
        return found, about, usual

    def _put(self, document: dict[str, Any], half: str, name: str, at: int, end: int) -> bool:
        """An InputValue or an OutputValue; false: there is nothing in it, or a text or an object as if it were neither."""
        if at == end:
            return False
        data = self._data
        tag, start, stop = data[at], at + 2, at + 2 + data[at + 1]
        if data[at + 1] > 127:
            start, stop = field(data, at)
        if stop != end:
            raise NonCanonical
        if tag == unpacked.STRING:
            document[name] = data[start:stop].decode()
        elif tag == unpacked.OBJECT:
            document[name] = self._struct_at(f"{half}.{name}", start, stop)
        elif tag == unpacked.OTHER:
            try:
                document[name] = said = unpacked.value(data, start, stop, self._struct)
            except unpacked.NotJSON as wrong:
                raise NotAContext([Problem(f"{half}.{name}", str(wrong))]) from None
            return not isinstance(said, str | dict)
        else:
            raise NonCanonical
        return True
