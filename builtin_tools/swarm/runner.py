"""`SwarmRunner`: works on the child runs of one engine, a few at a time."""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from engine.contract.background import BackgroundHost, MessageReport
from engine.contract.child_runs import ChildLoop, ChildRun, WorkedElsewhere
from engine.contract.failure import ConfigError
from engine.stores.child_runs import ChildRunStore
from engine.stores.child_workspace import remove_forgotten, remove_if_empty
from engine.stores.locks import StoreBusy

POLL_S = 0.5  # until an adopted child run, or a cancellation in another process, is noticed
ELSEWHERE_S = 5.0  # until a run is tried again that another process works on
_TOLD = 4_000  # characters of an answer in a message to the parent
log = logging.getLogger("knackbox.swarm")


class SwarmRunner:
    """Starts queued child runs as slots become free, and records how they end.

    It begins to work when it is needed: when child runs are started or a run with children is continued in this engine,
    or when the engine serves. As a background service, it also adopts the child runs of engines that have ended.

    Each depth of the tree has slots of its own. Otherwise, runs that wait for their children could take all slots, and
    the children would never begin.
    """

    def __init__(
        self,
        children: ChildRunStore,
        loop: ChildLoop,
        workspaces: Path,
        *,
        slots: int,
        depth: int,
        poll_s: float = POLL_S,
    ) -> None:
        """Create a runner.

        Args:
            children: The child runs.
            loop: Works on them.
            workspaces: The folder with their workspaces.
            slots: How many child runs of the same depth run at the same time.
            depth: The greatest depth.
            poll_s: The interval between two looks at the database if nothing else happens.
        """
        self._children = children
        self._loop = loop
        self._workspaces = workspaces
        self._slots = slots
        self._depth = depth
        self._poll_s = poll_s
        self._adopt_all = False
        self._working: asyncio.Task[None] | None = None
        self._running: dict[asyncio.Task[None], ChildRun] = {}
        self._over: set[str] = set()  # ids of running ones that only have to be recorded, and need no slot
        self._elsewhere: dict[str, float] = {}  # when to try again, on the loop's clock
        self._awaited: Counter[str] = Counter()  # how many calls await each swarm
        self._wake = asyncio.Event()
        self._changed = asyncio.Condition()
        self.ends = 0  # how many child runs have ended in this engine

    async def run(self, host: BackgroundHost) -> None:  # noqa: ARG002 -- the signature of `BackgroundService`
        """Work on the child runs of all engines that have ended, until cancelled."""
        self._adopt_all = True
        self.begin()
        try:
            await asyncio.to_thread(
                remove_forgotten, self._workspaces, lambda child: self._children.one(child) is not None
            )
            await asyncio.Event().wait()
        finally:
            self._adopt_all = False

    def begin(self) -> None:
        """Look for queued child runs at once, and from now on whenever there may be some."""
        self._wake.set()
        if self._working is None or self._working.done():
            self._working = asyncio.create_task(self._work(), name="swarm")

    async def until_more_end(self, ends: int, timeout_s: float) -> None:
        """Wait until more than `ends` child runs have ended in this engine, or for so many seconds at most."""
        try:
            async with asyncio.timeout(timeout_s), self._changed:
                await self._changed.wait_for(lambda: self.ends > ends)
        except TimeoutError:
            return

    @asynccontextmanager
    async def awaited(self, swarm: str) -> AsyncIterator[None]:
        """Send no messages about a swarm, because a call awaits it. Afterwards, send what the call has not returned."""
        self._awaited[swarm] += 1
        try:
            yield
        finally:
            self._awaited[swarm] -= 1
        if not self._awaited[swarm]:
            del self._awaited[swarm]
            await self.tell_parents(swarm)

    async def tell_parents(self, swarm: str) -> None:
        """Send the answers of a swarm that its parent does not know. The parent reads them in its next turn."""
        await self._patiently(lambda: self._children.tell_parents(swarm, text_for_parent))

    async def aclose(self) -> None:
        """Interrupt all runs. They can be continued."""
        tasks = [*self._running, *([self._working] if self._working is not None else [])]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _work(self) -> None:
        while True:
            self._wake.clear()
            try:
                step = await asyncio.to_thread(
                    self._children.step, self._free(), adopt_all=self._adopt_all, busy=self._busy()
                )
            except (StoreBusy, ConfigError) as error:  # runs that are being worked on must not stop because of it
                log.warning("The child runs cannot be read; this is tried again: %s", error)
                await asyncio.sleep(self._poll_s)
                continue
            if step.idle and not (self._adopt_all or self._running or self._wake.is_set()):
                return
            for child in step.claimed:
                task = asyncio.create_task(self._run(child), name=f"child run {child.id}")
                self._running[task] = child
                task.add_done_callback(self._done)
            try:
                async with asyncio.timeout(self._poll_s):
                    await self._wake.wait()
            except TimeoutError:
                continue

    def _free(self) -> dict[int, int]:
        depths = [child.depth for child in self._running.values() if child.id not in self._over]
        return {depth: self._slots - depths.count(depth) for depth in range(1, self._depth + 1)}

    def _busy(self) -> list[str]:
        now = asyncio.get_running_loop().time()
        self._elsewhere = {child: until for child, until in self._elsewhere.items() if until > now}
        return list(self._elsewhere)

    def _done(self, task: "asyncio.Task[None]") -> None:
        self._running.pop(task, None)
        self._wake.set()

    async def _run(self, child: ChildRun) -> None:
        """Work on a child run, and record how it ended. If this is cancelled, the run can be continued."""
        try:
            report = await self._loop.work(child)
        except WorkedElsewhere:
            self._elsewhere[child.id] = asyncio.get_running_loop().time() + ELSEWHERE_S
            await asyncio.to_thread(self._children.put_back, child.id)
            return
        except ConfigError as error:
            report = MessageReport(answered=False, finish="error", answer=str(error))
        except Exception as error:
            log.exception("The child run %s failed in an unexpected way.", child.id)
            report = MessageReport(answered=False, finish="error", answer=f"{type(error).__name__}: {error}")
        self._over.add(child.id)
        self._wake.set()
        try:
            await asyncio.to_thread(remove_if_empty, self._workspaces, child.id)
            await self._record(child, report)
        finally:
            self._over.discard(child.id)
        if child.parent and not self._awaited[child.swarm]:
            await self.tell_parents(child.swarm)
        async with self._changed:
            self.ends += 1
            self._changed.notify_all()

    async def _record(self, child: ChildRun, report: MessageReport) -> None:
        finish, answer, tokens = report.finish, report.answer, report.tokens
        await self._patiently(lambda: self._children.end(child.id, finish, answer, tokens))

    async def _patiently(self, write: Callable[[], object]) -> None:
        """Write to the database in a thread, as soon as it can be written."""
        while True:
            try:
                await asyncio.to_thread(write)
            except StoreBusy as error:
                log.warning("The child runs cannot be written; this is tried again: %s", error)
                await asyncio.sleep(self._poll_s)
            else:
                return


def text_for_parent(child: ChildRun) -> str:
    """Return the text of the message that tells a run how one of its children has ended."""
    answer = child.answer
    if len(answer) > _TOLD:
        answer = f"{answer[:_TOLD]}… (shortened; `delegate_to_swarm` with action=results shows all)"
    return f"Task {child.position} of swarm {child.swarm} has ended ({child.finish}): {answer}"
