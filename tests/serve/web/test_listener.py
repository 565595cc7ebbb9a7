"""Who is let in at a socket (FEP-40): counted where they are accepted, on each event loop a server may have."""

import asyncio
import errno
import socket
import ssl
import sys
from contextlib import ExitStack, asynccontextmanager

import pytest
import trustme

from assay.concurrency.event_loop import run
from assay.serve.web.listener import Listener

pytestmark = pytest.mark.anyio


@pytest.fixture(params=[False, True], ids=["asyncio", "libuv"])
def anyio_backend(request):
    return "asyncio", {"use_uvloop": request.param}


class AcceptedConnection(asyncio.Protocol):
    """Says so, and is known by its transport."""

    known: list[asyncio.Transport] = []  # noqa: RUF012

    def connection_made(self, transport):
        transport.write(b"in")
        self.known.append(transport)


@asynccontextmanager
async def entrance(most, **more):
    AcceptedConnection.known = []
    with socket.create_server(("127.0.0.1", 0)) as heard:
        place = Listener(heard, most, AcceptedConnection, **more)
        place.address = heard.getsockname()
        place.open(100)
        yield place
        place.close()


async def until(happens):
    async with asyncio.timeout(20):
        while not happens():  # noqa: ASYNC110  # what another process or the loop itself does
            await asyncio.sleep(0.005)


async def first_bytes(client):
    """What it hears first."""
    async with asyncio.timeout(20):
        return await asyncio.get_running_loop().sock_recv(client, 12)


def connect(place, held):
    client = held.enter_context(socket.create_connection(place.address))
    client.setblocking(False)
    return client


def server_tls():
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    return context


async def test_a_connection_above_the_limit_is_refused_until_another_closes():
    async with entrance(2) as place:
        with ExitStack() as held:
            one, two = connect(place, held), connect(place, held)
            assert [await first_bytes(one), await first_bytes(two), place.connections] == [b"in", b"in", 2]
            three = connect(place, held)
            assert await first_bytes(three) == b"HTTP/1.1 503"
            assert place.connections == 2
            two.close()  # by the client
            await until(lambda: place.connections == 1)
            assert await first_bytes(connect(place, held)) == b"in"
            AcceptedConnection.known[0].abort()  # by the server
            await until(lambda: place.connections == 1)
        await until(lambda: place.connections == 0)


async def test_a_connection_without_a_handshake_counts_and_times_out():
    async with entrance(2, tls=server_tls(), seconds=0.4) as place:
        with ExitStack() as held:
            silent = [connect(place, held), connect(place, held)]
            await until(lambda: place.connections == 2)
            assert await first_bytes(connect(place, held)) == b""  # a handshake is no place for HTTP
            assert [await first_bytes(one) for one in silent] == [b"", b""]
            await until(lambda: place.connections == 0)
            babbling = connect(place, held)
            babbling.send(b"GET / HTTP/1.1\r\n\r\n")
            await until(lambda: place.connections == 0 and not place._handshakes)
    assert not AcceptedConnection.known


async def test_close_keeps_open_connections_and_drops_handshakes():
    with ExitStack() as held:
        async with entrance(2) as place:
            inside = connect(place, held)
            assert await first_bytes(inside) == b"in"
        with pytest.raises(ConnectionRefusedError):
            connect(place, held)
        AcceptedConnection.known[0].write(b"still")
        assert await first_bytes(inside) == b"still"
        AcceptedConnection.known[0].abort()
        async with entrance(2, tls=server_tls(), seconds=60.0) as place:
            shaking = connect(place, held)
            await until(lambda: place.connections == 1)
        assert await first_bytes(shaking) == b""
        assert place.connections == 0


async def test_a_connection_accepted_during_close_is_dropped():
    with ExitStack() as held:
        async with entrance(2) as place:
            client = connect(place, held)
            place._accept()
            assert place.connections == 1
        assert await first_bytes(client) == b""
        assert place.connections == 0


async def test_without_file_descriptors_the_listener_answers_503(monkeypatch, caplog):
    async with entrance(2) as place:
        accept, tries = socket.socket.accept, []

        def exhausted(heard):
            tries.append(heard)
            if len(tries) % 2 and len(tries) < 6:
                raise OSError(errno.EMFILE, "there are no more")
            return accept(heard)

        monkeypatch.setattr(socket.socket, "accept", exhausted)
        with ExitStack() as held:
            clients = [connect(place, held) for _ in range(3)]
            assert [await first_bytes(client) for client in clients] == [b"HTTP/1.1 503"] * 3
            assert (place.connections, place._retry) == (0, None)  # and it listens as before
            assert await first_bytes(connect(place, held)) == b"in"
        assert caplog.text.count("connections cannot be accepted for now") == 1


@pytest.mark.parametrize("why", [errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM])
async def test_an_exhausted_listener_accepts_again_later(monkeypatch, caplog, why):
    async with entrance(2) as place:
        accept, tries = socket.socket.accept, []

        def exhausted(heard):
            tries.append(heard)
            if len(tries) == 1 or (why == errno.EMFILE and len(tries) == 2):  # nor for who is turned away
                raise OSError(why, "there are no more")
            return accept(heard)

        monkeypatch.setattr("assay.serve.web.listener.RETRY_SECONDS", 0.05)
        monkeypatch.setattr(socket.socket, "accept", exhausted)
        with ExitStack() as held:
            assert await first_bytes(connect(place, held)) == b"in"
        assert "connections cannot be accepted for now: there are no more" in caplog.text


async def test_an_exhausted_listener_can_be_closed(monkeypatch):
    def exhausted(heard):
        raise OSError(errno.EMFILE, "there are no more")

    monkeypatch.setattr(socket.socket, "accept", exhausted)
    with ExitStack() as held:
        async with entrance(2) as place:
            connect(place, held)
            await until(lambda: place._retry is not None)
        assert place._retry.cancelled()


# Which loop a server has


def test_a_server_uses_the_fastest_installed_event_loop(monkeypatch):
    async def which():
        return type(asyncio.get_running_loop()).__module__

    assert run(which()) == "uvloop"
    monkeypatch.setitem(sys.modules, "uvloop", None)  # as where it is not installed
    assert run(which()).startswith("asyncio.")
