"""A server of S3 from the registry (moto), and a proxy before it that plants faults."""

import socket
import subprocess
import time
from contextlib import contextmanager
from http.client import HTTPConnection
from urllib.parse import urlsplit

from support.servers.thread_server import Handler, HandlerServer
from support.waiting import wait_until

HOP = ("connection", "transfer-encoding", "content-length", "date", "server")


@contextmanager
def s3_server(python, folder):
    """The port of a server that runs in the environment of this interpreter."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with (folder / "moto.log").open("wb") as log:
        command = [python, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        wait_until(lambda: _answers(port), (folder / "moto.log").read_text)
        yield port
    finally:
        process.kill()
        process.wait()


def _answers(port):
    try:
        connection = HTTPConnection("127.0.0.1", port)
        connection.request("GET", "/")
        return connection.getresponse().status < 500
    except OSError:
        return False


def no_fault(method, path) -> int | str | None:
    return None


class Proxy(HandlerServer):
    """
    It forwards each request to the server, unless `fault(method, path)` names what becomes of it: 503, "cut" (half of
    the answer, or none to a request that writes), "slow". `written` are the paths that were stored, in their order.
    """

    def __init__(self, port):
        self.fault = no_fault
        self.written, self.planted = [], []
        proxy = self

        class Forward(Handler):
            def handle_any(self):
                proxy.forward(self, port)

            do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = handle_any  # names of http.server

        super().__init__(Forward)

    def forward(self, request, port):
        method, path = request.command, urlsplit(request.path).path
        body = request.body()
        fault = self.fault(method, path)
        if fault:
            self.planted.append((fault, method, path))
        if fault == 503 or (fault == "cut" and method != "GET"):
            request.close_connection = True
            if fault == 503:
                request.send(503)
            return
        if fault == "slow":
            time.sleep(0.3)
        upstream = HTTPConnection("127.0.0.1", port)
        headers = {name: value for name, value in request.headers.items() if name.lower() != "connection"}
        upstream.request(method, request.path, body, headers)
        answer = upstream.getresponse()
        content = answer.read()
        upstream.close()
        if method == "PUT" and answer.status == 200:
            self.written.append(path)
        request.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in HOP:
                request.send_header(name, value)
        size = answer.getheader("Content-Length") if method == "HEAD" else len(content)
        request.send_header("Content-Length", str(size or 0))
        request.end_headers()
        if fault == "cut":
            request.close_connection = True
            content = content[: len(content) // 2]
        request.wfile.write(content)
