"""
Traces: what a receiver acknowledges a second beside an endpoint that only parses, and memory over a million spans, that
of the receiver and that of `assay evaluate --traces`.
"""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import islice
from typing import Any

import aiohttp

from bench.files import Bench
from bench.measure import Failed, Row
from bench.service import ServerProcess, start_server

TRACES, SPANS = 64, 4  # in a request, and in each trace
CLIENTS, SECONDS, TURNS = 8, 1.0, 3
PROTOBUF = {"Content-Type": "application/x-protobuf", "X-Assay-Project": "bench"}
MESSAGES = '[{"role": "%s", "parts": [{"type": "text", "content": "%s"}]}]'


def bodies() -> Iterator[bytes]:
    """Requests in protobuf, each with new traces: a root, a tool call and two model calls."""
    marks = [f"trace-{at:010}".encode() for at in range(TRACES)]
    parts = _request(marks).split(b"trace-")  # each mark has ten digits after it
    while True:
        ids = [os.urandom(16) for _ in marks]
        yield parts[0] + b"".join(ids[int(part[:10])] + part[10:] for part in parts[1:])


def _request(marks: list[bytes]) -> bytes:
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    request: Any = ExportTraceServiceRequest()
    spans = request.resource_spans.add().scope_spans.add().spans
    for mark in marks:
        for at in range(SPANS):
            span = spans.add(trace_id=mark, span_id=bytes([at + 1]) * 8, name="span", start_time_unix_nano=1)
            span.parent_span_id = b"" if not at else b"\1" * 8
            span.end_time_unix_nano = 10**18
            told = {"gen_ai.operation.name": ("invoke_agent", "execute_tool", "chat", "chat")[at]}
            if at > 1:
                told["gen_ai.input.messages"] = MESSAGES % ("user", "how warm is it? " * 20)
                told["gen_ai.output.messages"] = MESSAGES % ("assistant", "It is 20 degrees. " * 20)
            for key, text in told.items():
                span.attributes.add(key=key).value.string_value = text
    return request.SerializeToString()


async def send(host: ServerProcess, path: str, *, seconds: float = 0.0, spans: int = 0) -> tuple[int, float]:
    """Send for some seconds, or so many spans; return the accepted spans and the seconds. A 429 is sent again."""
    done, requests, began = 0, bodies(), time.perf_counter()

    def more() -> bool:
        return done < spans if spans else time.perf_counter() - began < seconds

    async def client(session: aiohttp.ClientSession) -> None:
        nonlocal done
        while more():
            body = next(requests)
            while True:
                async with session.post(
                    f"{host.url}{path}", data=body, headers={**host.headers, **PROTOBUF}
                ) as got:
                    await got.read()
                if got.status != 429:
                    break
                await asyncio.sleep(0.5)
            assert got.status == 200, got.status
            done += TRACES * SPANS

    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=600)) as session:
        await asyncio.gather(*(client(session) for _ in range(CLIENTS)))
    return done, time.perf_counter() - began


def traces(bench: Bench) -> list[Row]:
    many = bench.size(1_000_000)
    return [_throughput(bench), *_memory(bench, many), _file(bench, many)]


def _throughput(bench: Bench) -> Row:
    paths: tuple[str, ...] = ("/parse", "/v1/traces")
    rounds = list[dict[str, float]]()
    for number in range(bench.rounds(3)):
        with start_server(bench.folder / f"traces-{number}") as host:
            had: dict[str, float] = dict.fromkeys(paths, 0.0)
            for path in paths * TURNS:
                spans, taken = asyncio.run(send(host, path, seconds=SECONDS))
                had[path] += spans / taken / TURNS
            rounds.append(had)
    last = ", ".join(f"{had:,.0f}" for had in rounds[-1].values())
    return Row(
        "OTLP spans acknowledged a second, stored and scored meanwhile, to a receiver that only parses",
        "at least",
        0.2,
        values=[had["/v1/traces"] / had["/parse"] for had in rounds],
        note=f"parsed, received in the last round: {last} spans a second",
    )


def _memory(bench: Bench, many: int) -> list[Row]:
    with start_server(bench.folder / "traces-memory") as host:
        asyncio.run(send(host, "/v1/traces", spans=many // 10))
        before = host.memory("VmHWM")
        spans, taken = asyncio.run(send(host, "/v1/traces", spans=many - many // 10))
        most = host.memory("VmHWM")
    note = f"after a tenth of them: {before:.0f} MB; {spans / taken:,.0f} spans a second"
    return [
        Row(
            f"{many:,} spans received: server memory at most",
            "at most",
            400.0,
            "MB",
            values=[most],
            note=note,
        )
    ]


def _file(bench: Bench, many: int) -> Row:
    """The memory of the command over a file of requests, each with its length before it."""
    path, checks = bench.folder / "spans.pb", bench.folder / "trace-checks.json"
    checks.write_text('[{"contains": "degrees"}]')
    with path.open("wb") as file:
        for body in islice(bodies(), many // (TRACES * SPANS)):
            file.write(len(body).to_bytes(4, "big") + body)
    began = time.perf_counter()
    command = [
        sys.executable,
        "-m",
        "assay",
        "evaluate",
        "--traces",
        str(path),
        "--checks",
        str(checks),
        "--json",
    ]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    path.unlink()
    if status:
        raise Failed(f"assay evaluate --traces ended with {os.waitstatus_to_exitcode(status)}")
    taken = time.perf_counter() - began
    return Row(
        f"{many:,} spans in a file, `assay evaluate --traces`: memory at most",
        "at most",
        150.0,
        "MB",
        values=[usage.ru_maxrss / 1024],
        note=f"{many / taken:,.0f} spans a second",
    )
