"""Kernels that end with their test, on any backend."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import zmq.asyncio

from sandbox.kernels.boxed import BoxedKernel
from sandbox.kernels.kernel_client import KernelClient
from sandbox.kernels.spec import KernelOwner, KernelSpec

ANN, BOB, CID = (KernelOwner("local", name) for name in ("ann", "bob", "cid"))

Start = Callable[..., Awaitable[tuple[BoxedKernel, KernelClient]]]


@asynccontextmanager
async def starting(box: object) -> AsyncIterator[Start]:
    """Yield a function that takes the fields of a spec, starts a kernel, and returns it with a client that is ready.

    Args:
        box: A sandbox that supports kernels.
    """
    started: list[tuple[BoxedKernel, KernelClient]] = []
    context = zmq.asyncio.Context()

    async def begin(**wanted: object) -> tuple[BoxedKernel, KernelClient]:
        kernel = await BoxedKernel.start(box, KernelSpec(**wanted))  # type: ignore[arg-type]
        started.append((kernel, await KernelClient.with_ready(kernel, context)))
        return started[-1]

    try:
        yield begin
    finally:
        for kernel, talk in started:
            talk.close()
            kernel.forget()
            await kernel.kill()
        context.destroy(linger=0)
