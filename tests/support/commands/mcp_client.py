"""A client of the official MCP SDK, with `assay mcp` as its server over standard input and output."""

import json
import os
import signal
import sys
from contextlib import asynccontextmanager, contextmanager
from functools import partial

import mcp
from anyio.from_thread import start_blocking_portal
from mcp.client.stdio import stdio_client

OTHER = "ASSAY_TESTS_MCP_PYTHON"  # the interpreter of the server, in an environment with another version of the SDK


def real_assay():
    """The command in a process of its own, which takes signals."""
    return [os.environ.get(OTHER, sys.executable), "-P", "-m", "assay"]


def cheap_assay(zygote):
    """The same in a process that is forked, as are those that it starts."""
    return real_assay() if OTHER in os.environ else [zygote.forking_assay]


class CallResult:
    """The answer to a call. `document` is what its schema describes; a refusal has a text alone."""

    def __init__(self, result):
        (content,) = result.content
        self.text, self.is_error = content.text, result.isError
        self.document = result.structuredContent
        assert self.is_error == (self.document is None)
        assert self.is_error or json.loads(self.text) == self.document
        assert "Traceback" not in self.text

    def __getitem__(self, name):
        assert not self.is_error, self.text
        return self.document[name]


class McpClient:
    """Calls tools, each time to its end, and counts the bytes of the answers."""

    def __init__(self, portal, session):
        self._portal, self._session = portal, session
        self.bytes_read = 0

    def __call__(self, tool, /, progress=None, **arguments):
        async def report(done, total, message):
            progress.append((done, total, message))

        callback = None if progress is None else report
        result = self._portal.call(
            partial(self._session.call_tool, tool, arguments, progress_callback=callback)
        )
        answer = CallResult(result)
        self.bytes_read += len(answer.text.encode())
        return answer

    def tools(self):
        listed = self._portal.call(self._session.list_tools).tools
        self.bytes_read += len(json.dumps([one.model_dump(mode="json", exclude_none=True) for one in listed]))
        return {tool.name: tool for tool in listed}


@contextmanager
def mcp_client(folder, *options, assay=None):
    """A client whose server works in that folder."""

    @asynccontextmanager
    async def connect():
        command, *words = assay or real_assay()
        parameters = mcp.StdioServerParameters(
            command=str(command), args=[*words, "mcp", *options], env=dict(os.environ), cwd=folder
        )
        # its default is the standard error of the first import, which pytest may have closed since
        async with (
            stdio_client(parameters, errlog=sys.__stderr__) as (read, write),
            mcp.ClientSession(read, write) as session,
        ):
            await session.initialize()
            yield session

    with start_blocking_portal() as portal, portal.wrap_async_context_manager(connect()) as session:
        yield McpClient(portal, session)


class RawClient:
    """A client that writes lines as it likes, and can be killed."""

    def __init__(self, process):
        self._process, self._id = process, 0

    def send(self, line):
        self._process.stdin.write(line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n")
        self._process.stdin.flush()

    def read(self):
        return json.loads(self._process.stdout.readline())

    def request(self, method, **params):
        self._id += 1
        self.send({"jsonrpc": "2.0", "id": self._id, "method": method, "params": params})
        return self._id

    def start(self):
        about = {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "x", "version": "1"},
        }
        self.request("initialize", **about)
        answer = self.read()
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return answer

    def call(self, tool, /, **arguments):
        """Send the call; the progress of it is reported."""
        return self.request("tools/call", name=tool, arguments=arguments, _meta={"progressToken": tool})

    def kill(self):
        """The server too: nothing of it can say goodbye."""
        os.kill(self._process.pid, signal.SIGKILL)
        self._process.wait()
