"""`Ready`: kernels that are started before they are requested."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Coroutine

import zmq.asyncio

from sandbox.kernels.boxed import BoxedKernel, ServerSandbox
from sandbox.kernels.kernel_client import KernelClient
from sandbox.kernels.spec import KernelSpec


class Ready:
    """Keeps kernels ready. Use it in one event loop. Always close it."""

    def __init__(self, sandbox: ServerSandbox, warm: int, warm_specs: int) -> None:
        """Create the object; nothing is started yet.

        Args:
            sandbox: The sandbox of the kernels.
            warm: The number of ready kernels per spec.
            warm_specs: The number of specs, the most recently used ones, for which kernels are kept ready.
        """
        self._sandbox = sandbox
        self._warm = warm
        self._warm_specs = warm_specs
        self._context = zmq.asyncio.Context()
        self._starting: dict[asyncio.Task[None], KernelSpec] = {}
        self._closed = False
        self.waiting: OrderedDict[KernelSpec, deque[KernelClient]] = OrderedDict()

    async def warm_up(self, spec: KernelSpec) -> None:
        """Start ready kernels with this spec.

        Raises:
            SandboxError: A kernel cannot be started.
        """
        self.refill(spec)
        while tasks := [task for task, wanted in self._starting.items() if wanted == spec]:
            await asyncio.gather(*tasks)

    def take(self, spec: KernelSpec) -> KernelClient | None:
        """Return a ready kernel, or None."""
        waiting = self.waiting.get(spec)
        while waiting:
            client = waiting.popleft()
            if client.kernel.alive:
                return client
            client.close()  # the kernel died before it was taken
            client.kernel.forget()
        return None

    async def start(self, spec: KernelSpec) -> KernelClient:
        """Start a new kernel.

        Raises:
            SandboxError: The kernel cannot be started.
        """
        kernel = await BoxedKernel.start(self._sandbox, spec)
        try:
            return await KernelClient.with_ready(kernel, self._context)
        except BaseException:
            await kernel.kill()
            kernel.forget()
            raise

    def refill(self, spec: KernelSpec) -> None:
        """Start kernels with this spec in advance, and end ready kernels whose specs have not been used recently."""
        if self._closed or not self._warm:
            return
        waiting = self.waiting.setdefault(spec, deque())
        self.waiting.move_to_end(spec)
        while len(self.waiting) > self._warm_specs:
            _, unused = self.waiting.popitem(last=False)
            for client in unused:
                self._begin(client.end(), spec)
        missing = self._warm - len(waiting) - sum(1 for each in self._starting.values() if each == spec)
        for _ in range(missing):
            self._begin(self._start_ahead(spec), spec)

    async def aclose(self) -> None:
        """End the kernels that were not taken. The caller must have closed the clients of all other kernels."""
        self._closed = True
        tasks = list(self._starting)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        waiting = [client for clients in self.waiting.values() for client in clients]
        self.waiting.clear()
        await asyncio.gather(*(client.end() for client in waiting))
        self._context.destroy(linger=0)

    def _begin(self, work: Coroutine[None, None, None], spec: KernelSpec) -> None:
        task = asyncio.ensure_future(work)
        self._starting[task] = spec
        task.add_done_callback(self._begun)

    def _begun(self, task: asyncio.Task[None]) -> None:
        """Forget a finished task and ignore its failure.

        Nobody waits for this kernel. If the cause persists, the next request that starts a kernel reports it.
        """
        self._starting.pop(task, None)
        if not task.cancelled():
            task.exception()

    async def _start_ahead(self, spec: KernelSpec) -> None:
        client = await self.start(spec)
        try:
            await client.rehearse()
        except BaseException:
            await client.end()
            raise
        waiting = self.waiting.get(spec)
        if waiting is None or self._closed:
            await client.end()
        else:
            waiting.append(client)
