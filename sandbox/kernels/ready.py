"""Kernels that wait, started ahead of whoever will ask for one of their kind."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Coroutine
from dataclasses import dataclass

import zmq.asyncio

from sandbox.kernels.boxed import BoxedKernel, Keeper
from sandbox.kernels.spec import KernelSpec
from sandbox.kernels.talk import Talk


@dataclass(slots=True)
class Live:
    """A kernel with a client that it has answered."""

    kernel: BoxedKernel
    talk: Talk

    async def end(self) -> None:
        """All that needs no waiting comes first, so that a cancelled caller leaves nothing behind."""
        self.talk.close()
        self.kernel.forget()
        await self.kernel.kill()


class Ready:
    """For one event loop. Close it always."""

    def __init__(self, keeper: Keeper, warm: int, warm_specs: int) -> None:
        """warm: ready ones of each spec. warm_specs: how many specs, those asked for last."""
        self._keeper = keeper
        self._warm = warm
        self._warm_specs = warm_specs
        self._context = zmq.asyncio.Context()
        self._starting: dict[asyncio.Task[None], KernelSpec] = {}
        self._closed = False
        self.waiting: OrderedDict[KernelSpec, deque[Live]] = OrderedDict()

    async def warm_up(self, spec: KernelSpec) -> None:
        """Have kernels of this spec wait. Raises SandboxError."""
        self.refill(spec)
        while tasks := [task for task, wanted in self._starting.items() if wanted == spec]:
            await asyncio.gather(*tasks)

    def take(self, spec: KernelSpec) -> Live | None:
        """One that waits, if there is one."""
        waiting = self.waiting.get(spec)
        while waiting:
            live = waiting.popleft()
            if live.kernel.alive:
                return live
            live.talk.close()  # it died waiting
            live.kernel.forget()
        return None

    async def start(self, spec: KernelSpec) -> Live:
        """A new one. Raises SandboxError."""
        kernel = await BoxedKernel.start(self._keeper, spec)
        try:
            return Live(kernel, await Talk.with_ready(kernel, self._context))
        except BaseException:
            await kernel.kill()
            kernel.forget()
            raise

    def refill(self, spec: KernelSpec) -> None:
        """Start kernels of this spec ahead, and let go of those of a spec that was not asked for lately."""
        if self._closed or not self._warm:
            return
        waiting = self.waiting.setdefault(spec, deque())
        self.waiting.move_to_end(spec)
        while len(self.waiting) > self._warm_specs:
            _, lives = self.waiting.popitem(last=False)
            for live in lives:
                self._begin(live.end(), spec)
        missing = self._warm - len(waiting) - sum(1 for each in self._starting.values() if each == spec)
        for _ in range(missing):
            self._begin(self._start_ahead(spec), spec)

    async def aclose(self) -> None:
        """End those that wait. The clients of the others must be closed by now."""
        self._closed = True
        tasks = list(self._starting)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        waiting = [live for lives in self.waiting.values() for live in lives]
        self.waiting.clear()
        await asyncio.gather(*(live.end() for live in waiting))
        self._context.destroy(linger=0)

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
        live = await self.start(spec)
        try:
            await live.talk.rehearse()
        except BaseException:
            await live.end()
            raise
        waiting = self.waiting.get(spec)
        if waiting is None or self._closed:
            await live.end()
        else:
            waiting.append(live)
