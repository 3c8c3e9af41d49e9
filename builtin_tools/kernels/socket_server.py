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

from builtin_tools.kernels import control_socket
from builtin_tools.kernels.kernel_views import export_notebook, row_of
from builtin_tools.kernels.variables import variables_of
from sandbox.contract import SandboxError
from sandbox.kernels.agent_kernel import AgentKernel
from sandbox.kernels.cell_history import CellRecord
from sandbox.kernels.pool import KernelPool
from sandbox.kernels.spec import KernelOwner, NoKernel

_MOST_CLIENTS = 8
_LAST_CELLS = 5
_SHOWN = 2000  # maximum characters shown of a cell's code and of its output
_log = logging.getLogger("knackbox.kernels")


class KernelSocketServer:
    """Answers the clients of the socket, in the event loop of the kernels. Always close it."""

    def __init__(self, pool: KernelPool, folder: Path, name: str) -> None:
        self._pool = pool
        self._folder = folder
        self._name = name
        self._server: asyncio.Server | None = None
        self._clients: set[asyncio.Task[None]] = set()

    @classmethod
    async def open(cls, pool: KernelPool, folder: Path) -> Self:
        """Create the folder and listen on a socket in it.

        Raises:
            OSError: The folder or the socket cannot be created.
        """
        name = f"kernels-{os.getpid()}-{secrets.token_hex(4)}{control_socket.SUFFIX}"
        server = cls(pool, folder, name)
        listener = await asyncio.to_thread(_listen, folder, name)
        server._server = await asyncio.start_unix_server(
            server._handle_client, sock=listener, limit=control_socket.MOST_ASKED
        )
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
            if task is None or len(self._clients) >= _MOST_CLIENTS or not control_socket.same_user(peer):
                return
            self._clients.add(task)
            async with asyncio.timeout(control_socket.DEADLINE_S):
                answer = await self._answer(await reader.readline())
                writer.write(json.dumps(answer).encode() + b"\n")
                await writer.drain()
        except (TimeoutError, OSError, ValueError) as error:  # ValueError means that a line is too long
            _log.debug("A client of the kernel socket was disconnected: %s", error)
        finally:
            if task is not None:
                self._clients.discard(task)
            writer.close()

    async def _answer(self, line: bytes) -> dict[str, Any]:
        try:
            match json.loads(line):
                case {"do": "list"}:
                    now = asyncio.get_running_loop().time()
                    return {"ok": True, "kernels": [row_of(kernel, now) for kernel in self._pool.kernels()]}
                case {"do": str(do), "user": str(user), "agent": str(agent), "kernel": str(name)}:
                    kernel = self._pool.find(KernelOwner(user, agent), name, ended=do in {"show", "export"})
                    return {"ok": True, **await _do(do, kernel)}
                case _:
                    return {"ok": False, "error": "The request is unknown or incomplete."}
        except (ValueError, RecursionError):
            return {"ok": False, "error": "This is not a line of JSON."}
        except (NoKernel, SandboxError) as error:
            return {"ok": False, "error": str(error)}


async def _do(do: str, kernel: AgentKernel) -> dict[str, Any]:
    """Perform the action that a client requests, and return its result.

    Raises:
        NoKernel: The kernel has ended.
        SandboxError: The action is unknown, or failed.
    """
    match do:
        case "show":
            return await _show(kernel)
        case "interrupt":
            kernel.interrupt()
        case "stop":
            await kernel.stop("it was stopped by a person (knackbox kernel stop)")
        case "export":
            return {"notebook": (await export_notebook(kernel)).decode()}
        case _:
            raise SandboxError(f"There is no action {do[:40]!r}.")
    return {}


async def _show(kernel: AgentKernel) -> dict[str, Any]:
    """Return the last cells of a kernel, and its variables or the reason why the variables are unavailable."""
    cells = [_described(record) for record in list(kernel.history.records)[-_LAST_CELLS:]]
    try:
        return {"cells": cells, "variables": (await variables_of(kernel)).value}
    except (NoKernel, SandboxError) as error:
        return {"cells": cells, "variables_error": str(error)}


def _described(record: CellRecord) -> dict[str, Any]:
    """Summarize a cell from the history of a kernel."""
    cell = record.cell
    running = "cancelled" if record.cancelled else "running"
    printed = "" if cell is None else "".join(each.text for each in cell.outputs if each.kind == "stream")
    return {
        "cell": record.number,
        "code": record.code[:_SHOWN],
        "end": running if cell is None else str(cell.end),
        "printed": printed[-_SHOWN:],
        "error": f"{cell.error.type}: {cell.error.message}"[:_SHOWN] if cell is not None and cell.error else "",
        "state_lost": str(cell.state_lost) if cell is not None and cell.state_lost is not None else "",
        "wall_s": round(cell.wall_s, 3) if cell is not None else None,
    }


def _listen(folder: Path, name: str) -> socket.socket:
    folder.mkdir(mode=control_socket.PRIVATE_FOLDER, parents=True, exist_ok=True)
    with control_socket.opened(folder) as descriptor:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            os.fchmod(listener.fileno(), control_socket.PRIVATE_FILE)  # sets the mode of the file that bind(2) creates
            unfinished = control_socket.UNFINISHED + name
            listener.bind(control_socket.address(descriptor, unfinished))
            listener.listen(_MOST_CLIENTS)
            listener.setblocking(False)
            # Renamed once it listens: if a connection to the final name is refused, the process has ended.
            os.rename(unfinished, name, src_dir_fd=descriptor, dst_dir_fd=descriptor)
        except BaseException:
            listener.close()
            raise
    return listener
