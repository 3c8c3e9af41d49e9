"""`Ready`: kernels started ahead of the next request of their kind."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Coroutine
from dataclasses import dataclass

import zmq.asyncio

from sandbox.kernels.boxed import BoxedKernel, ServerSandbox
from sandbox.kernels.spec import KernelSpec
from sandbox.kernels.talk import Talk


@dataclass(slots=True)
class Live:
    """A kernel and a client to which it has replied."""

    kernel: BoxedKernel
    talk: Talk

    async def end(self) -> None:
        """End it. Everything that does not wait comes first, so that a cancelled caller leaves nothing behind."""
        self.talk.close()
        self.kernel.forget()
        await self.kernel.kill()


class Ready:
    """Keeps kernels ready. For one event loop. Always close it."""

    def __init__(self, sandbox: ServerSandbox, warm: int, warm_specs: int) -> None:
        """`warm` is the number of ready kernels per spec, `warm_specs` the number of most recently used specs."""
        self._sandbox = sandbox
        self._warm = warm
        self._warm_specs = warm_specs
        self._context = zmq.asyncio.Context()
        self._starting: dict[asyncio.Task[None], KernelSpec] = {}
        self._closed = False
        self.waiting: OrderedDict[KernelSpec, deque[Live]] = OrderedDict()

    async def warm_up(self, spec: KernelSpec) -> None:
        """Start ready kernels of this spec. Raises SandboxError."""
        self.refill(spec)
        while tasks := [task for task, wanted in self._starting.items() if wanted == spec]:
            await asyncio.gather(*tasks)

    def take(self, spec: KernelSpec) -> Live | None:
        """Return a ready kernel, or None."""
        waiting = self.waiting.get(spec)
        while waiting:
            live = waiting.popleft()
            if live.kernel.alive:
                return live
            live.talk.close()  # it died while waiting
            live.kernel.forget()
        return None

    async def start(self, spec: KernelSpec) -> Live:
        """Start a new kernel. Raises SandboxError."""
        kernel = await BoxedKernel.start(self._sandbox, spec)
        try:
            return Live(kernel, await Talk.with_ready(kernel, self._context))
        except BaseException:
            await kernel.kill()
            kernel.forget()
            raise

    def refill(self, spec: KernelSpec) -> None:
        """Start kernels of this spec ahead, and end those of specs that were not used lately."""
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
        """End the ready kernels. The clients of the others must be closed by now."""
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
        """Forget a finished start. A failure occurs again, and is raised, when somebody needs a kernel."""
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
