"""How many may be connected: counted where they are accepted, so that a handshake that never ends counts too (decision 40)."""

import socket
from contextlib import suppress
from typing import Any

from assay.serve.rest.call import new_number

FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nretry-after: 1\r\nconnection: close\r\n"
    b"x-content-type-options: nosniff\r\nx-request-id: %b\r\ncontent-length: %d\r\n\r\n%b"
)
SAID = b'{"error":"unavailable","message":"%d are connected, which is the limit (ASSAY_MAX_CONNECTIONS)"}'


class Listening(socket.socket):
    """A socket that listens, and sends home whoever is one too many: with 503, under TLS without a word."""

    def __init__(self, heard: socket.socket, most: int, *, plain: bool) -> None:
        super().__init__(heard.family, heard.type, heard.proto, fileno=socket.dup(heard.fileno()))
        self.most, self.open, self._said = most, 0, SAID % most if plain else b""

    def accept(self) -> tuple[socket.socket, Any]:
        connection, address = super().accept()
        if self.open < self.most:
            return Connection(connection, self), address
        with connection, suppress(OSError):
            connection.setblocking(False)
            if self._said:
                connection.send(FULL % (new_number().encode(), len(self._said), self._said))
        raise BlockingIOError  # nobody for now; the loop asks again when somebody else knocks


class Connection(socket.socket):
    """Counted until it is closed."""

    def __init__(self, accepted: socket.socket, place: Listening) -> None:
        super().__init__(accepted.family, accepted.type, accepted.proto, fileno=accepted.detach())
        self._place: Listening | None = place
        place.open += 1

    def close(self) -> None:
        if self._place is not None:
            self._place.open -= 1
            self._place = None
        super().close()
