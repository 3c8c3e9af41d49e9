"""`KernelPool`: kernels by agent and name, and ready ones for the next name.

A kernel is taken from the ready ones, or started. It belongs to the agent until it is stopped, dies, or has been idle
for too long. The loss of its state is reported exactly once, by the next result anybody gets.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Self

from sandbox.contract import Busy, SandboxError
from sandbox.kernels.boxed import ServerSandbox
from sandbox.kernels.memory import memory_of
from sandbox.kernels.outputs import OnStream
from sandbox.kernels.ready import Live, Ready
from sandbox.kernels.session import Session, both, reason, with_loss
from sandbox.kernels.spec import Cell, CellLimits, KernelSpec, KernelState, Occupied, TooManyKernels

_TELL_FOR_S = 86_400.0  # an agent that did not return within a day is not told what it has lost
_REFILL_AFTER_S = 0.05
_FEWEST_LOOKS = 4  # checks for idle kernels, per time after which they are ended


@dataclass(frozen=True, slots=True)
class PoolConfig:
    """The config of a pool.

    Attributes:
        most: Kernels in use at once.
        per_agent: Kernels of one agent.
        warm: Ready kernels for each spec in use.
        idle_s: A kernel is ended after this many seconds without a cell.
        retry_after_s: The time to wait that is reported when all kernels are in use.
    """

    most: int = 16
    per_agent: int = 4
    warm: int = 1
    warm_specs: int = 2
    idle_s: float = 1800.0
    retry_after_s: float = 30.0


class KernelPool:
    """The kernels of all agents. For one event loop. Always close it."""

    def __init__(self, sandbox: ServerSandbox, config: PoolConfig | None = None) -> None:
        self._config = config or PoolConfig()
        self._ready = Ready(sandbox, self._config.warm, self._config.warm_specs)
        self._sessions: dict[tuple[str, str], Session] = {}
        self._owed: dict[tuple[str, str], str] = {}
        self._culler: asyncio.Task[None] | None = None
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def warm_up(self, spec: KernelSpec) -> None:
        """Start ready kernels of this spec. Raises SandboxError."""
        await self._ready.warm_up(spec)

    async def run(
        self,
        agent: str,
        code: str,
        *,
        name: str = "default",
        spec: KernelSpec | None = None,
        limits: CellLimits | None = None,
    ) -> Cell:
        """Run a cell in the agent's kernel of this name, after the cells it got before.

        `spec` is that of the kernel, if it has to be started; a running kernel with another spec is refused, None
        accepts any. Raises Busy when there may be no more kernels, and SandboxError for failures the code is not to
        blame for.
        """
        async with self.running(agent, code, name=name, spec=spec, limits=limits) as cell:
            return cell

    @asynccontextmanager
    async def running(
        self,
        agent: str,
        code: str,
        *,
        name: str = "default",
        spec: KernelSpec | None = None,
        limits: CellLimits | None = None,
        on_stream: OnStream | None = None,
    ) -> AsyncIterator[Cell]:
        """Like `run`, for a caller that has more to do before it delivers the result.

        If the block ends with an exception, the result was not delivered, so the state loss in its cell is reported
        again by the next one. `on_stream` is called with what is printed, as it arrives.
        """
        session = self._session(agent, name, spec)
        session.users += 1
        lost = ""
        try:
            async with session.turn:
                cell = await self._cell(agent, session, code, limits or CellLimits(), on_stream)
                # There is no await between this and the caller's block, nor after it, so delivery is atomic.
                lost, session.lost = session.lost, ""
            yield with_loss(cell, lost)
            lost = ""
        finally:
            session.lost = both(lost, session.lost)
            self._leave(agent, name, session)

    async def ask(self, agent: str, name: str, expression: str, wall_s: float) -> Any:
        """Return the JSON of an expression of ours (`Talk.ask`), evaluated in an idle kernel.

        It is not a cell: no loss is reported.

        Raises Occupied while cells run or wait, LookupError when there is no such kernel, and SandboxError.
        """
        session = self._sessions.get((agent, name))
        if session is None or session.live is None or not session.live.kernel.alive:
            raise LookupError(name)
        if not session.free or session.turn.locked():
            raise Occupied(f"A cell is running in the kernel {name!r}.")
        used, session.users = session.used, session.users + 1
        try:
            async with session.turn:
                with self._settled_if_cancelled(session, session.live, wall_s):
                    return await session.live.talk.ask(expression, wall_s)
        finally:
            self._leave(agent, name, session)
            session.used = used  # an inspected kernel still counts as idle

    def owe(self, agent: str, name: str, state_lost: str) -> None:
        """Report a cell's `state_lost` again with the next result, because it was not delivered."""
        lost = reason(state_lost)
        session = self._sessions.get((agent, name))
        if session is not None:
            session.lost = both(lost, session.lost)
        elif lost:
            self._owed[agent, name] = both(self._owed.get((agent, name), ""), lost)

    def knows(self, agent: str, name: str) -> bool:
        """Whether there is such a kernel, or an unreported loss of one."""
        return (agent, name) in self._sessions

    def names(self, agent: str) -> list[str]:
        """Return the names of the agent's kernels that hold state."""
        return sorted(name for (owner, name), session in self._sessions.items() if owner == agent and session.live)

    def states(self) -> list[KernelState]:
        """Return all kernels that hold state."""
        now = asyncio.get_running_loop().time()
        return [
            KernelState(agent, name, not each.free, now - each.used, memory_of(each.live.kernel.connection["ip"]))
            for (agent, name), each in sorted(self._sessions.items())
            if each.live is not None and each.live.kernel.alive
        ]

    def interrupt(self, agent: str, name: str = "default") -> bool:
        """Interrupt what runs in it, as Ctrl-C would; return False when there is no such kernel."""
        session = self._sessions.get((agent, name))
        if session is None or session.live is None:
            return False
        session.live.kernel.interrupt()
        return True

    async def stop(self, agent: str, name: str = "default", *, tell: str = "") -> bool:
        """End it, including a running cell; return False when there is no such kernel.

        `tell` is the reason for the agent's next result, when somebody other than the agent has stopped it.
        """
        session = self._sessions.get((agent, name))
        if session is None or session.live is None:
            return False
        if tell:
            session.lose(tell)
        if session.users:  # the results of their cells report the loss
            await session.live.kernel.kill()
            return True
        if not tell:
            del self._sessions[agent, name]
        await session.drop()
        return True

    async def cull(self) -> int:
        """End kernels that have been idle for too long; return how many."""
        now = asyncio.get_running_loop().time()
        oldest = now - self._config.idle_s
        for key, session in list(self._sessions.items()):
            if not session.live and session.free and session.used <= now - _TELL_FOR_S:
                del self._sessions[key]
        idle = [s for s in self._sessions.values() if s.live and s.free and s.used <= oldest]
        for session in idle:
            session.lose(f"it was ended after {self._config.idle_s:g} s without a cell")
        await asyncio.gather(*(session.drop() for session in idle))
        return len(idle)

    async def aclose(self) -> None:
        """End every kernel."""
        self._closed = True
        sessions, self._sessions = list(self._sessions.values()), {}
        settling = [session.settling for session in sessions if session.settling]
        tasks = [*settling, *([self._culler] if self._culler else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*(session.drop() for session in sessions))
        await self._ready.aclose()

    def _session(self, agent: str, name: str, spec: KernelSpec | None) -> Session:
        if self._closed:
            raise SandboxError("The kernels are closed.")
        session = self._sessions.get((agent, name))
        if session is not None:
            if spec is not None and session.spec != spec:
                raise SandboxError(f"The kernel {name!r} has a different spec.", remedy="Stop it, or use another name.")
            return session
        session = self._sessions[agent, name] = Session(spec or KernelSpec(), self._owed.pop((agent, name), ""))
        return session

    async def _cell(
        self, agent: str, session: Session, code: str, limits: CellLimits, on_stream: OnStream | None
    ) -> Cell:
        if session.settling is not None:
            await asyncio.wait((session.settling,))  # its own failure is raised by the next cell
        live = await self._live(agent, session)
        session.used = asyncio.get_running_loop().time()
        with self._settled_if_cancelled(session, live, limits.grace_s):
            cell = await live.talk.run(code, limits, on_stream)
        if cell.state_lost:
            session.lose(cell.state_lost)
            await session.drop()
        return cell

    async def _live(self, agent: str, session: Session) -> Live:
        """Return the session's kernel: its own, a ready one, or a new one. Raises Busy, SandboxError."""
        if session.live is not None and not session.live.kernel.alive:
            session.lose(f"the kernel ended ({session.live.kernel.why})")
            await session.drop()
        if session.live is not None:
            return session.live
        self._must_have_room(agent)
        session.starting = True
        try:
            session.live = self._ready.take(session.spec) or await self._ready.start(session.spec)
        finally:
            session.starting = False
        if self._culler is None:
            self._culler = asyncio.ensure_future(self._cull_on())
        # Not at once: a short cell is over before a start competes for the CPU.
        asyncio.get_running_loop().call_later(_REFILL_AFTER_S, self._ready.refill, session.spec)
        return session.live

    def _must_have_room(self, agent: str) -> None:
        used = [key for key, each in self._sessions.items() if each.live or each.starting]
        own = sorted(name for owner, name in used if owner == agent)
        if len(own) >= self._config.per_agent:
            raise TooManyKernels(
                f"There are {len(own)} kernels already: {', '.join(own)}.", remedy="Use or stop one of them."
            )
        if len(used) >= self._config.most:
            raise Busy("All kernels are in use.", retry_after=self._config.retry_after_s)

    @contextlib.contextmanager
    def _settled_if_cancelled(self, session: Session, live: Live, grace_s: float) -> Iterator[None]:
        try:
            yield
        except BaseException:
            session.settling = asyncio.ensure_future(self._settle(session, live, grace_s))
            raise

    async def _settle(self, session: Session, live: Live, grace_s: float) -> None:
        """Make sure that a cell whose caller was cancelled ends, together with its kernel if necessary."""
        if await live.talk.settled(grace_s) or not live.kernel.alive or session.live is not live:
            return
        session.lose("a cancelled cell did not stop when it was interrupted")
        await session.drop()

    async def _cull_on(self) -> None:
        while True:
            await asyncio.sleep(self._config.idle_s / _FEWEST_LOOKS)
            with contextlib.suppress(SandboxError):
                await self.cull()

    def _leave(self, agent: str, name: str, session: Session) -> None:
        """Forget a name that has no kernel and no unreported loss."""
        session.users -= 1
        session.used = asyncio.get_running_loop().time()
        if session.empty and self._sessions.get((agent, name)) is session:
            del self._sessions[agent, name]
