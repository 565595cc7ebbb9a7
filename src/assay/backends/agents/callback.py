"""
The callback server for HTTP agents, on loopback, with one URL per invocation.

Each POST is a frame (docs/agent-protocol.md), answered as for a command. The URL is valid until the invocation ends.
"""

import asyncio
import secrets

from aiohttp import web  # an extra: only `http.py` imports this file

from assay.backends.agents.frames import ProtocolError, handle, read_frame, read_json
from assay.ports.agents import AgentContext

BODY = 16 * 1024 * 1024  # bytes of a frame


class OpenInvocation:
    """An invocation in progress, and whether the agent has called back."""

    def __init__(self, context: AgentContext) -> None:
        self.context, self.called = context, False


class Callbacks:
    """One server per event loop. It starts with the first invocation that needs it."""

    def __init__(self) -> None:
        self._open: dict[str, OpenInvocation] = {}
        self._runner: web.AppRunner | None = None
        self._starting = asyncio.Lock()
        self._base = ""

    async def open(self, context: AgentContext) -> tuple[str, OpenInvocation]:
        """Return the callback URL of an invocation. It is a secret while the invocation runs."""
        async with self._starting:
            if self._runner is None:
                await self._start()
        token = secrets.token_urlsafe(32)
        invocation = self._open[token] = OpenInvocation(context)
        return f"{self._base}/{token}", invocation

    def forget(self, address: str) -> None:
        self._open.pop(address.rpartition("/")[2], None)

    async def close(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _start(self) -> None:
        app = web.Application(client_max_size=BODY)
        app.router.add_post("/{token}", self._receive)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        self._runner, self._base = runner, f"http://{host}:{port}"

    async def _receive(self, request: web.Request) -> web.Response:
        invocation = self._open.get(request.match_info["token"])
        if invocation is None:
            return _error(404, "over", "there is no such invocation, or it is over")
        invocation.called = True
        try:
            frame = read_frame(read_json(await request.read()))
            return web.json_response(await handle(frame, invocation.context))
        except (ProtocolError, ValueError) as wrong:
            return _error(400, "invalid_frame", str(wrong))


def _error(status: int, code: str, message: str) -> web.Response:
    return web.json_response({"error": {"code": code, "message": message}}, status=status)
