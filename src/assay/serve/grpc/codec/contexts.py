"""Decodes contexts (FEP 2.3, 5.2): the document for the checks, the line to store, and the bytes for the response."""

from typing import Any

import msgspec

from assay.concurrency.loop_budget import spend
from assay.errors import MOST_PROBLEMS, Problem
from assay.inputs.context import (
    Context,
    NotAContext,
    context_of,
    deepest_path,
    join_path,
    problems_of_case,
    problems_of_output,
)
from assay.ports import Limits
from assay.protocol.json_types import depth
from assay.serve.grpc.codec import decode as unpacked
from assay.serve.grpc.codec.decode import NonCanonical, Span, field
from assay.serve.grpc.codec.encode import DEEPEST
from assay.serve.grpc.codec.result_codec import EncodedContext, echo_of

DEEP = DEEPEST - 2  # a result may contain it two levels deeper, among the values of a path
_encode = msgspec.json.Encoder().encode


Half = tuple[
    dict[str, Any], bytes, bool
]  # a document, its part of every check result, and whether it was encoded as we encode it


class Contexts:
    """The contexts of one request, by the spans of their messages."""

    def __init__(self, data: bytes, cases: list[Span], outputs: list[Span], limits: Limits) -> None:
        self.encoded_contexts: list[EncodedContext] = []
        self._data, self._cases, self._outputs, self._limits = data, cases, outputs, limits
        self._struct = unpacked.structs()

    def read(self, index: int) -> Context:
        data, (start, stop), (begin, end) = self._data, self._cases[index], self._outputs[index]
        try:
            case, about, usual = self._case(start, stop)
            output, more, common = self._output(begin, end)
        except NotAContext:
            raise NotAContext(self._problems(start, stop, begin, end)) from None
        document = {"test_case": case, "output": output}
        line = _encode(document)
        brackets = line.count(b"{") + line.count(b"[")
        if brackets > DEEP and depth(document) - 2 > DEEP:
            path = join_path("", deepest_path(document, 2))
            message = f"nested more than {DEEP} levels deep, which gRPC cannot represent; use REST"
            raise NotAContext([Problem(path, message)])
        if (
            brackets <= self._limits.max_depth
            and case["id"]
            and "input" in case
            and "value" in output
            and output.get("id") != ""
        ):
            context = Context(line, document)
        else:
            context = context_of(line, document, self._limits)
        if usual and common:
            self.encoded_contexts.append((data[start:stop], data[begin:end], about + more))
        else:  # a result has our own encoding of it
            self.encoded_contexts.append(echo_of(case, output))
        return context

    def pairing_problems(self) -> list[Problem]:
        """The problems of cases without an output, and of outputs without a case."""
        problems: list[Problem] = []
        limit = self._limits.max_cases
        paired = min(len(self._cases), len(self._outputs), limit)
        halves = (
            ("test_cases", self._cases, self._case, problems_of_case),
            ("outputs", self._outputs, self._output, problems_of_output),
        )
        for name, spans, read, check in halves:
            for at, span in enumerate(spans[paired:limit], paired):
                spend()
                if len(problems) >= MOST_PROBLEMS:
                    break
                try:
                    problems += check(read(*span)[0], f"{name}[{at}]")
                except NotAContext as wrong:
                    problems += [
                        Problem(f"{name}[{at}].{problem.place.partition('.')[2]}", problem.message)
                        for problem in wrong.problems
                    ]
        return problems

    def _problems(self, start: int, stop: int, begin: int, end: int) -> list[Problem]:
        """The problems of both halves of a context."""
        problems: list[Problem] = []
        for read, span in ((self._case, (start, stop)), (self._output, (begin, end))):
            try:
                read(*span)
            except NotAContext as wrong:
                problems += wrong.problems
        return problems

    def _read_struct(self, path: str, start: int, end: int) -> dict[str, Any]:
        try:
            return self._struct(self._data, start, end)
        except unpacked.NotJSON as wrong:
            raise NotAContext([Problem(path, str(wrong))]) from None

    def _case(self, offset: int, end: int) -> Half:
        data, first = self._data, offset
        case: dict[str, Any] = {"id": ""}
        named, about, usual, before = 0, 0, True, 0
        while offset < end:
            tag, start, stop = data[offset], offset + 2, offset + 2 + data[offset + 1]
            if data[offset + 1] > 127:
                start, stop = field(data, offset)
            if tag <= before:
                raise NonCanonical
            if tag == 0x0A:
                case["id"] = data[start:stop].decode()
                named = stop - first
            elif tag == 0x22:
                case["metadata"] = self._read_struct("test_case.metadata", start, stop)
                about = offset + 1 - first
            elif tag in (0x12, 0x1A):
                usual &= self._put(case, "test_case", "input" if tag == 0x12 else "expected", start, stop)
            else:
                raise NonCanonical
            before, offset = tag, stop
        if offset != end:
            raise NonCanonical
        metadata = b"\x12" + data[first + about : end] if about else b""  # the metadata is the last field
        return case, data[first : first + named] + metadata, usual

    def _output(self, offset: int, end: int) -> Half:
        data = self._data
        output: dict[str, Any] = {}
        about, usual, before = b"", True, 0
        while offset < end:
            tag, start, stop = data[offset], offset + 2, offset + 2 + data[offset + 1]
            if data[offset + 1] > 127:
                start, stop = field(data, offset)
            if tag <= before:
                raise NonCanonical
            if tag == 0x0A:
                usual = self._put(output, "output", "value", start, stop)
            elif tag == 0x12:
                output["metadata"] = self._read_struct("output.metadata", start, stop)
                about = b"\x1a" + data[offset + 1 : stop]
            elif tag == 0x1A:
                output["id"] = data[start:stop].decode()
            else:
                raise NonCanonical
            before, offset = tag, stop
        if offset != end:
            raise NonCanonical
        return output, about, usual

    def _put(self, document: dict[str, Any], parent: str, name: str, offset: int, end: int) -> bool:
        """Decode an InputValue or an OutputValue. False: it is empty, or in the general form."""
        if offset == end:
            return False
        data = self._data
        tag, start, stop = data[offset], offset + 2, offset + 2 + data[offset + 1]
        if data[offset + 1] > 127:
            start, stop = field(data, offset)
        if stop != end:
            raise NonCanonical
        if tag == unpacked.STRING:
            document[name] = data[start:stop].decode()
        elif tag == unpacked.OBJECT:
            document[name] = self._read_struct(f"{parent}.{name}", start, stop)
        elif tag == unpacked.OTHER:
            try:
                document[name] = value = unpacked.value(data, start, stop, self._struct)
            except unpacked.NotJSON as wrong:
                raise NotAContext([Problem(f"{parent}.{name}", str(wrong))]) from None
            return not isinstance(value, str | dict)
        else:
            raise NonCanonical
        return True
