"""A host that does with a connection what a test says."""

import re
import socket
import threading
from contextlib import contextmanager, suppress

from support.waiting import PATIENCE as LONG

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"


@contextmanager
def raw_host(behave, at="127.0.0.1"):
    """The address of a host that does `behave(connection)` for each connection, and the number of connections."""
    listener = socket.create_server((at, 0), family=socket.AF_INET6 if ":" in at else socket.AF_INET)
    asked = []
    stop = threading.Event()

    def one(connection):
        with connection, suppress(OSError):
            request = b""
            while b"\r\n\r\n" not in request:
                request += connection.recv(65536) or b"\r\n\r\n"
            head, _, body = request.partition(b"\r\n\r\n")
            length = re.search(rb"content-length: (\d+)", head.lower())
            while length and len(body) < int(length[1]) and (more := connection.recv(65536)):
                body += more  # an answer before it would be lost
            asked.append(request)
            behave(*(connection, stop, request)[: behave.__code__.co_argcount])

    def serve():
        while not stop.is_set():
            with suppress(OSError):
                threading.Thread(target=one, args=(listener.accept()[0],), daemon=True).start()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"http://{f'[{at}]' if ':' in at else at}:{listener.getsockname()[1]}", asked
    finally:
        stop.set()
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(LONG)


def answering(body, *headers):
    head = HEAD + b"".join(one + b"\r\n" for one in headers)

    def behave(connection, stop):
        connection.sendall(head + b"content-length: %d\r\n\r\n" % len(body) + body)

    return behave
