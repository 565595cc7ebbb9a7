"""Tools that are asked for real: functions, an HTTP endpoint, an MCP server on stdio or over HTTP."""

import argparse
import asyncio
import sys


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
    from mcp.server.fastmcp import Context, FastMCP
    from mcp.types import ToolAnnotations

    server = FastMCP("shop", port=port or 8000, log_level="CRITICAL")
    for function in (orders, broken):
        server.add_tool(function, annotations=ToolAnnotations(readOnlyHint=True))

    @server.tool()
    async def dawdle(customer: int) -> str:
        await asyncio.sleep(3600)
        return ""

    async def trace(ctx: Context) -> str:
        return getattr(ctx.request_context.meta, "traceparent", None) or ""

    trace.__annotations__["ctx"] = Context
    server.add_tool(trace)

    @server.tool()
    def die(customer: int) -> str:
        import os

        os._exit(1)

    server.run("stdio" if port is None else "streamable-http")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int)
    sys.exit(serve(parser.parse_args().port))
