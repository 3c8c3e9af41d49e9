"""`KernelPool`: the kernels of all agents, by agent and name, and ready kernels for new names.

An agent's kernel gets a ready process if there is one, otherwise a new process is started. The process belongs to the
agent until it is stopped, dies, or has been idle for too long.
"""

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from sandbox.contract import Busy, SandboxError
from sandbox.kernels.agent_kernel import AgentKernel
from sandbox.kernels.boxed import ServerSandbox
from sandbox.kernels.cell_history import CellHistory
from sandbox.kernels.kernel_client import KernelClient
from sandbox.kernels.ready import Ready
from sandbox.kernels.spec import (
    DEFAULT_NAME,
    Cell,
    CellLimits,
    KernelOwner,
    KernelSpec,
    NoKernel,
    StateLoss,
    TooManyKernels,
)

_REPORT_FOR_S = 86_400.0  # a loss is forgotten if its agent does not return within a day
_MOST_ENDED = 64  # the maximum number of kernels without a process whose history is kept
_REFILL_AFTER_S = 0.05
_FEWEST_LOOKS = 4  # number of searches for idle kernels within `idle_s`


@dataclass(frozen=True, slots=True)
class PoolConfig:
    """The configuration of a pool.

    Attributes:
        most: The maximum number of kernels in use.
        per_agent: The maximum number of kernels of one agent.
        warm: The number of ready kernels for each spec in use.
        idle_s: A kernel is ended after this many seconds without a cell.
        retry_after_s: How long callers are told to wait when all kernels are in use.
    """

    most: int = 16
    per_agent: int = 4
    warm: int = 1
    warm_specs: int = 2
    idle_s: float = 1800.0
    retry_after_s: float = 30.0


