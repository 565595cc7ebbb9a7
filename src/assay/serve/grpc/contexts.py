"""A context from its messages (FEP 2.3, 5.2): the documents that checks look at, the line that is kept, and how both go out again."""

from typing import Any

import msgspec

from assay.errors import Problem
from assay.fep.context import Context, NotAContext, context_of, depth
from assay.ports import Limits
from assay.serve.grpc import unpacked
from assay.serve.grpc.layouts import Layouts
from assay.serve.grpc.packed import DEEPEST
from assay.serve.grpc.results import Echo, echo_of
from assay.serve.grpc.unpacked import Part, Unusual, field

DEEP = DEEPEST - 2  # so that a result can say it too, among the nodes that a path has found
_encode = msgspec.json.Encoder().encode


Half = tuple[
    dict[str, Any], bytes, bool
]  # a document, what results say of it, and whether it was said as we do


class Contexts:
    """Those of one request, by where their messages lie in it."""

    def __init__(self, data: bytes, cases: list[Part], outputs: list[Part], limits: Limits) -> None:
        self.echoes: list[Echo] = []
        self._data, self._cases, self._outputs, self._limits = data, cases, outputs, limits
        self._layouts = Layouts()
        self._struct = self._layouts.struct
        self._abouts: dict[int, tuple[int, int]] = {}

    def read(self, at: int) -> Context:
        data, (start, stop), (begin, end) = self._data, self._cases[at], self._outputs[at]
        try:
            case, about, usual = self._case(start, stop)
            output, more, common = self._output(begin, end)
        except unpacked.NotJSON as wrong:
            raise NotAContext([Problem("", str(wrong))]) from None
        document = {"test_case": case, "output": output}
        line = _encode(document)
        if line.count(b"{") + line.count(b"[") > DEEP and depth(document) - 2 > DEEP:
            raise NotAContext([Problem("", f"nested more than {DEEP} deep, which gRPC cannot say; REST can")])
        context = context_of(line, document, self._limits)
        if usual and common:
            self.echoes.append(Echo(data[start:stop], data[begin:end], about + more))
        else:  # another way of saying the same is ours
            self.echoes.append(echo_of(case, output))
        return context

    def _case(self, at: int, end: int) -> Half:
        data = self._data
        known = self._layouts.case(data, at, end)
        if known is None:
            return self._new_case(at, end)
        named, about = self._abouts[end - at]
        return known, data[at : at + named] + (b"\x12" + data[at + about : end] if about else b""), True

    def _new_case(self, at: int, end: int) -> Half:
        data, first = self._data, at
        found: dict[str, Any] = {"id": ""}
        named, about, usual, before = 0, 0, True, 0
        while at < end:
            tag, start, stop = data[at], at + 2, at + 2 + data[at + 1]
            if data[at + 1] > 127:
                start, stop = field(data, at)
            if tag <= before:
                raise Unusual
            if tag == 0x0A:
                found["id"] = data[start:stop].decode()
                named = stop - first
            elif tag == 0x22:
                found["metadata"] = self._struct(data, start, stop)
                about = at + 1 - first
            elif tag in (0x12, 0x1A):
                usual &= self._put(found, "input" if tag == 0x12 else "expected", start, stop)
            else:
                raise Unusual
            before, at = tag, stop
        if at != end:
            raise Unusual
        if usual and self._layouts.read(data, first, end):
            self._abouts[end - first] = named, about
        said = b"\x12" + data[first + about : end] if about else b""  # the metadata is the last
        return found, data[first : first + named] + said, usual

    def _output(self, at: int, end: int) -> Half:
        data = self._data
        found: dict[str, Any] = {}
        about, usual, before = b"", True, 0
        while at < end:
            tag, start, stop = data[at], at + 2, at + 2 + data[at + 1]
            if data[at + 1] > 127:
                start, stop = field(data, at)
            if tag <= before:
                raise Unusual
            if tag == 0x0A:
                usual = self._put(found, "value", start, stop)
            elif tag == 0x12:
                found["metadata"] = self._struct(data, start, stop)
                about = b"\x1a" + data[at + 1 : stop]
            elif tag == 0x1A:
                found["id"] = data[start:stop].decode()
            else:
                raise Unusual
            before, at = tag, stop
        if at != end:
            raise Unusual
        return found, about, usual

    def _put(self, document: dict[str, Any], name: str, at: int, end: int) -> bool:
        """An InputValue or an OutputValue; false: there is nothing in it, or a text or an object as if it were neither."""
        if at == end:
            return False
        data = self._data
        tag, start, stop = data[at], at + 2, at + 2 + data[at + 1]
        if data[at + 1] > 127:
            start, stop = field(data, at)
        if stop != end:
            raise Unusual
        if tag == unpacked.STRING:
            document[name] = data[start:stop].decode()
        elif tag == unpacked.OBJECT:
            document[name] = self._struct(data, start, stop)
        elif tag == unpacked.OTHER:
            document[name] = said = unpacked.value(data, start, stop, self._struct)
            return not isinstance(said, str | dict)
        else:
            raise Unusual
        return True
