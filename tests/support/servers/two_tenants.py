"""A real `assay serve` and two of its tenants: A attacks it, and B's ordinary requests must be answered meanwhile."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import httpx

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))  # bench is run from the project's folder

from bench.attacking.target import Target  # pyright: ignore[reportMissingImports]

from assay.serve.web.server import GRACE
from support.servers.rest_client import request_of

SECONDS = 30.0  # that each request of B may take: a busy machine needs some of them
STOPPING = GRACE + 30.0  # seconds after SIGTERM
ORDINARY = (
    ("POST", "/v1/evaluate", request_of(3)),
    ("GET", "/v1/evaluations?page_size=5", None),
    ("GET", "/v1/health", None),
    ("GET", "/v1/ready", None),
    ("GET", "/v1/live", None),
)


class TwoTenants:
    """`with TwoTenants(zygote, folder) as server:`; SIGTERM must end the server within its grace period."""

    def __init__(self, zygote, folder, *options, environ=None, limits=None):
        self._zygote, self._directory, self._options = zygote, folder, options
        self._environ, self._limits = environ or {}, limits

    def __enter__(self):
        start, folder = self._zygote.start, self._directory
        environ = {name: value for name, value in os.environ.items() if not name.startswith("ASSAY_")}
        environ |= {"PYTHONUNBUFFERED": "1", "OPENWOP_CONFORMANCE_SEED": "true", **self._environ}
        self.process = start(
            "serve", "--port", "0", *self._options,
            folder=folder, pipe=True, environ=environ, limits=self._limits,
        )  # fmt: skip
        lines = [self.process.stdout.readline() for _ in range(2)]
        assert all("assay serves " in line for line in lines), self.process.communicate()
        url, grpc = (line.split()[2].removeprefix("grpc://") for line in lines)
        made = start("admin", "key", "create", "--tenant", "other", folder=folder, environ=environ)
        self.other, err = (part.strip() for part in made.communicate())
        assert self.other, err
        self.target = Target(url, grpc, (folder / ".assay" / "local-key").read_text().strip())
        return self

    def __exit__(self, failed, *_):
        try:
            if failed is None:
                self.stop()
        finally:
            self.process.close()

    def stop(self):
        """By SIGTERM, as a supervisor does."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(STOPPING)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the server had not ended {STOPPING:g} s after SIGTERM") from None
        assert self.process.returncode == 0, self.process.returncode

    @property
    def memory(self):
        """The most it ever had, in MB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) / 1024

    @contextlib.contextmanager
    def client(self, key=None):
        """An httpx client: tenant B's, unless another key is given."""
        headers = {"X-API-Key": key or self.other}
        with httpx.Client(base_url=self.target.url, headers=headers, timeout=SECONDS) as client:
            yield client


def under_attack(server, attack):
    """
    What `attack(server.target)` returns. From its start to its end B's ordinary requests are sent, two rounds at least.

    Each is answered with 200 within the time, else the server is killed and this fails.
    """
    returned, trouble, ended = [], [], threading.Event()

    def attacking():
        try:
            returned.append(attack(server.target))
        except BaseException as wrong:  # noqa: BLE001  # raised again where the test is
            trouble.append(wrong)
        finally:
            ended.set()

    thread = threading.Thread(target=attacking, daemon=True)
    thread.start()
    try:
        with server.client() as other:
            rounds = 0
            while rounds < 2 or not ended.is_set():
                for method, path, body in ORDINARY:
                    response = other.request(method, path, json=body)
                    assert response.status_code == 200, (method, path, response.status_code, response.text)
                rounds += 1
                ended.wait(0.05)
    except httpx.HTTPError as wrong:
        server.process.kill()
        raise AssertionError(f"the other tenant was not answered within {SECONDS:g} s: {wrong!r}") from None
    thread.join()
    if trouble:
        raise trouble[0]
    return returned[0]


class Servers:
    """One server for the tests of a file; one that was killed is replaced."""

    def __init__(self, zygote, folders):
        self._zygote, self._folders = zygote, folders
        self._running = None

    def one(self):
        if self._running is not None and self._running.process.poll() is not None:
            self._running.process.close()
            self._running = None
        if self._running is None:
            self._running = TwoTenants(self._zygote, self._folders.mktemp("attack")).__enter__()
        return self._running

    def close(self):
        if self._running is None:
            return
        killed = self._running.process.poll() is not None
        self._running.__exit__(AssertionError if killed else None)
