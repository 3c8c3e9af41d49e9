"""`WatchedCalls`: records what calls change in their workspaces, so that it can be undone (CODE-9)."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, TypeVar

from engine.contract.context import CallContext
from engine.contract.guard import GuardRequest
from engine.contract.spec import Origin, ToolSpec
from engine.contract.turn import Turn
from engine.stores.undo.change_sets import ChangingCall
from engine.stores.undo.recorder import ChangeRecorder, WatchedCall
from engine.stores.undo.touched_paths import TouchedPaths, TouchingWorkspace
from engine.stores.workspace import FolderWorkspace

_log = logging.getLogger("knackbox.undo")

T = TypeVar("T")

# Calls in one workspace wait for each other's scans. Threads of their own keep them from blocking other work.
_THREADS = 2
NOT_RECORDED = "not_undoable"  # key of `Audit.data`: why the changes of the call cannot be undone
# Effects of tools that run programs in the workspace, which may change any of its files.
_PROGRAMS = frozenset({"code_execution", "workspace_write"})
# Effects of tools that write through the workspace object. `delegate_to_swarm` copies the files of child runs.
_WRITES = frozenset({"filesystem_write", "filesystem_delete", "swarm_start"})


def runs_programs(spec: ToolSpec) -> bool:
    """Return whether programs may change the workspace during a call of the tool."""
    return not _PROGRAMS.isdisjoint(spec.side_effects) or (spec.annotations.destructive and not spec.side_effects)


def may_change_files(spec: ToolSpec) -> bool:
    """Return whether a call of the tool may change files of the workspace.

    The calls in a composed skill are watched one by one. A remote tool changes no file, except that an MCP server's
    pictures and files are stored in the workspace.
    """
    if spec.annotations.read_only or spec.origin is Origin.COMPOSED:
        return False
    return runs_programs(spec) or not _WRITES.isdisjoint(spec.side_effects) or "module" in spec.meta


class WatchedCalls:
    """Watches the workspaces of calls. If that fails, the call runs nevertheless, and its audit has the reason.

    Use it in one event loop. The store is opened by the first call.
    """

    def __init__(self, open_recorder: Callable[[], ChangeRecorder]) -> None:
        """Create the object without opening the store.

        Args:
            open_recorder: Opens the recorder. It is called at most once, in a thread.
        """
        self._open_recorder = open_recorder
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="knackbox-undo")
        self._opening: asyncio.Future[ChangeRecorder] | None = None
        self._ending: set[asyncio.Future[None]] = set()

    @asynccontextmanager
    async def watching(self, ctx: CallContext, request: GuardRequest) -> AsyncIterator[CallContext]:
        """Watch the workspace while a tool runs, and yield the context to run the tool with."""
        workspace = ctx.workspace
        if ctx.turn.trial or not isinstance(workspace, FolderWorkspace):
            yield ctx
            return
        touched = TouchedPaths()
        call = _changing_call(request, ctx.turn)
        beginning = asyncio.ensure_future(self._begin(workspace, call, touched))
        try:
            begun = await asyncio.shield(beginning)
        except asyncio.CancelledError:
            self._end_later(beginning)
            raise
        except Exception as error:  # noqa: BLE001 -- a full disk or a damaged store must not stop the tools
            _log.warning("The changes of %s (call %s) cannot be undone: %s", call.tool, call.call_id, error)
            ctx.audit[NOT_RECORDED] = str(error)
            yield ctx
            return
        try:
            yield replace(ctx, workspace=TouchingWorkspace(workspace, touched))
        finally:
            await asyncio.shield(self._end_later(beginning, begun))

    async def aclose(self) -> None:
        """Wait until all changes are recorded, and close the store."""
        while self._ending:
            await asyncio.wait(self._ending)
        if self._opening is not None:
            await asyncio.wait({self._opening})
            if self._opening.exception() is None:
                await self._in_thread(self._opening.result().close)
        self._threads.shutdown(wait=False)

    async def _recorder(self) -> ChangeRecorder:
        if self._opening is None or (self._opening.done() and self._opening.exception() is not None):
            self._opening = self._in_thread(self._open_recorder)
        return await asyncio.shield(self._opening)

    async def _begin(self, workspace: FolderWorkspace, call: ChangingCall, touched: TouchedPaths) -> WatchedCall:
        recorder = await self._recorder()
        return await self._in_thread(recorder.begin, workspace.root, call, touched)

    def _in_thread(self, work: Callable[..., T], *arguments: Any) -> "asyncio.Future[T]":
        return asyncio.get_running_loop().run_in_executor(self._threads, work, *arguments)

    def _end_later(
        self, beginning: "asyncio.Future[WatchedCall]", begun: WatchedCall | None = None
    ) -> "asyncio.Future[None]":
        """Record the end of a call, even if its caller does not wait for that."""
        ending = asyncio.ensure_future(self._end(beginning, begun))
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)
        return ending

    async def _end(self, beginning: "asyncio.Future[WatchedCall]", begun: WatchedCall | None) -> None:
        try:
            recorder = await self._recorder()
            await self._in_thread(recorder.end, begun or await beginning)
        except Exception as error:  # noqa: BLE001 -- as when it begins
            _log.warning("What a call has changed could not be recorded for undo: %s", error)


def _changing_call(request: GuardRequest, turn: Turn) -> ChangingCall:
    programs = runs_programs(request.spec)
    return ChangingCall(request.call_id, request.spec.name, turn.run, turn.user, turn.agent, request.ts, programs)
