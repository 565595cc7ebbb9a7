"""`assay admin audit`: read the audit log, and verify that it is complete and unchanged."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import typer

from assay import settings
from assay.auth import audit as log
from assay.cli.console.console import count_of, echo, echo_err, echo_json
from assay.errors import UsageError
from assay.errors.exit_codes import NOT_PASSED
from assay.host import parts
from assay.ports import Store
from assay.ports.audit import AuditPayload, LaneHead
from assay.promotion.audit_lines import DeploymentVerifier

T = TypeVar("T")


class AuditSummary(msgspec.Struct):
    """The document of `verify --json`."""

    whole: bool
    lines: int
    heads: list[dict[str, Any]]
    troubles: list[dict[str, Any]]


def show(*, tenant: str | None, run: str | None, json: bool) -> None:
    """Print the entries, one line each."""

    async def print_entries(store: Store) -> None:
        async for record in log.lines(store, tenant):
            try:
                entry = msgspec.json.decode(record.data, type=AuditPayload)
            except msgspec.DecodeError:
                message = "it was changed and cannot be read; run `assay admin audit verify`"
                echo_err(str(log.AuditProblem(record.tenant, record.lane, record.number, message)))
                continue
            if run is not None and not (run and entry.what.startswith(run)):
                continue
            if json:
                echo_json(record.data)
            else:
                echo(_row(entry))

    _with_store(print_entries)


def _row(entry: AuditPayload) -> str:
    cells = (
        f"{entry.at:%Y-%m-%d %H:%M:%S.%f}Z",
        entry.tenant,
        entry.who,
        entry.action,
        entry.what,
        entry.outcome,
        entry.request,
    )
    return "  ".join(cell or "–" for cell in cells)


async def _verify(store: Store, tenant: str | None, earlier: list[LaneHead]) -> log.AuditReport:
    """Verify the chains, and the deployments that the log describes."""
    deployments = DeploymentVerifier()
    report = await log.verify(store, tenant, earlier, [deployments])
    tenants = {head.tenant for head in report.heads}
    return report._replace(problems=[*report.problems, *await deployments.problems(store, tenants)])


def verify(*, tenant: str | None, heads: str | None, json: bool) -> None:
    """Verify the log and print the outcome; exit with 3 if it has problems."""
    earlier = [] if heads is None else _read_heads(heads, tenant)
    report = _with_store(lambda store: _verify(store, tenant, earlier))
    if json:
        summary = AuditSummary(
            whole=not report.problems,
            lines=report.lines,
            heads=[
                msgspec.structs.asdict(head) | {"digest": head.digest.hex(), "root": head.root.hex()}
                for head in report.heads
            ],
            troubles=[problem.document() for problem in report.problems],
        )
        echo_json(msgspec.json.encode(summary))
    else:
        for problem in report.problems:
            echo_err(str(problem))
        echo(_verdict(report.lines, len(report.heads), len(report.problems)))
    if report.problems:
        raise typer.Exit(NOT_PASSED)


def _verdict(entries: int, lanes: int, problems: int) -> str:
    state = count_of(problems, "problem") if problems else "intact"
    return f"audit log: {state} ({entries:,} {'entry' if entries == 1 else 'entries'} in {count_of(lanes, 'lane')})"


def _read_heads(file: str, tenant: str | None) -> list[LaneHead]:
    try:
        summary = msgspec.json.decode(Path(file).read_bytes(), type=AuditSummary)
        heads = [
            LaneHead(
                tenant=head["tenant"],
                lane=head["lane"],
                lines=head["lines"],
                digest=bytes.fromhex(head["digest"]),
                root=bytes.fromhex(head["root"]),
            )
            for head in summary.heads
        ]
    except OSError as error:
        raise UsageError(f"--heads {file}: expected a file that can be read, got {error.strerror}") from None
    except (msgspec.DecodeError, KeyError, TypeError, ValueError, RecursionError):
        raise UsageError(
            f"--heads {file}: expected the output of `assay admin audit verify --json`"
        ) from None
    return [head for head in heads if tenant in (None, head.tenant)]


def _with_store(action: Callable[[Store], Awaitable[T]]) -> T:
    async def main() -> T:
        async with parts.store(settings.load()) as store:
            return await action(store)

    return asyncio.run(main())
