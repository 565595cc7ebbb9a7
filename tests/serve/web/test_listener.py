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


class Inside(asyncio.Protocol):
    """Says so, and is known by its transport."""

    known: list[asyncio.Transport] = []  # noqa: RUF012

    def connection_made(self, transport):
        transport.write(b"in")
        self.known.append(transport)


@asynccontextmanager
async def entrance(most, **more):
    Inside.known = []
    with socket.create_server(("127.0.0.1", 0)) as heard:
        place = Listener(heard, most, Inside, **more)
        place.address = heard.getsockname()
        place.open(100)
        yield place
        place.close()
        await place.wait_closed()


async def until(happens):
    async with asyncio.timeout(20):
        while not happens():  # noqa: ASYNC110  # what another process or the loop itself does
            await asyncio.sleep(0.005)


async def said(client):
    """What it hears first."""
    async with asyncio.timeout(20):
        return await asyncio.get_running_loop().sock_recv(client, 12)


def knocking(place, held):
    client = held.enter_context(socket.create_connection(place.address))
    client.setblocking(False)
    return client


def papers():
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    return context


async def test_one_too_many_is_sent_home_where_it_is_accepted_and_there_is_room_again():
    async with entrance(2) as place:
        with ExitStack() as held:
            one, two = knocking(place, held), knocking(place, held)
            assert [await said(one), await said(two), place.connections] == [b"in", b"in", 2]
            three = knocking(place, held)
            assert await said(three) == b"HTTP/1.1 503"
            assert place.connections == 2
            two.close()  # by the client
            await until(lambda: place.connections == 1)
            assert await said(knocking(place, held)) == b"in"
            Inside.known[0].abort()  # by the server
            await until(lambda: place.connections == 1)
        await until(lambda: place.connections == 0)


async def test_who_does_not_shake_hands_counts_and_is_let_go_in_time():
    async with entrance(2, tls=papers(), seconds=0.4) as place:
        with ExitStack() as held:
            silent = [knocking(place, held), knocking(place, held)]
            await until(lambda: place.connections == 2)
            assert await said(knocking(place, held)) == b""  # a handshake is no place for HTTP
            assert [await said(one) for one in silent] == [b"", b""]
            await until(lambda: place.connections == 0)
            babbling = knocking(place, held)
            babbling.send(b"GET / HTTP/1.1\r\n\r\n")
            await until(lambda: place.connections == 0 and not place._handshakes)
    assert not Inside.known


async def test_who_is_inside_stays_when_it_closes_and_who_shakes_hands_goes():
    with ExitStack() as held:
        async with entrance(2) as place:
            inside = knocking(place, held)
            assert await said(inside) == b"in"
        with pytest.raises(ConnectionRefusedError):
            knocking(place, held)
        Inside.known[0].write(b"still")
        assert await said(inside) == b"still"
        Inside.known[0].abort()
        async with entrance(2, tls=papers(), seconds=60.0) as place:
            shaking = knocking(place, held)
            await until(lambda: place.connections == 1)
        assert await said(shaking) == b""
        assert place.connections == 0


async def test_who_was_let_in_in_the_turn_in_which_it_closes_is_let_go():
    with ExitStack() as held:
        async with entrance(2) as place:
            client = knocking(place, held)
            place._accept()
            assert place.connections == 1
        assert await said(client) == b""
        assert place.connections == 0


async def test_without_a_descriptor_it_turns_away_with_503_by_the_one_it_holds_for_that(monkeypatch, caplog):
    async with entrance(2) as place:
        accept, tries = socket.socket.accept, []

        def exhausted(heard):
            tries.append(heard)
            if len(tries) % 2 and len(tries) < 6:
                raise OSError(errno.EMFILE, "there are no more")
            return accept(heard)

        monkeypatch.setattr(socket.socket, "accept", exhausted)
        with ExitStack() as held:
            clients = [knocking(place, held) for _ in range(3)]
            assert [await said(client) for client in clients] == [b"HTTP/1.1 503"] * 3
            assert (place.connections, place._retry) == (0, None)  # and it listens as before
            assert await said(knocking(place, held)) == b"in"
        assert caplog.text.count("connections cannot be accepted for now") == 1


@pytest.mark.parametrize("why", [errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM])
async def test_where_the_machine_has_no_more_it_looks_again_a_little_later(monkeypatch, caplog, why):
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
            assert await said(knocking(place, held)) == b"in"
        assert "connections cannot be accepted for now: there are no more" in caplog.text


async def test_it_may_close_while_the_machine_has_no_more(monkeypatch):
    def exhausted(heard):
        raise OSError(errno.EMFILE, "there are no more")

    monkeypatch.setattr(socket.socket, "accept", exhausted)
    with ExitStack() as held:
        async with entrance(2) as place:
            knocking(place, held)
            await until(lambda: place._retry is not None)
        assert place._retry.cancelled()


# Which loop a server has


def test_a_server_has_the_quickest_loop_there_is(monkeypatch):
    async def which():
        return type(asyncio.get_running_loop()).__module__

    assert run(which()) == "uvloop"
    monkeypatch.setitem(sys.modules, "uvloop", None)  # as where it is not installed
    assert run(which()).startswith("asyncio.")
