"""How many may be connected: counted where they are accepted, so that a handshake that never ends counts too (decision 40)."""

import asyncio
import errno
import logging
import os
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from assay.serve.web.request import new_request_id

log = logging.getLogger("assay.serve")
FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nretry-after: 1\r\nconnection: close\r\n"
    b"x-content-type-options: nosniff\r\nx-request-id: %b\r\ncontent-length: %d\r\n\r\n%b"
)
SAID = b'{"error":"unavailable","message":"%d are connected, which is the limit (ASSAY_MAX_CONNECTIONS)"}'
NO_FILES = b'{"error":"unavailable","message":"this host has no file descriptors left for now; retry later"}'
AT_ONCE = 128  # that are let in before others have a turn
EXHAUSTED = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}  # no more of them for now, for anybody
AGAIN = 1.0  # seconds until somebody may be let in after that


class Listener:
    """Lets in who comes to a socket, and sends home whoever is one too many: with 503, under TLS without a word."""

    def __init__(
        self,
        heard: socket.socket,
        most: int,
        connected: Callable[[], asyncio.Protocol],
        *,
        tls: ssl.SSLContext | None = None,
        seconds: float = 10.0,
    ) -> None:
        self._heard = heard.dup()
        self._most, self._connected = most, connected
        self._tls, self._seconds = tls, seconds if tls else None
        self._loop = asyncio.get_running_loop()
        self._coming: set[asyncio.Task[None]] = set()
        self._later: asyncio.TimerHandle | None = None
        self._spare: int | None = _open_spare()
        self._exhausted = False
        self.inside = 0

    def open(self, backlog: int) -> None:
        self._heard.setblocking(False)
        self._heard.listen(backlog)
        self._hear()

    def close(self) -> None:
        """Nobody else comes in, and who shakes hands is let go; those inside stay."""
        if self._later is not None:
            self._later.cancel()
        self._loop.remove_reader(self._heard)
        self._heard.close()
        self._close_spare()
        for task in self._coming:
            task.cancel()

    async def wait_closed(self) -> None:
        await asyncio.gather(*self._coming, return_exceptions=True)

    def _hear(self) -> None:
        self._later = None
        self._loop.add_reader(self._heard, self._let_in)

    def _let_in(self) -> None:
        for _ in range(AT_ONCE):
            try:
                accepted, _ = self._heard.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as trouble:
                if trouble.errno not in EXHAUSTED:
                    raise
                if (
                    not self._exhausted
                ):  # once, until there is one again: who can reach the port could fill the log
                    log.error("nobody can be let in for now: %s", trouble.strerror)
                self._exhausted = True
                if trouble.errno == errno.EMFILE and self._turn_away():
                    continue
                self._loop.remove_reader(self._heard)
                self._later = self._loop.call_later(AGAIN, self._hear)
                return
            self._exhausted = False
            if self.inside < self._most:
                connection = CountedSocket(accepted, self)
                task = self._loop.create_task(self._greet(connection))
                self._coming.add(task)
                task.add_done_callback(partial(self._greeted, connection))
            else:
                self._send_home(accepted)

    async def _greet(self, connection: "CountedSocket") -> None:
        try:
            await self._loop.connect_accepted_socket(
                self._connected, connection, ssl=self._tls, ssl_handshake_timeout=self._seconds
            )
        except OSError:  # it went away, or did not shake hands, or not in time: nobody is there to be told
            connection.close()

    def _greeted(self, connection: "CountedSocket", task: asyncio.Task[None]) -> None:
        self._coming.discard(task)
        if task.cancelled():  # perhaps before it could begin
            connection.close()

    def _turn_away(self) -> bool:
        """
        With 503, by the descriptor that is held for it: clients need not wait for what does not come.

        False: not even that was possible, since another thread was first.
        """
        if self._spare is None:
            self._spare = _open_spare()
            return False
        self._close_spare()
        try:
            accepted, _ = self._heard.accept()
        except OSError:
            return False
        else:
            self._send_home(accepted, NO_FILES)
            return True
        finally:
            self._spare = _open_spare()

    def _close_spare(self) -> None:
        if self._spare is not None:
            os.close(self._spare)
            self._spare = None

    def _send_home(self, accepted: socket.socket, said: bytes | None = None) -> None:
        with accepted, suppress(OSError):
            accepted.setblocking(False)
            if self._tls is None:
                said = said or SAID % self._most
                accepted.send(FULL % (new_request_id().encode(), len(said), said))


def _open_spare() -> int | None:
    try:
        return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None


class CountedSocket(socket.socket):
    """Counted until it is closed, or given up to who closes it: the one is what asyncio does, the other what libuv does."""

    def __init__(self, accepted: socket.socket, place: Listener) -> None:
        super().__init__(accepted.family, accepted.type, accepted.proto, fileno=accepted.detach())
        self._place: Listener | None = place
        place.inside += 1

    def close(self) -> None:
        self._leave()
        super().close()

    def detach(self) -> int:
        self._leave()
        return super().detach()

    def _leave(self) -> None:
        if self._place is not None:
            self._place.inside -= 1
            self._place = None
