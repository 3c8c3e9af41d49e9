"""A real HTTP server on loopback whose answers are written by the test."""

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Seen:
    """One request that the server received."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Server:
    """A running server: its port and address, and the requests that it has received."""

    port: int
    address: str = "127.0.0.1"
    seen: list[Seen] = field(default_factory=list)

    def url(self, path: str, host: str = "127.0.0.1", scheme: str = "http") -> str:
        return f"{scheme}://{host}:{self.port}{path}"


Answer = Callable[[BaseHTTPRequestHandler, Seen], None]


def reply(
    handler: BaseHTTPRequestHandler, status: int, body: bytes = b"", headers: dict[str, str] | None = None
) -> None:
    handler.send_response(status)
    for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
        handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.write(body)


@contextmanager
def serving(
    answers: dict[str, Answer], tls: ssl.SSLContext | None = None, listening: socket.socket | None = None
) -> Iterator[Server]:
    """Serve `answers` by path until the end of the block, on loopback unless a listening socket is given."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            seen = Seen(self.command, self.path, {k.lower(): v for k, v in self.headers.items()}, body)
            server.seen.append(seen)
            answer = answers.get(self.path)
            if answer is None:
                reply(self, 404)
            else:
                answer(self, seen)

        do_POST = do_GET  # noqa: N815 -- the base class requires this name

        def log_message(self, *args: object) -> None:
            """Log nothing; tests read `seen`."""

    class Listener(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: object, client_address: object) -> None:
            """Ignore errors: in some tests the client closes the connection early."""

    listener = Listener(("127.0.0.1", 0), Handler, bind_and_activate=listening is None)
    if listening is not None:
        listener.socket.close()
        listener.socket = listening
    if tls:
        listener.socket = tls.wrap_socket(listener.socket, server_side=True)
    address, port = listener.socket.getsockname()[:2]
    server = Server(port, address)
    thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        listener.shutdown()
        listener.server_close()
        thread.join()
