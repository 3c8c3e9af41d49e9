"""Creates wheels, and serves an index on this machine that can delay its answers."""

import base64
import hashlib
import os
import threading
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


def make_wheel(
    folder: Path,
    name: str,
    version: str = "1.0",
    *,
    files: Mapping[str, bytes] | None = None,
    requires: tuple[str, ...] = (),
) -> Path:
    """Create a pure Python wheel. Without `files`, it has one module of that name, which contains its version."""
    dist = f"{name}-{version}.dist-info"
    needs = "".join(f"Requires-Dist: {text}\n" for text in requires)
    content = {
        **(files if files is not None else {f"{name}.py": f"VERSION = {version!r}\n".encode()}),
        f"{dist}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}".encode(),
        f"{dist}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(
        f"{path},sha256={base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b'=').decode()},{len(data)}\n"
        for path, data in content.items()
    )
    content[f"{dist}/RECORD"] = f"{record}{dist}/RECORD,,\n".encode()
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for inside, data in content.items():
            wheel.writestr(inside, data)
    return path


def from_folder(folder: Path) -> dict[str, str]:
    """Return the environment variables of a machine whose only packages are those of a folder."""
    return {
        "PIP_CONFIG_FILE": os.devnull,
        "UV_NO_CONFIG": "1",
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(folder),
    }


class SlowIndex:
    """An index that delays its wheels.

    Attributes:
        asked: Set when a wheel is requested.
        go: Requests for wheels wait until it is set.
        served: The number of wheels that were served.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.asked = threading.Event()
        self.go = threading.Event()
        self.served: list[str] = []
        self.url = ""

    def environ(self) -> dict[str, str]:
        """Return the variables of a machine whose pip uses only this index, with a password in its address."""
        return {
            "PIP_CONFIG_FILE": os.devnull,
            "UV_NO_CONFIG": "1",
            "UV_HTTP_RETRIES": "0",
            "PIP_INDEX_URL": self.url.replace("://", "://someone:hunter2@"),
        }


@contextmanager
def slow_index(folder: Path) -> Iterator[SlowIndex]:
    """Serve the wheels of a folder on the loopback address."""
    index = SlowIndex(folder)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = self.path.strip("/").split("/")
            if self.path.endswith(".metadata"):  # PEP 658
                with zipfile.ZipFile(index.folder / parts[1].removesuffix(".metadata")) as wheel:
                    (name,) = (n for n in wheel.namelist() if n.endswith("/METADATA"))
                    self.answer(wheel.read(name), "text/plain")
            elif parts[0] == "files":
                index.asked.set()
                index.go.wait(60)
                data = (index.folder / parts[1]).read_bytes()
                index.served.append(parts[1])
                self.answer(data, "application/octet-stream")
            else:
                names = [p.name for p in index.folder.glob(f"{parts[-1].replace('-', '_')}-*.whl")]
                links = "".join(f'<a href="/files/{name}" data-core-metadata="true">{name}</a>' for name in names)
                self.answer(f"<!DOCTYPE html><html><body>{links}</body></html>".encode(), "text/html")

        def answer(self, data: bytes, kind: str) -> None:
            try:
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)
            except (BrokenPipeError, ConnectionResetError):
                pass  # the client was killed

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  (the base class's name)
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    index.url = f"http://127.0.0.1:{server.server_address[1]}/simple"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield index
    finally:
        index.go.set()
        server.shutdown()
        thread.join()
        server.server_close()
