"""`Sessions`: the kernels of all agents of this process, with the history of each.

Importing this brings ZeroMQ and Jupyter's client; `builtin_tools.kernels.service` does so at the first use.
"""

import asyncio
import importlib
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass

from acquired_skills.jobs.preload import preload_for
from builtin_tools.kernels.files import keeper
from builtin_tools.kernels.history import CellRecord, History
from builtin_tools.kernels.outputs import KernelRow
from builtin_tools.kernels.owner import KernelOwner
from builtin_tools.kernels.shown import CellDisplay, show
from builtin_tools.kernels.variables import EXPRESSION, WALL_S, Overview, overview_of
from engine.app.settings import KernelSettings
from engine.stores.workspace import FolderWorkspace
from sandbox.contract import Mount, SandboxError
from sandbox.kernels.boxed import ServerSandbox
from sandbox.kernels.outputs import OnStream
from sandbox.kernels.pool import KernelPool, PoolConfig
from sandbox.kernels.spec import Cell, CellLimits, KernelSpec

_KEPT_BYTES = 16 << 20  # of a cell's outputs: a picture in them is no text to be cut
_MOST_HISTORIES = 64
MISSING = "pip install 'knackbox[kernels]', in the environment Knackbox runs in."


@dataclass(frozen=True, slots=True)
class CellRun:
    """A cell with its outputs. number: counted over the life of its kernel's name."""

    cell: Cell
    shown: CellDisplay
    number: int


class NoKernel(LookupError):
    """There is no kernel of that name; the message lists the existing ones."""


class Sessions:
    """The kernels of one process. For one event loop. Always close it."""

    def __init__(self, keeper: ServerSandbox, settings: KernelSettings) -> None:
        self._settings = settings
        config = PoolConfig(settings.most, settings.per_agent, settings.warm, idle_s=settings.idle_s)
        self._pool = KernelPool(keeper, config)
        self._histories: OrderedDict[tuple[KernelOwner, str], History] = OrderedDict()
        self._places: dict[tuple[KernelOwner, str], str] = {}

    async def aclose(self) -> None:
        await self._pool.aclose()

    async def run(
        self,
        owner: KernelOwner,
        kernel: str,
        code: str,
        workspace: FolderWorkspace,
        *,
        imports: tuple[str, ...] = (),
        wall_s: float,
        on_stream: OnStream,
    ) -> CellRun:
        """Run a cell. What it says was lost has been told only when this returns and nothing is awaited afterwards.

        imports: what the code seems to import, which decides what a kernel that must be started has imported already.
        Raises Busy, TooManyKernels, SandboxError.
        """
        spec = None if self._pool.knows(owner.key, kernel) else self._spec(workspace, imports)
        limits = CellLimits(wall_s=wall_s, kept_bytes=_KEPT_BYTES)
        history, entry = None, None
        try:
            history, entry = self._begin(owner, kernel, code)
            self._places[owner, kernel] = str(workspace.root)
            running = self._pool.running(owner.key, code, name=kernel, spec=spec, limits=limits, on_stream=on_stream)
            async with running as cell:
                history.end(entry, cell)
                shown = await asyncio.to_thread(show, cell, keeper(workspace, kernel, entry.number))
            return CellRun(cell, shown, entry.number)
        except SandboxError:
            if history is not None and entry is not None:
                history.forget(entry)  # it did not run
            raise
        except BaseException:
            if entry is not None:
                entry.cancelled = entry.cell is None
            raise

    def owe(self, owner: KernelOwner, kernel: str, state_lost: str) -> None:
        """A cell's `state_lost` reached nobody after all: the next one says it again."""
        self._pool.owe(owner.key, kernel, state_lost)

    async def variables(self, owner: KernelOwner, kernel: str) -> Overview:
        """Return the variables. NoKernel, Occupied and SandboxError propagate."""
        try:
            answer = await self._pool.ask(owner.key, kernel, EXPRESSION, WALL_S)
        except LookupError:
            raise self._missing(owner, kernel) from None
        found = overview_of(answer)
        if found is None:
            raise SandboxError("The kernel's answer was no overview of variables.")
        return found

    def rows(self, owner: KernelOwner | None = None) -> list[KernelRow]:
        """Return the state of each kernel, of all agents or of one."""
        found: list[KernelRow] = []
        for state in self._pool.states():
            whose = KernelOwner.from_key(state.agent)
            if owner is not None and whose != owner:
                continue
            history = self._histories.get((whose, state.name))
            found.append(
                {
                    "user": whose.user,
                    "agent": whose.agent,
                    "kernel": state.name,
                    "state": "busy" if state.busy else "idle",
                    "since_s": round(state.since_s, 1),
                    "cells": history.count if history else 0,
                    "memory_bytes": state.memory_bytes,
                    "workspace": self._places.get((whose, state.name), ""),
                }
            )
        return found

    def interrupt(self, owner: KernelOwner, kernel: str) -> None:
        """Interrupt the running cell. NoKernel propagates."""
        if not self._pool.interrupt(owner.key, kernel):
            raise self._missing(owner, kernel)

    async def stop(self, owner: KernelOwner, kernel: str, *, tell: str = "") -> None:
        """tell: why, for the agent's next cell, when it is not the agent who asked. Raises NoKernel."""
        if not await self._pool.stop(owner.key, kernel, tell=tell):
            raise self._missing(owner, kernel)
        if not tell and (history := self._histories.get((owner, kernel))):
            history.stopped = True

    def last(self, owner: KernelOwner, kernel: str, most: int) -> list[CellRecord]:
        """Return the last cells. NoKernel propagates."""
        return list(self._history(owner, kernel).entries)[-most:]

    async def export(self, owner: KernelOwner, kernel: str) -> bytes:
        """Return the history as a notebook, even of a stopped or lost kernel. NoKernel propagates."""
        history = self._history(owner, kernel).copy()
        try:
            # nbformat comes with an extra, and takes 0.2 s.
            notebook = await asyncio.to_thread(importlib.import_module, "builtin_tools.kernels.notebook")
        except ImportError as error:
            raise SandboxError(f"No notebook can be written: {error}.", remedy=MISSING) from error
        made: bytes = await asyncio.to_thread(notebook.notebook_of, history)
        return made

    def _spec(self, workspace: FolderWorkspace, imports: tuple[str, ...]) -> KernelSpec:
        preload = preload_for(imports, always=self._settings.preload)
        return KernelSpec(preload, Mount(workspace.root), memory_bytes=self._settings.memory_bytes)

    def _begin(self, owner: KernelOwner, kernel: str, code: str) -> tuple[History, CellRecord]:
        history = self._histories.get((owner, kernel))
        if history is None or history.stopped:
            history = self._histories[owner, kernel] = History()
        self._histories.move_to_end((owner, kernel))
        while len(self._histories) > _MOST_HISTORIES:
            self._places.pop(self._histories.popitem(last=False)[0], None)
        return history, history.begin(code)

    def _history(self, owner: KernelOwner, kernel: str) -> History:
        with suppress(KeyError):
            return self._histories[owner, kernel]
        raise self._missing(owner, kernel)

    def _missing(self, owner: KernelOwner, kernel: str) -> NoKernel:
        names = ", ".join(self._pool.names(owner.key))
        return NoKernel(f"There is no kernel {kernel!r}; {f'running: {names}' if names else 'none is running'}.")
