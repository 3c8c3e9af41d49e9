"""`SwarmService`: starts, awaits, reads and cancels the child runs of one engine."""

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from builtin_tools.swarm.requests import DelegatedTask, children_of, key_of, place_of, swarm_id
from builtin_tools.swarm.runner import SwarmRunner
from engine.contract.child_runs import ChildLoop, ChildRun, RunLimits
from engine.contract.failure import refusal
from engine.contract.turn import RunShare, Turn
from engine.dispatch.refusals import wrong_arguments
from engine.dispatch.workspace_folder import workspace_failures
from engine.stores.child_runs import ChildRunStore, OtherTasks, TooManyChildren
from engine.stores.child_workspace import child_workspace, copy_files
from engine.stores.workspace import FolderWorkspace

LOOK_S = 1.0  # between two looks at child runs that other processes work on
COLLECTED = "swarm"  # the folder in the parent's workspace for files of child runs

Noted = Callable[[int, int], None]  # called with how many of how many child runs have ended


class SwarmService:
    """The child runs of one engine, for the tool `delegate_to_swarm`."""

    def __init__(
        self,
        children: ChildRunStore,
        loop: ChildLoop,
        runner: SwarmRunner,
        workspaces: Path,
        *,
        depth: int,
        most: int,
    ) -> None:
        """Create the service.

        Args:
            children: The child runs.
            loop: Works on them.
            runner: Starts them.
            workspaces: The folder with their workspaces.
            depth: The greatest depth of a child run.
            most: How many child runs of one tree may not have ended.
        """
        self._children = children
        self._loop = loop
        self._runner = runner
        self._workspaces = workspaces
        self._depth = depth
        self._most = most
        # All calls of one response have the same share. What the earlier ones gave away is not left for the later ones.
        self._given: tuple[RunShare, int] | None = None
        self._adding = asyncio.Lock()

    async def start(
        self, turn: Turn, tasks: Sequence[DelegatedTask], *, key: str, copied: FolderWorkspace | None = None
    ) -> tuple[str, bool]:
        """Start a child run for each task, unless the same call has done so before.

        Args:
            turn: The turn that delegates.
            tasks: The tasks.
            key: Identifies the call within its run, or outside of runs for its agent; "" to derive it from the tasks.
            copied: The workspace to copy for each child run; None for empty ones.

        Returns:
            The id of the swarm, and whether it is new.

        Raises:
            ToolFailure: Too many child runs are running, too little budget is left, the tree is too deep, an agent does
                not exist, or the key belongs to other tasks. Nothing was started.
        """
        swarm = swarm_id(turn, key or key_of(tasks))
        async with self._adding:
            known = await asyncio.to_thread(self._children.swarm, swarm)
            if known and [child.message for child in known] == [task.text for task in tasks]:
                self._runner.begin()
                return swarm, False
            place = await asyncio.to_thread(place_of, swarm, turn, self._children, self._depth)
            children = await children_of(turn, tasks, place, self._left(turn), self._loop)
            if copied is not None:
                with workspace_failures():
                    await asyncio.to_thread(self._copy, copied, children)
            new = await self._add(children, key)
            if turn.share is not None:
                given = self._given[1] if self._given is not None and self._given[0] is turn.share else 0
                self._given = (turn.share, given + sum(child.limits.tokens for child in children))
        self._runner.begin()
        return swarm, new

    async def wait(self, swarm: str, count: int, timeout_s: float, noted: Noted) -> None:
        """Wait until so many child runs of a swarm have ended, or for so many seconds.

        Args:
            swarm: The id of the swarm.
            count: How many child runs; 0 to return at once.
            timeout_s: The maximum time.
            noted: Called whenever some have ended.
        """
        self._runner.begin()
        until = time.monotonic() + timeout_s
        before = -1
        while count:
            ends = self._runner.ends
            children = await asyncio.to_thread(self._children.swarm, swarm)
            ended = sum(child.ended for child in children)
            if ended != before:
                noted(ended, len(children))
                before = ended
            left = until - time.monotonic()
            if ended >= min(count, len(children)) or left <= 0:
                return
            await self._runner.until_more_end(ends, min(left, LOOK_S))

    async def swarm(self, turn: Turn, swarm: str) -> list[ChildRun]:
        """Return the child runs of a swarm that this user and agent started.

        Raises:
            ToolFailure: There is no such swarm (DIAGNOSTIC).
        """
        children = await asyncio.to_thread(self._children.swarm, swarm)
        if not children or (children[0].user, children[0].agent) != (turn.user[:200], turn.agent[:200]):
            raise refusal(
                f"There is no swarm {swarm[:50]!r}. The action `status` without an id lists your swarms.", "not_found"
            )
        return children

    async def recent(self, turn: Turn) -> list[list[ChildRun]]:
        """Return the latest swarms of this user and agent, newest first."""
        ids = await asyncio.to_thread(self._children.recent, turn.user[:200], turn.agent[:200])
        return [await asyncio.to_thread(self._children.swarm, each) for each in ids]

    async def cancel(self, children: Sequence[ChildRun]) -> None:
        """Cancel child runs, with everything that they have started."""
        await asyncio.to_thread(self._children.cancel, [child.id for child in children])
        self._runner.begin()

    def awaited(self, swarm: str) -> AbstractAsyncContextManager[None]:
        """Return a context in which a call awaits a swarm, and returns the answers itself."""
        return self._runner.awaited(swarm)

    async def settle(self, children: Sequence[ChildRun], turn: Turn) -> list[ChildRun]:
        """Note that this turn gets the answers, and return the child runs that have ended and were not settled yet."""
        ended = [child.id for child in children if child.ended]
        return await asyncio.to_thread(self._children.settle, ended, turn.run)

    async def last_words(self, child: ChildRun) -> str:
        """Return the latest text of the model in a child run that has not ended."""
        return await self._loop.last_words(child)

    async def collect(self, children: Sequence[ChildRun], target: FolderWorkspace) -> list[str]:
        """Copy the files of child runs to `swarm/<id>` of a workspace, and return their paths there.

        Raises:
            ToolFailure: The files cannot be copied.
        """
        with workspace_failures():
            return await asyncio.to_thread(self._collect, children, target)

    def _left(self, turn: Turn) -> RunLimits:
        """Return what is left of the budget for child runs."""
        share, usual = turn.share, self._loop.limits()
        if share is None:
            return usual
        given = self._given[1] if self._given is not None and self._given[0] is share else 0
        return RunLimits(max(share.turns, 1), share.tool_calls, max(share.tokens - given, 0), share.wall_s)

    async def _add(self, children: Sequence[ChildRun], key: str) -> bool:
        try:
            return await asyncio.to_thread(self._children.add, children, self._most)
        except TooManyChildren as error:
            text = f"{error} ([packs.swarm] most). Await or cancel some first."
            raise refusal(text, "too_many_children") from error
        except OtherTasks as error:
            raise wrong_arguments(f"The key {key!r} belongs to other tasks. Use another key.") from error

    def _copy(self, source: FolderWorkspace, children: Sequence[ChildRun]) -> None:
        for child in children:
            target = FolderWorkspace(child_workspace(self._workspaces, child.turn.workspace))
            copy_files(source, target, omit=COLLECTED)

    def _collect(self, children: Sequence[ChildRun], target: FolderWorkspace) -> list[str]:
        paths: list[str] = []
        for child in children:
            folder = child_workspace(self._workspaces, child.turn.workspace)
            if folder.is_dir():
                paths += copy_files(FolderWorkspace(folder), target, f"{COLLECTED}/{child.id}", omit=COLLECTED)
        return paths
