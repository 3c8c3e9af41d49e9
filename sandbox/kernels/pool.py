"""Kernels by agent and name, and ready ones kept waiting for the next name.

A kernel is taken from those that wait, or started; it is the agent's until it is stopped, dies, or has been idle for
too long. That its state is gone is said by exactly one result: the first one anybody gets after it.
"""

import asyncio
import contextlib
from collections import OrderedDict, deque
from collections.abc import Coroutine
from dataclasses import dataclass, field, replace
from typing import Self

import zmq.asyncio

from sandbox.contract import Busy, SandboxError
from sandbox.kernels.boxed import BoxedKernel, Keeper
from sandbox.kernels.spec import Cell, CellLimits, KernelSpec
from sandbox.kernels.talk import Talk

_TELL_FOR_S = 86_400.0  # an agent that did not come back within a day is not told what it had lost
_REFILL_AFTER_S = 0.05
_FEWEST_LOOKS = 4  # at idle kernels, in the time after which they are ended


@dataclass(frozen=True, slots=True)
class PoolConfig:
    """most: kernels in use at once. per_agent: of one agent. warm: ready ones kept for each spec that is in use.

    idle_s: after so long without a cell a kernel is ended. retry_after_s: what is said when all are in use.
    """

    most: int = 16
    per_agent: int = 4
    warm: int = 1
    warm_specs: int = 2
    idle_s: float = 1800.0
    retry_after_s: float = 30.0


@dataclass(slots=True)
class _Live:
    """A kernel with a client that it has answered."""

    kernel: BoxedKernel
    talk: Talk

    async def end(self) -> None:
        """All that needs no waiting comes first, so that a cancelled caller leaves nothing behind."""
        self.talk.close()
        self.kernel.forget()
        await self.kernel.kill()


@dataclass(slots=True)
class _Session:
    """What an agent calls a kernel. lost: why its state is gone, until somebody has been told."""

    spec: KernelSpec
    live: _Live | None = None
    lost: str = ""
    used: float = 0.0
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    users: int = 0
    starting: bool = False


