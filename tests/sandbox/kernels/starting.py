"""Kernels that end with their test, on whichever backend."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import zmq.asyncio

from sandbox.kernels.boxed import BoxedKernel
from sandbox.kernels.spec import KernelSpec
from sandbox.kernels.talk import Talk

Start = Callable[..., Awaitable[tuple[BoxedKernel, Talk]]]


@asynccontextmanager
async def starting(box: object) -> AsyncIterator[Start]:
    """Starts a kernel of a spec's fields; gives it with a client that it has answered. box: a sandbox with kernels."""
    started: list[tuple[BoxedKernel, Talk]] = []
    context = zmq.asyncio.Context()

    async def begin(**wanted: object) -> tuple[BoxedKernel, Talk]:
        kernel = await BoxedKernel.start(box, KernelSpec(**wanted))  # type: ignore[arg-type]
        started.append((kernel, await Talk.with_ready(kernel, context)))
        return started[-1]

    try:
        yield begin
    finally:
        for kernel, talk in started:
            talk.close()
            kernel.forget()
            await kernel.kill()
        context.destroy(linger=0)
