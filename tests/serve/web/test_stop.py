"""A server that is asked to stop ends, also while its database is away or does not answer."""

import contextlib
import os
import signal
import threading

import httpx
import pytest

from assay.concurrency.event_loop import STOP_SECONDS
from support.servers.rest_client import lines_of, request_of
from support.stores.postgres import server as postgres
from support.waiting import wait_until


@pytest.mark.together("stop")  # first: it waits for most of a minute
@pytest.mark.parametrize("what", ["hanging", "away"])
def test_a_server_stops_in_time_without_its_database(zygote, tmp_path, what):
    """With requests that read and write in flight, and a run whose units execute."""
    with postgres().store_database() as address:
        environ = {name: value for name, value in os.environ.items() if not name.startswith("ASSAY_")}
        environ |= {"PYTHONUNBUFFERED": "1", "ASSAY_DATABASE_URL": address}
        made = zygote.start("admin", "key", "create", "--tenant", "acme", folder=tmp_path, environ=environ)
        key, stderr = (part.strip() for part in made.communicate())
        assert key, stderr
        process = zygote.start("serve", "--port", "0", folder=tmp_path, pipe=True, environ=environ)
        try:
            url = process.stdout.readline().split()[2]
            headers = {"X-API-Key": key}
            lines = {**headers, "content-type": "application/x-ndjson"}
            started = httpx.post(
                f"{url}/v1/evaluations", content=lines_of(request_of(500)), headers=lines, timeout=60
            )
            assert started.status_code == 202
            with getattr(postgres(), what)(address):
                asking = [
                    threading.Thread(target=ask, args=[url, headers, path], daemon=True)
                    for path in ("/v1/evaluations", "/v1/evaluate", "/v1/evaluations", "/v1/evaluate")
                ]
                for one in asking:
                    one.start()
                wait_until(lambda: httpx.get(f"{url}/v1/ready", timeout=60).status_code == 503)
                process.send_signal(signal.SIGTERM)
                process.wait(STOP_SECONDS + 30)
                for one in asking:
                    one.join()
            _, err = process.communicate()
            assert "assay has stopped" in err or "1 run is unfinished here" in err, err
            assert process.returncode == int("it ends by force" in err), err
        finally:
            process.close()


WAITER = """
import threading
from assay.checks.standard.contains import Contains

class Waiter(Contains):
    type = "waiter"

threading.Thread(target=threading.Event().wait).start()
"""


@pytest.mark.parametrize("workers", [1, 2])
def test_a_forced_stop_is_logged_and_exits_with_1(zygote, tmp_path, workers):
    """A thread of a check waits for ever. With several processes, the parent exits as they do."""
    (tmp_path / "waiter.py").write_text(WAITER)
    (tmp_path / "assay.toml").write_text('check_modules = ["waiter:Waiter"]')
    environ = {name: value for name, value in os.environ.items() if not name.startswith("ASSAY_")}
    options = ["serve", "--port", "0", "--processes", str(workers)]
    process = zygote.start(*options, folder=tmp_path, pipe=True, environ=environ)
    try:
        assert process.stdout.readline().startswith("assay serves")
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate()
    finally:
        process.close()
    assert process.returncode == 1, err
    forced = [line for line in err.splitlines() if "it ends by force" in line]
    assert len(forced) == workers, err
    assert all(line.endswith("all was closed before, and nothing is lost") for line in forced), err


def ask(url, headers, path):
    with contextlib.suppress(httpx.HTTPError):
        body = request_of(3)
        method = "POST" if path.endswith("evaluate") else "GET"
        httpx.request(
            method, url + path, json=body if method == "POST" else None, headers=headers, timeout=60
        )
