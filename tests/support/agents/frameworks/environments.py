"""
An environment for each framework, with the framework from the registry and what assay itself needs. It is made once, in
the cache folder of the user, and again when the requirements change.
"""

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[4]
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "openassay-tests"
SECONDS = 540  # to install a framework
FRAMEWORKS = {  # the requirements of each, the smallest first
    "pydantic-ai": ["pydantic-ai-slim[openai]>=2"],
    "openai-agents": ["openai-agents>=0.20"],
    "smolagents": ["smolagents[openai]>=1.20"],
    "langgraph": ["langgraph>=1", "langchain>=1", "langchain-openai"],
    "strands-agents": ["strands-agents[openai]>=1.20"],
    "google-adk": ["google-adk>=2", "litellm", "mcp"],  # litellm imports mcp, and does not require it
}
OLDEST = {  # the oldest releases that the adapters support: docs/frameworks.md
    "pydantic-ai": ["pydantic-ai-slim[openai]==2.0.*"],
    "openai-agents": ["openai-agents==0.20.*"],
    "smolagents": ["smolagents[openai]==1.20.*"],
    "langgraph": ["langgraph==1.0.*", "langgraph-prebuilt==1.0.1", "langchain==1.0.*", "langchain-openai"],
    "strands-agents": ["strands-agents[openai]==1.20.*"],
    "google-adk": ["google-adk==2.0.*", "litellm", "mcp"],
}
RECIPES = {
    "crewai": ["crewai"],
    "claude-agent-sdk": ["claude-agent-sdk"],
}  # a function around them, no adapter
SMALLEST = tuple(FRAMEWORKS)[:2]  # `make test` runs these, `make soak` all


class NotMade(Exception):
    """The environment cannot be made, such as without a network."""


def python_of(framework, *, oldest=False):
    """The interpreter of the environment of a framework. Processes that need the same one wait for each other."""
    releases, name = (OLDEST, f"oldest-{framework}") if oldest else (FRAMEWORKS | RECIPES, framework)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    needs = [*releases[framework], *project["dependencies"], *extras["judges"], *extras["store"]]
    return python_with(name, needs)


def python_with(name, needs):
    """The interpreter of an environment with these requirements."""
    digest = hashlib.sha256(json.dumps([needs, sys.version]).encode()).hexdigest()[:12]
    home = CACHE / f"{name}-{digest}"
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (home / "made").exists():
            for old in CACHE.glob(f"{name}-*"):
                shutil.rmtree(old, ignore_errors=True)
            _make(home, needs)
            (home / "made").touch()
    return home / "bin" / "python"


def _make(home, needs):
    uv = Path(sys.executable).parent / "uv"
    for command in (
        [uv, "venv", "--quiet", "--python", sys.executable, home],
        [uv, "pip", "install", "--quiet", "--python", home / "bin" / "python", *needs],
    ):
        try:
            ended = subprocess.run(
                [*map(str, command)], capture_output=True, text=True, timeout=SECONDS, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as failure:
            raise NotMade(f"{failure}") from failure
        if ended.returncode:
            shutil.rmtree(home, ignore_errors=True)
            raise NotMade(ended.stderr.strip()[-500:])


def environment_variables():
    """For a process there: this source tree in front, and no setting of the machine."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    return kept | {
        "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT / 'tests'}",
        "SSL_CERT_FILE": str(
            ROOT / "tests/support/authority.pem"
        ),  # a client takes 60 ms to read those of the machine
        "PYTHONWARNINGS": "ignore",
        "NO_COLOR": "1",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # it asks the network otherwise
    }
