"""One sandbox per test module: its template is started once, and every job gets a fresh box."""

from collections.abc import AsyncIterator

import pytest_asyncio

from sandbox.namespace.backend import NamespaceSandbox


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def box() -> AsyncIterator[NamespaceSandbox]:
    async with NamespaceSandbox() as sandbox:
        yield sandbox
