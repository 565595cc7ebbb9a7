"""Caches completions on disk, keyed by everything that affects them. Off by default (`--cache`)."""

import hashlib
import json
import logging
import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from assay.concurrency.threads import run_blocking
from assay.ports import Completion, CompletionRequest, Message, Model, Provider

log = logging.getLogger(__name__)

FORMAT = 1  # of an entry; another number is another key
NO_PART = {
    "timeout",
    "accepts",
    "tools",
    "may_wait",
}  # of an Ask that change no answer; tools only where there are some
T = TypeVar("T")


class DiskCache:
    """
    One file an entry, named by its key, written beside and renamed, readable by its owner only.

    An entry that cannot be read is a miss; one that cannot be written is said in the log and costs nothing else.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    async def get(self, key: str, type: type[T]) -> T | None:
        return await run_blocking(self._get, key, type)

    async def put(self, key: str, entry: msgspec.Struct) -> None:
        await run_blocking(self._put, key, entry)

    def _get(self, key: str, type: type[T]) -> T | None:
        try:
            return msgspec.json.decode(self._path(key).read_bytes(), type=type)
        except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None

    def _put(self, key: str, entry: msgspec.Struct) -> None:
        path = self._path(key)
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle, beside = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(msgspec.json.encode(entry))
                os.replace(beside, path)
            except BaseException:
                with suppress(OSError):
                    os.unlink(beside)
                raise
        except (OSError, UnicodeEncodeError) as refused:  # a full disk; half a surrogate pair
            log.warning("the cache could not store an answer: %s", refused)

    def _path(self, key: str) -> Path:
        return self._directory / key[:2] / f"{key[2:]}.json"


def key_of(kind: str, provider: Provider, **parts: Any) -> str:
    """SHA-256 of everything that affects the answer, as JSON with sorted keys. The API key is not part of it."""
    whose = {"name": provider.name, "base_url": provider.base_url, "structured": provider.structured}
    whole = {"format": FORMAT, "kind": kind, "provider": whose, **parts}
    return hashlib.sha256(json.dumps(whole, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


class CachedModel:
    """
    A model that answers from the cache if it can.

    Such an answer is `cached`, costs 0.0, and has the original cost in `saved_usd`.

    An answer that was cut off, filtered, refused, not JSON or not accepted is not stored: another call may do better.
    """

    def __init__(self, inner: Model, cache: DiskCache, provider: Provider) -> None:
        self._inner, self._cache, self._provider = inner, cache, provider

    async def complete(self, request: CompletionRequest) -> Completion:
        asked = {name: getattr(request, name) for name in request.__struct_fields__ if name not in NO_PART}
        asked["messages"] = [_message_key(message) for message in request.messages]
        asked |= {"tools": msgspec.to_builtins(request.tools)} if request.tools else {}
        key = key_of("reply", self._provider, **asked)
        kept = await self._cache.get(key, Completion)
        if kept is not None and _is_complete(kept, request):
            return msgspec.structs.replace(kept, cached=True, cost_usd=0.0, saved_usd=kept.cost_usd)
        reply = await self._inner.complete(request)
        if _is_complete(reply, request):
            await self._cache.put(key, reply)
        return reply

    async def close(self) -> None:
        await self._inner.close()


def _message_key(message: Message) -> list[Any]:
    """Two words where two say all: the keys of plain questions are as old as the cache."""
    calls = [[call.id, call.tool, call.arguments] for call in message.tool_calls]
    more = [calls, message.tool_call_id] if calls or message.tool_call_id else []
    return [message.role, message.content, *more]


def _is_complete(reply: Completion, ask: CompletionRequest) -> bool:
    if (
        reply.finish_reason not in ("stop", "tool_calls")
        or reply.refusal is not None
        or reply.problem is not None
    ):
        return False
    return ask.accepts is None or ask.accepts(reply)
