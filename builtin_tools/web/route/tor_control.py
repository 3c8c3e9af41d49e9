"""`TorControl`: a connection to the control socket of a Tor (control-spec of the Tor Project).

Only the few commands that Knackbox needs are implemented.
"""

import asyncio
import re
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

_PATIENCE_S = 10.0
_MOST_LINES = 10_000
_BOOTSTRAP = re.compile(r'PROGRESS=(?P<percent>\d+).*?SUMMARY="(?P<summary>[^"]*)"')
_WARNING = re.compile(r'WARNING="(?P<warning>[^"]*)"')
SOCKET = "control"
COOKIE = "cookie"


class TorControlError(Exception):
    """Tor did not answer, or refused a command."""


class TorControl:
    """An authenticated connection. Its commands may be used by several tasks at the same time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._one_at_a_time = asyncio.Lock()

    @classmethod
    async def open(cls, folder: Path) -> "TorControl":
        """Connect to the control socket in a folder, and authenticate with the cookie beside it.

        Raises:
            TorControlError: Nothing listens, or Tor refuses the cookie.
        """
        try:
            cookie = await asyncio.to_thread((folder / COOKIE).read_bytes)
            async with asyncio.timeout(_PATIENCE_S):
                reader, writer = await asyncio.open_unix_connection(folder / SOCKET)
        except (OSError, TimeoutError) as error:
            raise TorControlError(f"{folder / SOCKET}: {error or type(error).__name__}") from error
        control = cls(reader, writer)
        try:
            await control.command(f"AUTHENTICATE {cookie.hex()}")
        except BaseException:
            control.close()
            raise
        return control

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection. A Tor of which this connection has the ownership then exits."""
        self._writer.close()

    async def command(self, line: str) -> list[str]:
        """Send a command and return the lines of its reply, without status codes and the final line.

        Raises:
            TorControlError: The command is refused, or the connection is closed.
        """
        async with self._one_at_a_time:
            try:
                async with asyncio.timeout(_PATIENCE_S):
                    self._writer.write(f"{line}\r\n".encode())
                    await self._writer.drain()
                    return await self._reply()
            except (OSError, TimeoutError, asyncio.IncompleteReadError, ValueError) as error:
                # A late reply would be taken for that of the next command, so the connection is not used again.
                self.close()
                raise TorControlError(f"{line.split(maxsplit=1)[0]}: {error or type(error).__name__}") from error
            except asyncio.CancelledError:
                self.close()
                raise

    async def info(self, key: str) -> str:
        """Return the value of a key of GETINFO.

        Raises:
            TorControlError: There is no such key, or the connection is closed.
        """
        lines = await self.command(f"GETINFO {key}")
        name, found, value = (lines[0] if lines else "").partition("=")
        if name != key or not found:
            raise TorControlError(f"GETINFO {key}: unexpected reply {lines[:1]!r}")
        return value

    async def bootstrap(self) -> tuple[int, str]:
        """Return how far Tor is connected to its network, in percent, and what it is doing or what hinders it.

        Raises:
            TorControlError: The connection is closed.
        """
        phase = await self.info("status/bootstrap-phase")
        found = _BOOTSTRAP.search(phase)
        if found is None:
            raise TorControlError(f"unexpected bootstrap phase {phase[:200]!r}")
        warning = _WARNING.search(phase)
        summary = found["summary"] if warning is None else f"{found['summary']}: {warning['warning']}"
        return int(found["percent"]), summary

    async def socks_listener(self) -> tuple[str, int]:
        """Return the address and port of the SOCKS server.

        Raises:
            TorControlError: There is none, or the connection is closed.
        """
        listeners = (await self.info("net/listeners/socks")).split()
        for listener in listeners:
            host, _, port = listener.strip('"').rpartition(":")
            if host and port.isdigit():
                return host.strip("[]"), int(port)
        raise TorControlError("Tor has no SOCKS server on a TCP port")

    async def set_options(self, options: Mapping[str, str]) -> None:
        """Change options.

        Raises:
            TorControlError: Tor refuses them, or the connection is closed.
        """
        await self.command("SETCONF " + " ".join(f'{name}="{value}"' for name, value in options.items()))

    async def own(self, process: int) -> None:
        """Make Tor exit when this connection is closed or the process ends.

        Raises:
            TorControlError: The connection is closed.
        """
        await self.set_options({"__OwningControllerProcess": str(process)})
        await self.command("TAKEOWNERSHIP")

    async def hand_over(self, process: int) -> None:
        """Make Tor exit when another process ends, no longer when this connection is closed.

        Raises:
            TorControlError: The connection is closed.
        """
        await self.set_options({"__OwningControllerProcess": str(process)})
        await self.command("DROPOWNERSHIP")

    async def halt(self) -> None:
        """Make Tor exit at once, and wait until it has closed the connection.

        Raises:
            TorControlError: It did not.
        """
        await self.command("SIGNAL HALT")
        try:
            async with asyncio.timeout(_PATIENCE_S):
                while await self._reader.read(4096):
                    pass
        except TimeoutError as error:
            raise TorControlError("Tor did not exit") from error
        except OSError:
            pass  # the connection is closed
        finally:
            self.close()

    async def _reply(self) -> list[str]:
        lines: list[str] = []
        while len(lines) < _MOST_LINES:
            line = (await self._reader.readuntil(b"\r\n")).decode("utf-8", "replace").rstrip("\r\n")
            code, mark, text = line[:3], line[3:4], line[4:]
            if code == "650":
                continue  # an event; none are requested here
            if not code.startswith("2"):
                raise TorControlError(f"Tor refused a command: {line}")
            if mark == " ":
                return lines
            lines.append(text)
            while mark == "+" and (await self._reader.readuntil(b"\r\n")) != b".\r\n":
                pass
        raise TorControlError("the reply is too long")
