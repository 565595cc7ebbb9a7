"""Accepts connections up to a limit. They count from `accept` on, also in a TLS handshake (FEP-40)."""

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
from assay.serve.web.worker_group import CONNECTIONS, WorkerMember

log = logging.getLogger("assay.serve")
FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nretry-after: 1\r\nconnection: close\r\n"
    b"x-content-type-options: nosniff\r\nx-request-id: %b\r\ncontent-length: %d\r\n\r\n%b"
)
TOO_MANY = (
    b'{"error":"unavailable","message":"%d connections are open, which is the limit (ASSAY_MAX_CONNECTIONS)"}'
)
NO_FILES = b'{"error":"unavailable","message":"the server has no free file descriptors; retry later"}'
MAX_ACCEPTS = 128  # connections accepted before other tasks of the loop run
EXHAUSTED = {
    errno.EMFILE,
    errno.ENFILE,
    errno.ENOBUFS,
    errno.ENOMEM,
}  # errors of `accept` that affect every client
COURTESY = 0.002  # seconds that a worker with more connections leaves a new one to others
RETRY_SECONDS = 1.0  # until the next `accept` after such an error


class Listener:
    """Accepts the connections of one socket. One over the limit gets a 503; under TLS it is closed unanswered."""

    def __init__(
        self,
        listening: socket.socket,
        limit: int,
        protocol_factory: Callable[[], asyncio.Protocol],
        *,
        tls: ssl.SSLContext | None = None,
        seconds: float = 10.0,
        member: WorkerMember | None = None,
    ) -> None:
        """`member`: other workers accept connections of the same socket, and the limit is for all of them."""
        self._socket = listening.dup()
        self._limit, self._protocol_factory = limit, protocol_factory
        self._tls, self._seconds = tls, seconds if tls else None
        self._loop = asyncio.get_running_loop()
        self._handshakes: set[asyncio.Task[None]] = set()
        self._retry: asyncio.TimerHandle | None = None
        self._spare_fd: int | None = _open_spare()
        self._exhausted = False
        self.connections = 0
        self._member = member
        self._most = MAX_ACCEPTS if member is None else 1  # so that other workers get connections too

    def open(self, backlog: int) -> None:
        self._socket.setblocking(False)
        self._socket.listen(backlog)
        self._listen()

    def close(self) -> None:
        """Accept no more connections and cancel handshakes; established connections stay open."""
        if self._retry is not None:
            self._retry.cancel()
        self._loop.remove_reader(self._socket)
        self._socket.close()
        self._close_spare()
        for task in self._handshakes:
            task.cancel()

    async def wait_closed(self) -> None:  # uvicorn calls it when it stops
        await asyncio.gather(*self._handshakes, return_exceptions=True)

    def _listen(self) -> None:
        self._retry = None
        self._loop.add_reader(self._socket, self._accept if self._member is None else self._accept_share)

    def _accept_share(self) -> None:
        """Leave a connection to a worker that has fewer; if none takes it within a moment, accept it."""
        fewest = None if self._member is None else self._member.fewest(CONNECTIONS)
        if fewest is None or self.connections <= fewest:
            self._accept()
        else:
            self._loop.remove_reader(self._socket)
            self._retry = self._loop.call_later(COURTESY, self._accept_left)

    def _accept_left(self) -> None:
        self._listen()
        self._accept()

    def count(self, amount: int) -> None:
        self.connections += amount
        if self._member is not None:
            self._member.publish(CONNECTIONS, self.connections)

    def _has_room(self) -> bool:
        """Whether one connection, which is counted already, is within the limit."""
        others = 0 if self._member is None else self._member.others(CONNECTIONS)
        return self.connections + others <= self._limit

    def _accept(self) -> None:
        for _ in range(self._most):
            try:
                accepted, _ = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as trouble:
                if trouble.errno not in EXHAUSTED:
                    raise
                # logged once until `accept` succeeds again: anyone who can reach the port could fill the log
                if not self._exhausted:
                    log.error("connections cannot be accepted for now: %s", trouble.strerror)
                self._exhausted = True
                if trouble.errno == errno.EMFILE and self._reject_exhausted():
                    continue
                self._loop.remove_reader(self._socket)
                self._retry = self._loop.call_later(RETRY_SECONDS, self._listen)
                return
            self._exhausted = False
            connection = CountedSocket(accepted, self)
            if self._has_room():
                task = self._loop.create_task(self._handshake(connection))
                self._handshakes.add(task)
                task.add_done_callback(partial(self._handshake_done, connection))
            else:
                self._reject(connection)

    async def _handshake(self, connection: "CountedSocket") -> None:
        try:
            await self._loop.connect_accepted_socket(
                self._protocol_factory, connection, ssl=self._tls, ssl_handshake_timeout=self._seconds
            )
        except (
            OSError
        ):  # the client disconnected, or its handshake failed or timed out: nothing can be answered
            connection.close()

    def _handshake_done(self, connection: "CountedSocket", task: asyncio.Task[None]) -> None:
        self._handshakes.discard(task)
        if task.cancelled():  # perhaps before it started
            connection.close()

    def _reject_exhausted(self) -> bool:
        """
        Answer 503 through the spare file descriptor, so that clients do not wait in vain.

        Returns False if another thread took that descriptor first.
        """
        if self._spare_fd is None:
            self._spare_fd = _open_spare()
            return False
        self._close_spare()
        try:
            accepted, _ = self._socket.accept()
        except OSError:
            return False
        else:
            self._reject(accepted, NO_FILES)
            return True
        finally:
            self._spare_fd = _open_spare()

    def _close_spare(self) -> None:
        if self._spare_fd is not None:
            os.close(self._spare_fd)
            self._spare_fd = None

    def _reject(self, connection: socket.socket, body: bytes | None = None) -> None:
        with connection, suppress(OSError):
            connection.setblocking(False)
            if self._tls is None:
                body = body or TOO_MANY % self._limit
                connection.send(FULL % (new_request_id().encode(), len(body), body))


def _open_spare() -> int | None:
    try:
        return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None


class CountedSocket(socket.socket):
    """Counts as a connection until it is closed or detached. asyncio closes it, libuv detaches it."""

    def __init__(self, connection: socket.socket, listener: Listener) -> None:
        super().__init__(connection.family, connection.type, connection.proto, fileno=connection.detach())
        self._listener: Listener | None = listener
        listener.count(1)

    def close(self) -> None:
        self._leave()
        super().close()

    def detach(self) -> int:
        self._leave()
        return super().detach()

    def _leave(self) -> None:
        if self._listener is not None:
            self._listener.count(-1)
            self._listener = None
