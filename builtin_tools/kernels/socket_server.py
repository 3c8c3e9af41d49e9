"""`KernelSocketServer`: the Unix socket through which `knackbox kernel` inspects a process's kernels."""

import asyncio
import json
import logging
import os
import secrets
import socket
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from builtin_tools.kernels import wire
from builtin_tools.kernels.history import CellRecord
from builtin_tools.kernels.owner import KernelOwner
from builtin_tools.kernels.sessions import NoKernel, Sessions
from sandbox.contract import SandboxError

_MOST_CLIENTS = 8
_LAST_CELLS = 5
_SHOWN = 2000  # characters of a cell's code, and of what it printed
_log = logging.getLogger("knackbox.kernels")


class KernelSocketServer:
    """Serves the sockets' clients. For the event loop of the sessions. Always close it."""

    def __init__(self, sessions: Sessions, folder: Path, name: str) -> None:
        self._sessions = sessions
        self._folder = folder
        self._name = name
        self._server: asyncio.Server | None = None
        self._clients: set[asyncio.Task[None]] = set()

    @classmethod
    async def open(cls, sessions: Sessions, folder: Path) -> Self:
        """Create the folder and listen in it. OSError propagates."""
        name = f"kernels-{os.getpid()}-{secrets.token_hex(4)}{wire.SUFFIX}"
        server = cls(sessions, folder, name)
        listener = await asyncio.to_thread(_listen, folder, name)
        server._server = await asyncio.start_unix_server(server._handle_client, sock=listener, limit=wire.MOST_ASKED)
        return server

    async def aclose(self) -> None:
        with suppress(OSError):
            (self._folder / self._name).unlink()
        if self._server is not None:
            self._server.close()
        for client in list(self._clients):
            client.cancel()
        await asyncio.gather(*self._clients, return_exceptions=True)

    async def _handle_client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        peer = writer.get_extra_info("socket")
        try:
            if task is None or len(self._clients) >= _MOST_CLIENTS or not wire.same_user(peer):
                return
            self._clients.add(task)
            async with asyncio.timeout(wire.DEADLINE_S):
                answer = await self._answer(await reader.readline())
                writer.write(json.dumps(answer).encode() + b"\n")
                await writer.drain()
        except (TimeoutError, OSError, ValueError) as error:  # ValueError: a line that is too long
            _log.debug("A client of the kernel socket was disconnected: %s", error)
        finally:
            if task is not None:
                self._clients.discard(task)
            writer.close()

    async def _answer(self, line: bytes) -> dict[str, Any]:
        try:
            match json.loads(line):
                case {"do": "list"}:
                    return {"ok": True, "kernels": self._sessions.rows()}
                case {"do": str(do), "user": str(user), "agent": str(agent), "kernel": str(kernel)}:
                    return {"ok": True, **await self._do(do, KernelOwner(user, agent), kernel)}
                case _:
                    return {"ok": False, "error": "This is no request that is known here."}
        except (ValueError, RecursionError):
            return {"ok": False, "error": "This is not a line of JSON."}
        except (NoKernel, SandboxError) as error:
            return {"ok": False, "error": str(error)}

    async def _do(self, do: str, owner: KernelOwner, kernel: str) -> dict[str, Any]:
        match do:
            case "show":
                return await self._show(owner, kernel)
            case "interrupt":
                self._sessions.interrupt(owner, kernel)
            case "stop":
                await self._sessions.stop(owner, kernel, tell="it was stopped by a person (knackbox kernel stop)")
            case "export":
                return {"notebook": (await self._sessions.export(owner, kernel)).decode()}
            case _:
                raise SandboxError(f"{do[:40]!r} is not known here.")
        return {}

    async def _show(self, owner: KernelOwner, kernel: str) -> dict[str, Any]:
        """Return the last cells, and the variables or why they are unavailable."""
        cells = [_described(entry) for entry in self._sessions.last(owner, kernel, _LAST_CELLS)]
        try:
            return {"cells": cells, "variables": (await self._sessions.variables(owner, kernel)).value}
        except (NoKernel, SandboxError) as error:
            return {"cells": cells, "variables_error": str(error)}


def _described(entry: CellRecord) -> dict[str, Any]:
    """Summarise a cell."""
    cell = entry.cell
    running = "cancelled" if entry.cancelled else "running"
    printed = "" if cell is None else "".join(each.text for each in cell.outputs if each.kind == "stream")
    return {
        "cell": entry.number,
        "code": entry.code[:_SHOWN],
        "end": running if cell is None else str(cell.end),
        "printed": printed[-_SHOWN:],
        "error": f"{cell.error.type}: {cell.error.message}"[:_SHOWN] if cell is not None and cell.error else "",
        "state_lost": cell.state_lost if cell is not None else "",
        "wall_s": round(cell.wall_s, 3) if cell is not None else None,
    }


def _listen(folder: Path, name: str) -> socket.socket:
    folder.mkdir(mode=wire.PRIVATE_FOLDER, parents=True, exist_ok=True)
    with wire.opened(folder) as descriptor:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            os.fchmod(listener.fileno(), wire.PRIVATE_FILE)  # what bind(2) takes the new file's mode from
            unfinished = wire.UNFINISHED + name
            listener.bind(wire.address(descriptor, unfinished))
            listener.listen(_MOST_CLIENTS)
            listener.setblocking(False)
            # Only now under its name: who finds that, and is refused, knows that nobody is there any more.
            os.rename(unfinished, name, src_dir_fd=descriptor, dst_dir_fd=descriptor)
        except BaseException:
            listener.close()
            raise
    return listener
