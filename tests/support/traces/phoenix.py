"""Phoenix from the registry, in an environment of its own, as a server on this machine."""

import os
import socket
import subprocess
import time
import urllib.request
from contextlib import closing, contextmanager

from support.agents.frameworks.environments import python_with

START = 600  # seconds to its first answer, on a busy machine


@contextmanager
def phoenix_server(folder):
    """The address of a Phoenix that has just started. Raises NotMade if it cannot be installed."""
    python = python_with("phoenix", ["arize-phoenix>=20"])
    with (
        closing(socket.create_server(("127.0.0.1", 0))) as one,
        closing(socket.create_server(("127.0.0.1", 0))) as other,
    ):
        port, grpc_port = one.getsockname()[1], other.getsockname()[1]
    settings = {
        "PHOENIX_PORT": str(port),
        "PHOENIX_GRPC_PORT": str(grpc_port),
        "PHOENIX_HOST": "127.0.0.1",
        "PHOENIX_WORKING_DIR": str(folder / "phoenix"),
        "PHOENIX_TELEMETRY_ENABLED": "false",
    }
    with (folder / "phoenix.log").open("wb") as log:
        process = subprocess.Popen(
            [str(python), "-m", "phoenix.server.main", "serve"],
            env=os.environ | settings,
            stdout=log,
            stderr=log,
        )
        try:
            url = f"http://127.0.0.1:{port}"
            until = time.monotonic() + START
            while get(f"{url}/healthz") is None:
                assert process.poll() is None, "Phoenix ended"
                assert time.monotonic() < until, f"Phoenix does not answer after {START} s"
                time.sleep(0.5)
            yield url
        finally:
            process.kill()
            process.wait()


def get(url):
    """The body of an answer, or None."""
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.read()
    except OSError:
        return None
