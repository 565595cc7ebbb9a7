"""NDJSON bodies: each line is validated as it arrives and spooled to disk, so that few are in memory (FEP-34)."""

import hashlib
import tempfile
from collections.abc import AsyncGenerator, Generator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import IO

from assay.concurrency.threads import in_thread
from assay.errors import BadLine, EnvironmentFailure, InvalidRequest, Problem
from assay.fep.planning.plan import other_problems
from assay.fep.records.run_header import encode_context
from assay.fep.records.service import PlannedEvaluation
from assay.inputs.context import NotAContext, read_context, too_long
from assay.inputs.input_digests import InputDigests, other_input
from assay.protocol.duplicates import check_elements
from assay.serve.fep.request_parser import REFUSED_IN_PLACE, WITHOUT_ARGUMENTS, experiment_of, read_head
from assay.serve.fep.server_state import CachedPlan, fep_of
from assay.serve.web.body_reader import Footprint, stream_body
from assay.serve.web.request import HttpRequest

LONG = 256 * 1024  # bytes; a longer line counts with its decoded form
_BOM = b"\xef\xbb\xbf"


class SpooledRequest:
    """A valid request, with its contexts on disk."""

    def __init__(self, evaluation: PlannedEvaluation, file: IO[bytes], digest: str) -> None:
        self.planned, self.digest = evaluation, digest
        self._file = file

    def lines(self) -> Iterator[bytes]:
        self._file.seek(0)
        for line in self._file:
            yield line.rstrip(b"\n")


@asynccontextmanager
async def read_lines(call: HttpRequest, *, arguments: bool) -> AsyncGenerator[SpooledRequest]:
    """A first line with checks and experiment, then a context per line. A bad line, by its number, refuses the body."""
    serving = call.server.serving
    with _spool() as file:
        reader = _LineReader(call, file, arguments=arguments)
        limit, seconds = serving.max_upload_bytes, serving.max_upload_seconds
        taken, held = Footprint(), 0  # of the current line, if it is long
        async for piece in stream_body(call, limit, "max_upload_bytes", seconds):
            if reader.is_long:
                call.reservation.reserve_bytes(grown := taken.add(piece))
                held += grown
            if b"\n" not in piece:
                reader.feed(piece)
                continue
            if reader.takes_long(piece):
                await in_thread(lambda piece=piece: reader.feed(piece))
            else:
                reader.feed(piece)
            call.reservation.release_bytes(held)
            taken, held = Footprint(), 0
        yield await in_thread(reader.finish) if reader.takes_long() else reader.finish()


@contextmanager
def _spool() -> Generator[IO[bytes]]:
    """A temporary file. A failed write is reported before the file is closed; a failed close is ignored."""
    with _on_disk():
        file = tempfile.TemporaryFile(prefix="assay-")  # noqa: SIM115  # closing it may fail
    try:
        yield file
    finally:
        with suppress(OSError):
            file.close()


@contextmanager
def _on_disk() -> Generator[None]:
    try:
        yield
    except OSError as wrong:
        raise EnvironmentFailure(
            f"the lines of a request cannot be written to disk: {wrong.strerror}"
        ) from wrong


