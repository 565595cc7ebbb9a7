"""A database whose disk is full: `/v1/ready` is 503 until there is space again. The disks are real, of a few megabytes."""

import contextlib
import os
import subprocess
import uuid

import pytest
from psycopg.sql import SQL, Identifier, Literal

from support.servers.rest_client import Server, request_of, sqlite
from support.stores import postgres
from support.waiting import wait_until


@pytest.fixture
def disk(tmp_path):
    """A file system in memory."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(folder)]
    if os.geteuid() or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("only root may mount a file system, and not in every container")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.fixture(params=["sqlite", "postgres"])
def address(request, disk):
    if request.param == "sqlite":
        yield sqlite(disk)
        return
    server, name = postgres.server(), f"small_{uuid.uuid4().hex}"
    if server._own is None:
        pytest.skip("only our own PostgreSQL sees the folders of this test")
    owner, place = os.stat(server._own.pgdata), disk / "space"
    place.mkdir()
    for folder in (place, *place.parents):
        if not folder.stat().st_mode & 0o001:  # those of pytest are its user's alone
            os.chmod(folder, 0o755)
    os.chown(place, owner.st_uid, owner.st_gid)
    server.run(SQL("CREATE TABLESPACE {} LOCATION {}").format(Identifier(name), Literal(str(place))))
    server.run(SQL("CREATE DATABASE {} TABLESPACE {}").format(Identifier(name), Identifier(name)))
    try:
        yield server._address(name)
    finally:
        server._drop(name)
        server.run(SQL("DROP TABLESPACE {}").format(Identifier(name)))


def fill(folder):
    with contextlib.suppress(OSError), (folder / "filler").open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))


def test_a_server_is_not_ready_while_the_disk_of_its_database_is_full(address, disk):
    with Server(address) as host, host.client() as client:
        body = request_of(4, outputs=[{"value": os.urandom(20_000).hex()} for _ in range(4)])

        def stored():
            return client.post("/v1/evaluate", json=body).status_code == 200

        assert stored()
        assert client.get("/v1/ready").status_code == 200
        fill(disk)
        wait_until(lambda: not stored())  # pages that the database holds in reserve may take some
        wait_until(lambda: client.get("/v1/ready").status_code == 503)
        refusal = client.get("/v1/ready")
        assert refusal.json()["details"]["reason"] == "database"
        assert "disk is full" in refusal.json()["message"]
        assert client.get("/v1/live").status_code == 200
        (disk / "filler").unlink()
        wait_until(lambda: client.get("/v1/ready").status_code == 200)
        assert stored()
