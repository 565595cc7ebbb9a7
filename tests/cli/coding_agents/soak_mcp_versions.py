"""`assay mcp` with version 2 of the MCP SDK: as the server of every test here, and as a client."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from support.agents.frameworks.environments import ROOT, NotMade, environment_variables, python_with
from support.commands.mcp_client import OTHER

CLIENT = """
import asyncio, os, sys
import mcp
from mcp.client.stdio import stdio_client

SUITE = '''
suiteId: local.a.evals.a
version: 1.0.0
modes: [golden]
tasks: [{taskId: a, input: x, expected: {kind: golden, match: {strategy: exact, value: y}}}]
'''

async def main():
    open("suite.yaml", "w").write(SUITE)
    open("a.py", "w").write("def f(task):\\n    return task\\n")
    parameters = mcp.StdioServerParameters(command=sys.argv[1], args=["-m", "assay", "mcp"], env=dict(os.environ))
    seen = []

    async def progress(done, total, message):
        seen.append((done, total))

    async with stdio_client(parameters) as (read, write), mcp.ClientSession(read, write) as session:
        await session.initialize()
        tools = (await session.list_tools()).tools
        assert len(tools) == 8, tools
        assert all(tool.output_schema["type"] == "object" for tool in tools)
        ran = await session.call_tool("run", {"suite": "suite.yaml", "agent": "a:f"}, progress_callback=progress)
        assert ran.structured_content["outcome"] == "failed", ran
        assert seen[-1] == (1, 1), seen
        failures = (await session.call_tool("failures", {})).structured_content
        assert failures["cases"][0]["data"]["got"] == "x", failures
        refused = await session.call_tool("failures", {"limit": "many"})
        assert refused.is_error and "expected a whole number" in refused.content[0].text

asyncio.run(main())
"""


@pytest.fixture(scope="module")
def python():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    needs = [*project["dependencies"], *extras["agents"], *extras["compare"], *extras["store"]]
    try:
        return python_with("mcp-2", ["mcp>=2,<3", *needs])
    except NotMade as reason:
        pytest.skip(f"no environment: {reason}")


def test_every_test_of_the_server_passes_with_version_2(python):
    environ = {**os.environ, **environment_variables(), OTHER: str(python)}
    folder = Path(__file__).parent
    tests = sorted(file for file in folder.glob("test_*.py") if "mcp" in file.read_text("utf-8"))
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *map(str, tests)],
        cwd=ROOT, env=environ, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout[-5_000:]


@pytest.mark.parametrize("server", ["1", "2"])
def test_a_client_of_version_2_calls_the_tools_of_a_server_of_version(python, server, tmp_path):
    command = [python, "-c", CLIENT, str(python) if server == "2" else sys.executable]
    environ = {**os.environ, **environment_variables()}
    ended = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr[-5_000:]
