"""Tools that are asked for real: functions, an HTTP endpoint, an MCP server on stdio or over HTTP."""

import argparse
import asyncio
import sys
from importlib import import_module
from typing import Any


def orders(customer: int, state: str = "sent") -> list[dict]:
    """The orders of a customer."""
    return [{"customer": customer, "state": state}]


async def waiting(customer: int) -> list[dict]:
    await asyncio.sleep(0)
    return orders(customer)


def broken(customer: int):
    raise ValueError("no such customer")


def odd(customer: int):
    return object()


def slow(customer: int):
    import time

    time.sleep(1)


def serve(port: int | None) -> None:
    annotations = import_module("mcp.types").ToolAnnotations
    try:
        module: Any = import_module("mcp.server.mcpserver")
        server, options = module.MCPServer("shop", log_level="CRITICAL"), {"port": port}
        read_only = annotations(read_only_hint=True)
    except ModuleNotFoundError:  # mcp 1
        module = import_module("mcp.server.fastmcp")
        server, options = module.FastMCP("shop", port=port or 8000, log_level="CRITICAL"), {}
        read_only = annotations(readOnlyHint=True)
    context = module.Context
    for function in (orders, broken):
        server.add_tool(function, annotations=read_only)

    async def dawdle(customer: int) -> str:
        await asyncio.sleep(3600)
        return ""

    server.add_tool(dawdle)

    async def trace(ctx: Any) -> str:
        meta = ctx.request_context.meta
        return (
            meta.get("traceparent") if isinstance(meta, dict) else getattr(meta, "traceparent", None)
        ) or ""

    trace.__annotations__["ctx"] = context
    server.add_tool(trace)

    def die(customer: int) -> str:
        import os

        os._exit(1)

    server.add_tool(die)

    if port is None:
        server.run("stdio")
    else:
        server.run("streamable-http", **options)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int)
    sys.exit(serve(parser.parse_args().port))