class _LineReader:
    def __init__(self, call: HttpRequest, file: IO[bytes], *, arguments: bool) -> None:
        self._plans, self._file, self._arguments = fep_of(call).plans, file, arguments
        self._limits = call.server.limits
        self._digest = hashlib.sha256() if call.headers.get(b"idempotency-key") else None
        if self._digest is not None and not arguments:
            self._digest.update(WITHOUT_ARGUMENTS)
        self._tail: list[bytes] = []
        self._buffered_bytes = self._number = self._cases = self._own = 0
        self._cached_plan: CachedPlan | None = None
        self._experiment = None
        self._any_waits = False
        self._inputs = InputDigests()
        self._max_elements = call.server.serving.max_elements

    @property
    def is_long(self) -> bool:
        """Whether the unfinished line is long enough to count with its decoded form."""
        return self._buffered_bytes > LONG

    def takes_long(self, piece: bytes = b"") -> bool:
        """Whether reading up to this piece takes long: there is much, or there may be checks to compile."""
        plan = self._cached_plan
        is_more = self._buffered_bytes + len(piece) > REFUSED_IN_PLACE
        return is_more or plan is None or plan.plan.shared is None

    def feed(self, piece: bytes) -> None:
        lines = piece.split(b"\n")
        tail = lines.pop()
        if lines:
            lines[0] = b"".join((*self._tail, lines[0]))
            self._tail, self._buffered_bytes = [], 0
            self._write([stored for line in lines if (stored := self._line(line))])
        self._tail.append(tail)
        self._buffered_bytes += len(tail)
        if self._buffered_bytes > self._limits.max_line_bytes:
            raise self._bad_line(self._number + 1, [Problem("", too_long(self._limits))])

    def finish(self) -> SpooledRequest:
        self._write([stored for stored in [self._line(b"".join(self._tail))] if stored])
        with _on_disk():
            self._file.flush()
        if self._cached_plan is None:
            raise InvalidRequest(
                "expected a first line with checks and experiment_metadata, got an empty body"
            )
        plan, checks = self._cached_plan
        if plan.list_count is not None and plan.list_count != self._cases:
            message = f"{plan.list_count} lists of checks for {self._cases} test cases: expected one for each"
            raise InvalidRequest(Problem("checks", message))
        planned = PlannedEvaluation(plan, checks, self._experiment, self._cases, self._any_waits, self._own)
        return SpooledRequest(planned, self._file, self._digest.hexdigest() if self._digest else "")

    def _line(self, line: bytes) -> bytes | None:
        """The line to store; None for a blank line and for the first line."""
        self._number += 1
        line = (line.removeprefix(_BOM) if self._number == 1 else line).strip()
        if not line:
            return None
        if self._digest is not None:
            self._digest.update(line + b"\n")
        if self._cached_plan is None:
            self._read_header(line)
            return None
        try:
            check_elements(line, self._max_elements)
            context = read_context(line, self._limits)
            plan = self._cached_plan.plan
            if plan.shared is None or context.checks is not None:
                scorer = plan.scorer_for(self._cases, context)
                self._any_waits = scorer.waits or self._any_waits
                self._own += len(scorer.checks) if plan.list_count is None else 0
        except NotAContext as wrong:
            problems = wrong.problems + other_problems(wrong, self._cached_plan.plan)
            raise self._bad_line(self._number, problems) from None
        except InvalidRequest as wrong:
            raise self._bad_line(self._number, wrong.problems) from None
        case = context.document["test_case"]
        earlier = self._inputs.add(case["id"], case["input"], self._number)
        if earlier is not None:
            raise self._bad_line(self._number, [other_input(case["id"], f"line {earlier}")])
        self._cases += 1
        if self._cases > self._limits.max_cases:
            message = f"more than {self._limits.max_cases} cases, which is the limit (raise it with ASSAY_MAX_CASES)"
            raise self._bad_line(self._number, [Problem("", message)])
        return encode_context(context)

    def _read_header(self, line: bytes) -> None:
        problems: list[Problem] = []
        planned: CachedPlan | None = None
        try:
            check_elements(line, self._max_elements)
            head = read_head(line)
        except InvalidRequest as wrong:
            raise self._bad_line(self._number, wrong.problems) from None
        try:
            planned = self._plans.get(bytes(head.checks), arguments=self._arguments)
        except InvalidRequest as wrong:
            problems += wrong.problems
        try:
            self._experiment = experiment_of(bytes(head.experiment_metadata), self._limits)
        except InvalidRequest as wrong:
            problems += wrong.problems
        if problems or planned is None:
            raise self._bad_line(self._number, problems)
        self._cached_plan = planned
        self._any_waits = planned.plan.shared is not None and planned.plan.shared.waits

    def _write(self, lines: list[bytes]) -> None:
        if lines:
            with _on_disk():
                self._file.write(b"\n".join(lines) + b"\n")

    def _bad_line(self, number: int, problems: list[Problem] | tuple[Problem, ...]) -> BadLine:
        return BadLine(f"line {number}", problems, number)
