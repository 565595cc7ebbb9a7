"""What `assay audit` does."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import typer

from assay import app, settings
from assay.auth import audit
from assay.cli.say import give, say, tell
from assay.errors import UsageError
from assay.ports import Store
from assay.ports.audit import AuditPayload, LaneHead

T = TypeVar("T")
WRONG = 3


class AuditSummary(msgspec.Struct):
    """What `verify --json` tells."""

    whole: bool
    lines: int
    heads: list[dict[str, Any]]
    troubles: list[dict[str, Any]]


def show(tenant: str | None, run: str | None, *, json: bool) -> None:
    async def work(store: Store) -> None:
        async for one in audit.lines(store, tenant):
            try:
                line = msgspec.json.decode(one.data, type=AuditPayload)
            except msgspec.DecodeError:
                said = "it was changed and cannot be read; `assay audit verify` says more"
                say(str(audit.AuditProblem(one.tenant, one.lane, one.number, said)))
                continue
            if run is not None and not (run and line.what.startswith(run)):
                continue
            if json:
                give(one.data)
            else:
                tell(_row(line))

    _with_store(work)


def _row(line: AuditPayload) -> str:
    said = (
        f"{line.at:%Y-%m-%d %H:%M:%S.%f}Z",
        line.tenant,
        line.who,
        line.action,
        line.what,
        line.outcome,
        line.request,
    )
    return "  ".join(part or "–" for part in said)


def verify(tenant: str | None, file: str | None, *, json: bool) -> None:
    known = [] if file is None else _known(file, tenant)
    verdict = _with_store(lambda store: audit.verify(store, tenant, known))
    if json:
        told = AuditSummary(
            whole=not verdict.troubles,
            lines=verdict.lines,
            heads=[
                msgspec.structs.asdict(head) | {"digest": head.digest.hex(), "root": head.root.hex()}
                for head in verdict.heads
            ],
            troubles=[trouble._asdict() for trouble in verdict.troubles],
        )
        give(msgspec.json.encode(told))
    else:
        for trouble in verdict.troubles:
            say(str(trouble))
        lanes = f"{verdict.lines:,} lines in {len(verdict.heads):,} lanes"
        tell(f"{lanes}: {f'{len(verdict.troubles)} troubles' if verdict.troubles else 'whole'}")
    if verdict.troubles:
        raise typer.Exit(WRONG)


def _known(file: str, tenant: str | None) -> list[LaneHead]:
    try:
        told = msgspec.json.decode(Path(file).read_bytes(), type=AuditSummary)
        heads = [
            LaneHead(
                tenant=head["tenant"],
                lane=head["lane"],
                lines=head["lines"],
                digest=bytes.fromhex(head["digest"]),
                root=bytes.fromhex(head["root"]),
            )
            for head in told.heads
        ]
    except OSError as wrong:
        raise UsageError(f"--heads {file}: cannot be read: {wrong.strerror}") from None
    except (msgspec.DecodeError, KeyError, TypeError, ValueError, RecursionError):
        raise UsageError(f"--heads {file}: this is not what `assay audit verify --json` tells") from None
    return [head for head in heads if tenant in (None, head.tenant)]


def _with_store(work: Callable[[Store], Awaitable[T]]) -> T:
    async def main() -> T:
        async with app.store(settings.load()) as store:
            return await work(store)

    return asyncio.run(main())
