"""One sandbox per test module, and kernels in it that end with their test."""

from collections.abc import AsyncIterator

import pytest_asyncio

from sandbox.namespace.backend import NamespaceSandbox
from tests.sandbox.kernels.starting import Start, starting


@pytest_asyncio.fixture(loop_scope="module")
async def start(box: NamespaceSandbox) -> AsyncIterator[Start]:
    """Start a kernel of a spec; gives it with a client that it has answered."""
    async with starting(box) as begin:
        yield begin
