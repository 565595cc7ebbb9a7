"""A client that costs little: the request is bytes, and of a response it reads the status and the length."""

import selectors
import socket
import time
from typing import NamedTuple

CONNECTIONS = 32
_LENGTH = b"content-length: "
_LONGEST_HEAD = 4096
_BUFFER = bytearray(1 << 16)  # for all connections: a new one for each response costs page faults


class Load(NamedTuple):
    """What the connections had in one turn."""

    requests: int
    wall: float
    cpu: float  # seconds of this process


class _Connection:
    def __init__(self, address: tuple[str, int], request: bytes) -> None:
        self.socket = socket.create_connection(address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._request, self._received, self._size, self._head = request, 0, 0, b""

    def send(self) -> None:
        self.socket.sendall(self._request)

    def receive(self) -> bool:
        """Whether the response is complete."""
        size = self.socket.recv_into(_BUFFER)
        assert size, "the server closed the connection"
        self._received += size
        if not self._size:
            self._head += _BUFFER[: min(size, _LONGEST_HEAD)]
            end = self._head.find(b"\r\n\r\n")
            if end < 0:
                return False
            assert self._head.startswith(b"HTTP/1.1 200"), self._head
            at = self._head.index(_LENGTH, 0, end) + len(_LENGTH)
            self._size = end + 4 + int(self._head[at : self._head.index(b"\r", at)])
        if self._received < self._size:
            return False
        self._received, self._size, self._head = 0, 0, b""
        return True


def post(address: tuple[str, int], path: str, headers: dict[str, str], body: bytes, seconds: float) -> Load:
    """Post the same body on 32 connections, each sequential, for some seconds."""
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    head = f"POST {path} HTTP/1.1\r\nhost: bench\r\n{lines}content-length: {len(body)}\r\n\r\n"
    connections = [_Connection(address, head.encode() + body) for _ in range(CONNECTIONS)]
    done = 0
    wall, cpu = time.perf_counter(), time.process_time()
    with selectors.DefaultSelector() as selector:
        for one in connections:
            selector.register(one.socket, selectors.EVENT_READ, one)
            one.send()
        busy = len(connections)
        while busy:
            for key, _ in selector.select():
                if key.data.receive():
                    done += 1
                    if time.perf_counter() - wall < seconds:
                        key.data.send()
                    else:
                        busy -= 1
    load = Load(done, time.perf_counter() - wall, time.process_time() - cpu)
    for one in connections:
        one.socket.close()
    return load
