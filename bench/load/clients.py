"""Runs concurrent HTTP clients in a separate process: ``python -m bench.load.clients URL TOKEN CLIENTS SECONDS``.

Each client sends one request after the other over a persistent connection. A refused client waits as long as
``Retry-After`` says and tries again. The result is printed as one JSON object. The clients use asyncio streams, because
a thousand clients of an HTTP library would need more of the machine than the servers that they measure.
"""

import asyncio
import json
import resource
import sys
import time
from dataclasses import asdict, dataclass, field
from urllib.parse import urlsplit

TIMEOUT_S = 30.0
_OK, _REFUSED = 200, (429, 503)
_PAUSE_S = 1.0  # after a failed connection, and after a refusal without Retry-After


@dataclass
class ClientReport:
    """What the clients observed. Times are in seconds.

    Attributes:
        promises: One entry per refusal: the value of ``Retry-After``, and whether the client was served when it came
            back after that wait. The entry is None if the header was missing.
    """

    served: list[float] = field(default_factory=list)
    within: int = 0  # calls that were served before the end of the measurement
    refusals: list[float] = field(default_factory=list)
    promises: list[tuple[float, bool] | None] = field(default_factory=list)
    timeouts: int = 0
    errors: list[str] = field(default_factory=list)


class Client:
    """One client, which makes calls until the end of the measurement."""

    def __init__(self, url: str, token: str, end: float, report: ClientReport) -> None:
        parts = urlsplit(url)
        self._host, self._port = parts.hostname or "", parts.port or 80
        body = json.dumps({"name": "execute", "arguments": {"language": "python", "code": "6 * 7"}}).encode()
        head = (
            f"POST /api/call HTTP/1.1\r\nHost: {parts.netloc}\r\nAuthorization: Bearer {token}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        self._request = head.encode() + body
        self._end = end
        self._report = report
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def work(self) -> None:
        """Make calls until the end."""
        report, promised = self._report, None
        while time.monotonic() < self._end:
            began = time.monotonic()
            try:
                async with asyncio.timeout(TIMEOUT_S):
                    status, headers, body = await self._call()
            except TimeoutError:
                report.timeouts += 1
                self._close()
                continue
            except (OSError, EOFError, ValueError) as error:
                report.errors.append(f"{type(error).__name__}: {error}"[:200])
                self._close()
                await asyncio.sleep(_PAUSE_S)
                continue
            took = time.monotonic() - began
            refused = status in _REFUSED
            if promised is not None:
                report.promises.append((promised, not refused))
                promised = None
            if refused:
                report.refusals.append(took)
                retry_after = headers.get("retry-after", "")
                if not retry_after:
                    report.promises.append(None)
                else:
                    promised = float(retry_after)
                await asyncio.sleep(promised if promised is not None else _PAUSE_S)
            elif status == _OK and b"42" in body:
                report.served.append(took)
                report.within += time.monotonic() < self._end
            else:
                report.errors.append(f"{status}: {body[:200]!r}")
                await asyncio.sleep(_PAUSE_S)
        self._close()

    async def _call(self) -> tuple[int, dict[str, str], bytes]:
        if self._streams is None:
            self._streams = await asyncio.open_connection(self._host, self._port)
        reader, writer = self._streams
        writer.write(self._request)
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        if headers.get("connection", "").lower() == "close":
            self._close()
        return int(head[0].split(" ")[1]), headers, body

    def _close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


async def main(url: str, token: str, clients: int, seconds: float) -> ClientReport:
    """Run all clients at the same time."""
    report, end = ClientReport(), time.monotonic() + seconds
    await asyncio.gather(*(Client(url, token, end, report).work() for _ in range(clients)))
    return report


if __name__ == "__main__":
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    json.dump(asdict(asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])))), sys.stdout)
