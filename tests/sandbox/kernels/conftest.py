"""One sandbox per test module, and kernels in it that end with their test."""

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest_asyncio
import zmq.asyncio

from sandbox.kernels.boxed import BoxedKernel
from sandbox.kernels.spec import KernelSpec
from sandbox.kernels.talk import Talk
from sandbox.namespace.backend import NamespaceSandbox

Start = Callable[..., Awaitable[tuple[BoxedKernel, Talk]]]


@pytest_asyncio.fixture(loop_scope="module")
async def start(box: NamespaceSandbox) -> AsyncIterator[Start]:
    """Start a kernel of a spec; gives it with a client that it has answered."""
    started: list[tuple[BoxedKernel, Talk]] = []
    context = zmq.asyncio.Context()

    async def begin(**wanted: object) -> tuple[BoxedKernel, Talk]:
        kernel = await BoxedKernel.start(box, KernelSpec(**wanted))  # type: ignore[arg-type]
        started.append((kernel, await Talk.with_ready(kernel, context)))
        return started[-1]

    yield begin
    for kernel, talk in started:
        talk.close()
        kernel.forget()
        await kernel.kill()
    context.destroy(linger=0)