class KernelPool:
    """For one event loop. Close it always."""

    def __init__(self, keeper: Keeper, config: PoolConfig | None = None) -> None:
        self._keeper = keeper
        self._config = config or PoolConfig()
        self._context = zmq.asyncio.Context()
        self._sessions: dict[tuple[str, str], _Session] = {}
        self._ready: OrderedDict[KernelSpec, deque[_Live]] = OrderedDict()
        self._starting: dict[asyncio.Task[None], KernelSpec] = {}
        self._culler: asyncio.Task[None] | None = None
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def warm_up(self, spec: KernelSpec) -> None:
        """Have kernels of this spec wait ready. Raises SandboxError."""
        self._refill(spec)
        while tasks := [task for task, wanted in self._starting.items() if wanted == spec]:
            await asyncio.gather(*tasks)

    async def run(
        self,
        agent: str,
        code: str,
        *,
        name: str = "default",
        spec: KernelSpec | None = None,
        limits: CellLimits | None = None,
    ) -> Cell:
        """Run a cell in the agent's kernel of this name, after the cells it was given before.

        spec: of the kernel, should it have to be started; another one than it has is refused.
        Raises Busy when there may be no more kernels, and SandboxError for what the code is not to blame for.
        """
        session = self._session(agent, name, spec or KernelSpec())
        session.users += 1
        try:
            async with session.turn:
                live = await self._live(agent, session)
                cell = await live.talk.run(code, limits or CellLimits())
                if cell.state_lost:
                    session.lost = _both(session.lost, cell.state_lost)
                    await self._drop(session)
                # Nothing is awaited from here on: who is told is really told.
                lost, session.lost = session.lost, ""
        finally:
            session.users -= 1
            session.used = asyncio.get_running_loop().time()
            self._tidy(agent, name, session)
        return _told(cell, lost)

    def names(self, agent: str) -> list[str]:
        """Of the agent's kernels that hold state."""
        return sorted(name for (owner, name), session in self._sessions.items() if owner == agent and session.live)

    def interrupt(self, agent: str, name: str = "default") -> bool:
        """Interrupt what runs in it, as Ctrl-C would; False when there is no such kernel."""
        session = self._sessions.get((agent, name))
        if session is None or session.live is None:
            return False
        session.live.kernel.interrupt()
        return True

    async def stop(self, agent: str, name: str = "default") -> bool:
        """End it, running cell and all; False when there is no such kernel. Who asked knows what is lost."""
        session = self._sessions.get((agent, name))
        if session is None or session.live is None:
            return False
        if session.users:  # their cells say what was lost
            await session.live.kernel.kill()
        else:
            del self._sessions[agent, name]
            await self._drop(session)
        return True

    async def cull(self) -> int:
        """End kernels that have been idle for too long; how many."""
        now = asyncio.get_running_loop().time()
        oldest = now - self._config.idle_s
        for key, session in list(self._sessions.items()):
            if not session.live and not session.users and session.used <= now - _TELL_FOR_S:
                del self._sessions[key]
        idle = [s for s in self._sessions.values() if s.live and not s.users and s.used <= oldest]
        for session in idle:
            session.lost = _both(session.lost, f"it was ended after {self._config.idle_s:g} s without a cell")
        await asyncio.gather(*(self._drop(session) for session in idle))
        return len(idle)

    async def aclose(self) -> None:
        """End every kernel."""
        self._closed = True
        tasks = [*self._starting, *([self._culler] if self._culler else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        waiting = [live for lives in self._ready.values() for live in lives]
        self._ready.clear()
        sessions, self._sessions = list(self._sessions.values()), {}
        await asyncio.gather(*(live.end() for live in waiting), *(self._drop(session) for session in sessions))
        self._context.destroy(linger=0)

    def _session(self, agent: str, name: str, spec: KernelSpec) -> _Session:
        if self._closed:
            raise SandboxError("The kernels are closed.")
        session = self._sessions.get((agent, name))
        if session is not None:
            if session.spec != spec:
                raise SandboxError(
                    f"The kernel {name!r} was started otherwise.", remedy="Stop it, or use another name."
                )
            return session
        session = self._sessions[agent, name] = _Session(spec)
        return session

    async def _live(self, agent: str, session: _Session) -> _Live:
        """Its kernel: the one it has, else one that waits, else a new one. Raises Busy, SandboxError."""
        if session.live is not None and not session.live.kernel.alive:
            session.lost = _both(session.lost, f"the kernel ended ({session.live.kernel.why})")
            await self._drop(session)
        if session.live is not None:
            return session.live
        self._must_have_room(agent)
        session.starting = True
        try:
            session.live = self._take(session.spec) or await self._start(session.spec)
        finally:
            session.starting = False
        if self._culler is None:
            self._culler = asyncio.ensure_future(self._cull_on())
        # Not at once: a short cell is over before a start takes the processor from it.
        asyncio.get_running_loop().call_later(_REFILL_AFTER_S, self._refill, session.spec)
        return session.live

    def _must_have_room(self, agent: str) -> None:
        used = [key for key, each in self._sessions.items() if each.live or each.starting]
        own = sorted(name for owner, name in used if owner == agent)
        if len(own) >= self._config.per_agent:
            raise SandboxError(
                f"There are {len(own)} kernels already: {', '.join(own)}.", remedy="Use or stop one of them."
            )
        if len(used) >= self._config.most:
            raise Busy("All kernels are in use.", retry_after=self._config.retry_after_s)

    def _take(self, spec: KernelSpec) -> _Live | None:
        waiting = self._ready.get(spec)
        while waiting:
            live = waiting.popleft()
            if live.kernel.alive:
                return live
            live.talk.close()  # it died waiting
            live.kernel.forget()
        return None

    async def _start(self, spec: KernelSpec) -> _Live:
        kernel = await BoxedKernel.start(self._keeper, spec)
        try:
            return _Live(kernel, await Talk.with_ready(kernel, self._context))
        except BaseException:
            await kernel.kill()
            kernel.forget()
            raise

    def _refill(self, spec: KernelSpec) -> None:
        """Start kernels of this spec ahead, and let go of those of a spec that was not asked for lately."""
        if self._closed or not self._config.warm:
            return
        waiting = self._ready.setdefault(spec, deque())
        self._ready.move_to_end(spec)
        while len(self._ready) > self._config.warm_specs:
            _, lives = self._ready.popitem(last=False)
            for live in lives:
                self._begin(live.end(), spec)
        missing = self._config.warm - len(waiting) - sum(1 for each in self._starting.values() if each == spec)
        for _ in range(missing):
            self._begin(self._start_ahead(spec), spec)

    def _begin(self, work: Coroutine[None, None, None], spec: KernelSpec) -> None:
        task = asyncio.ensure_future(work)
        self._starting[task] = spec
        task.add_done_callback(self._begun)

    def _begun(self, task: asyncio.Task[None]) -> None:
        """What kept it from starting is met again, and raised, by whoever needs a kernel."""
        self._starting.pop(task, None)
        if not task.cancelled():
            task.exception()

    async def _start_ahead(self, spec: KernelSpec) -> None:
        live = await self._start(spec)
        try:
            await live.talk.rehearse()
        except BaseException:
            await live.end()
            raise
        waiting = self._ready.get(spec)
        if waiting is None or self._closed:
            await live.end()
        else:
            waiting.append(live)

    async def _drop(self, session: _Session) -> None:
        live, session.live = session.live, None
        if live is not None:
            await live.end()

    async def _cull_on(self) -> None:
        while True:
            await asyncio.sleep(self._config.idle_s / _FEWEST_LOOKS)
            with contextlib.suppress(SandboxError):
                await self.cull()

    def _tidy(self, agent: str, name: str, session: _Session) -> None:
        """Forget a name with nothing behind it and nothing to tell."""
        if not session.live and not session.lost and not session.users and self._sessions.get((agent, name)) is session:
            del self._sessions[agent, name]


def _both(before: str, now: str) -> str:
    return f"{before}; then {now}" if before else now


def _told(cell: Cell, lost: str) -> Cell:
    text = f"State was lost: {lost}. Variables and imports of earlier cells are gone." if lost else ""
    return replace(cell, state_lost=text)