class KernelPool:
    """The kernels of all agents. Use it in one event loop. Always close it."""

    def __init__(self, sandbox: ServerSandbox, config: PoolConfig | None = None) -> None:
        self._config = config or PoolConfig()
        self._ready = Ready(sandbox, self._config.warm, self._config.warm_specs)
        self._kernels: dict[tuple[KernelOwner, str], AgentKernel] = {}
        self._starting: set[AgentKernel] = set()
        self._culler: asyncio.Task[None] | None = None
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def warm_up(self, spec: KernelSpec) -> None:
        """Start ready kernels with this spec.

        Raises:
            SandboxError: A kernel cannot be started.
        """
        await self._ready.warm_up(spec)

    def kernel(
        self, owner: KernelOwner, name: str = DEFAULT_NAME, make_spec: Callable[[], KernelSpec] = KernelSpec
    ) -> AgentKernel:
        """Return the owner's kernel with this name. Its process is started by the first cell.

        Args:
            owner: The owner of the kernel.
            name: The name of the kernel.
            make_spec: Returns the spec. Called if the kernel is new or its owner has stopped it.

        Raises:
            SandboxError: The pool is closed.
        """
        if self._closed:
            raise SandboxError("The kernels are closed.")
        kernel = self._kernels.get((owner, name))
        if kernel is None:
            self._forget_oldest()
            kernel = self._kernels[owner, name] = AgentKernel(owner, name, make_spec(), self._start)
        elif kernel.client is None and kernel.state_lost is None and kernel.idle:
            kernel.spec = make_spec()
        return kernel

    async def run(
        self,
        owner: KernelOwner,
        code: str,
        *,
        name: str = DEFAULT_NAME,
        spec: KernelSpec | None = None,
        limits: CellLimits | None = None,
    ) -> Cell:
        """Run a cell in the owner's kernel with this name (`AgentKernel.run`).

        A new kernel is started with `spec`, or with the default spec if `spec` is None. If the kernel was started with
        a spec other than `spec`, the cell is refused, unless `spec` is None.
        """
        kernel = self.kernel(owner, name, lambda: spec or KernelSpec())
        if spec is not None and kernel.spec != spec:
            raise SandboxError(
                f"The kernel {name!r} was started with a different spec.",
                remedy="Stop the kernel, or use another name.",
            )
        return await kernel.run(code, limits)

    def find(self, owner: KernelOwner, name: str = DEFAULT_NAME, *, ended: bool = False) -> AgentKernel:
        """Return the owner's kernel with this name.

        With `ended`, this can also be a kernel that was stopped, or that lost its state.

        Raises:
            NoKernel: There is no such kernel.
        """
        kernel = self._kernels.get((owner, name))
        if kernel is None or (kernel.client is None and not ended):
            names = ", ".join(each.name for each in self.kernels(owner))
            raise NoKernel(f"There is no kernel {name!r}; {f'running: {names}' if names else 'none is running'}.")
        return kernel

    def kernels(self, owner: KernelOwner | None = None) -> list[AgentKernel]:
        """Return the running kernels, sorted by owner and name. With `owner`, return only that owner's kernels."""
        return [
            kernel
            for key, kernel in sorted(self._kernels.items(), key=lambda item: item[0])
            if kernel.alive and (owner is None or kernel.owner == owner)
        ]

    def report_again(self, kernel: AgentKernel, loss: StateLoss) -> None:
        """Report `loss` with the kernel's next result, because the result that reported it was not delivered."""
        self._kernels.setdefault((kernel.owner, kernel.name), kernel).report_again(loss)

    async def cull(self) -> int:
        """End the kernels that have been idle for too long, and return how many were ended."""
        now = asyncio.get_running_loop().time()
        idle_s = self._config.idle_s
        for kernel in self._kernels.values():
            if kernel.client is None and kernel.idle and kernel.last_used <= now - _REPORT_FOR_S:
                kernel.state_lost = None
        unused = [
            each for each in self._kernels.values() if each.client and each.idle and each.last_used <= now - idle_s
        ]
        for kernel in unused:
            kernel.lose(StateLoss((f"the kernel was ended after {idle_s:g} s without a cell",)))
        await asyncio.gather(*(kernel.end_process() for kernel in unused))
        return len(unused)

    async def aclose(self) -> None:
        """End every kernel."""
        self._closed = True
        kernels, self._kernels = list(self._kernels.values()), {}
        tasks = [kernel.ending for kernel in kernels if kernel.ending]
        if self._culler is not None:
            tasks.append(self._culler)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*(kernel.end_process() for kernel in kernels))
        await self._ready.aclose()

    async def _start(self, kernel: AgentKernel) -> KernelClient:
        """Return a process for this kernel: a ready one, or a new one.

        Raises:
            Busy: All kernels are in use.
            SandboxError: The owner has too many kernels, or the process cannot be started.
        """
        self._must_have_room(kernel.owner)
        self._starting.add(kernel)
        try:
            client = self._ready.take(kernel.spec) or await self._ready.start(kernel.spec)
        finally:
            self._starting.discard(kernel)
        if self._culler is None:
            self._culler = asyncio.ensure_future(self._cull_on())
        # Delayed, so that a short cell has ended before a start competes for the CPU.
        asyncio.get_running_loop().call_later(_REFILL_AFTER_S, self._ready.refill, kernel.spec)
        return client

    def _must_have_room(self, owner: KernelOwner) -> None:
        if self._closed:
            raise SandboxError("The kernels are closed.")
        used = [each for each in self._kernels.values() if each.client is not None or each in self._starting]
        own = sorted(kernel.name for kernel in used if kernel.owner == owner)
        if len(own) >= self._config.per_agent:
            raise TooManyKernels(
                f"There are {len(own)} kernels already: {', '.join(own)}.", remedy="Use or stop one of them."
            )
        if len(used) >= self._config.most:
            raise Busy("All kernels are in use.", retry_after=self._config.retry_after_s)

    async def _cull_on(self) -> None:
        while True:
            await asyncio.sleep(self._config.idle_s / _FEWEST_LOOKS)
            with contextlib.suppress(SandboxError):
                await self.cull()

    def _forget_oldest(self) -> None:
        """Drop the histories of the oldest kernels without a process; forget each of these with no loss to report."""
        ended = [kernel for kernel in self._kernels.values() if kernel.client is None and kernel.idle]
        for kernel in sorted(ended, key=lambda each: each.last_used)[: max(len(ended) - _MOST_ENDED, 0)]:
            kernel.history = CellHistory()
            if kernel.state_lost is None:
                del self._kernels[kernel.owner, kernel.name]
