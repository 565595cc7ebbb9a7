"""docs/openwop.md does what it says: its commands, in their order, against a server of its own, on both databases."""

import asyncio
import contextlib
import os
import re
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from assay.auth import keys
from assay.auth.keys import DEFAULT
from assay.backends.stores.open import open_store
from support.stores.postgres import server as postgres

PAGE = Path(__file__).parents[3] / "docs" / "openwop.md"
FENCE = re.compile(r"^```(\w+) ?(\S*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ADDRESS = "http://127.0.0.1:8321"
MARK = "=== "


def masked(line):
    line = re.sub(r"(run|ev|ann)-[0-9a-f-]+", r"\1-…", line.strip())
    line = re.sub(r'("digest":")\w+', r"\1…", line)
    return re.sub(r'("latencyMs":)\d+', r"\1…", line)


def is_shown(shown, printed):
    """Whether a document shows what was printed: `…` in a line is any text, and alone any lines."""
    lines = (r"(?:.*\n)*?" if line == "…" else re.escape(line).replace("…", ".*") + r"\n" for line in shown)
    return re.fullmatch("".join(lines), "".join(f"{line}\n" for line in printed)) is not None


def console(text):
    """Each command with what it prints."""
    commands: list[tuple[str, list[str]]] = []
    for block in FENCE.finditer(text):
        if block[1] != "console" or "assay serve" in block[3]:
            continue
        for line in block[3].splitlines():
            if line.startswith("$ "):
                commands.append((line[2:], []))
            else:
                commands[-1][1].append(masked(line))
    return commands


async def a_key(address):
    store = await open_store(address)
    _, text = await keys.create(store, tenant="acme", scopes=DEFAULT, now=datetime.now(UTC))
    await store.close()
    return text.reveal()


@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_an_eval_by_curl_alone(database, zygote, tmp_path):
    text = PAGE.read_text("utf-8")
    for block in FENCE.finditer(text):
        if block[2]:
            (tmp_path / block[2]).write_text(block[3], "utf-8")
    environ = {name: value for name, value in os.environ.items() if not name.startswith("ASSAY_")}
    with contextlib.ExitStack() as stack:
        if database == "postgres":
            address = stack.enter_context(postgres().store_database())
            environ["ASSAY_DATABASE_URL"] = address
            (tmp_path / ".assay").mkdir()
            (tmp_path / ".assay" / "local-key").write_text(asyncio.run(a_key(address)))
        serving = zygote.start("serve", "--port", "0", folder=tmp_path, pipe=True, environ=environ)
        stack.callback(serving.close)
        url = serving.stdout.readline().split()[2]
        commands = console(text)
        script = "\n".join(f"echo '{MARK}{at}'\n{command}" for at, (command, _) in enumerate(commands))
        done = subprocess.run(
            ["sh", "-e", "-c", script.replace(ADDRESS, url)],
            cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    printed: list[list[str]] = []
    for line in done.stdout.splitlines():
        for part in re.split(rf"(?={MARK}\d+$)", line):
            if part.startswith(MARK):
                printed.append([])
            elif part:
                printed[-1].append(masked(part))
    for (command, shown), out in zip(commands, printed, strict=True):
        assert is_shown(shown, out), f"{command}\n{out}"
