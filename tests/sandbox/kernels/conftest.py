"""One sandbox for each test module, with kernels that end with their test."""

from collections.abc import AsyncIterator

import pytest_asyncio

from sandbox.namespace.backend import NamespaceSandbox
from tests.sandbox.kernels.starting import Start, starting


@pytest_asyncio.fixture(loop_scope="module")
async def start(box: NamespaceSandbox) -> AsyncIterator[Start]:
    """Yield a function that starts a kernel and returns it with a client that is ready."""
    async with starting(box) as begin:
        yield begin
