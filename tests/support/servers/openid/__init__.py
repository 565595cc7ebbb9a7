"""OpenID providers for tests of the sign-in: oidc-provider from npm, and one that says what a test wants."""

import importlib.util
import json
import os
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[4]
MODULES = ROOT / "web" / "node_modules"
SECRET = "a secret: with%signs+"  # of the client `assay`


def installed():
    return (MODULES / "oidc-provider").exists()


def node():
    """A node that is new enough, as web/build.py finds it."""
    spec = importlib.util.spec_from_file_location("page_build", ROOT / "web" / "build.py")
    build = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(build)
    _, folder = build.npm_command()
    return shutil.which("node", path=f"{folder}{os.pathsep}{os.environ['PATH']}") or "node"


class NodeProvider:
    """`with NodeProvider(people={...}) as provider:`; people are claims by their login."""

    def __init__(self, **options):
        self.options = options

    def __enter__(self):
        script = Path(__file__).with_name("provider.mjs")
        self._process = subprocess.Popen(
            [node(), script, MODULES, json.dumps(self.options)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        self.issuer = self._process.stdout.readline().strip()
        assert self.issuer, "the provider does not start"
        return self

    def __exit__(self, *_):
        self._process.kill()
        self._process.communicate()

    def restart(self, while_away):
        """The provider is away, and comes back at the same address with new keys of its sessions."""
        self.__exit__()
        while_away()
        self.options["port"] = int(self.issuer.rpartition(":")[2])
        self.__enter__()
